// SPDX-License-Identifier: Apache-2.0
// What lasts from step to step, read and written from outside; and texts between the ranks'
// processes.
#include "SessionState.h"

#include <cstring>

namespace autopar::runtime {
namespace {

using artifact::Port;
using artifact::PortShard;
using artifact::Program;
using artifact::Role;

constexpr int32_t kTextTag = 0x60000000;

StateBox boxOf(const Port &port, const PortShard &shard) {
  return {port.name, port.dtype, port.shape, {shard.offset, shard.extent}};
}

bool isEmpty(const PortShard &shard) {
  for (int64_t extent : shard.extent)
    if (extent == 0)
      return true;
  return false;
}

} // namespace

const std::vector<TensorSpec> &Session::states() const { return state->states; }

Status Session::State::visitStates(LocalRank &rank, const StateVisitor &visit) {
  const Program &program = reader.programOfRank(rank.rank);
  std::vector<StateBox> boxes;
  std::vector<size_t> ports;
  for (size_t i = 0; i < program.ports.size(); ++i) {
    const PortShard &shard = reader.rank(rank.rank).ports[i];
    if (program.ports[i].role != Role::State || shard.replica != 0 || isEmpty(shard))
      continue;
    boxes.push_back(boxOf(program.ports[i], shard));
    ports.push_back(i);
  }
  return visit(rank.rank, boxes, [&](size_t box) { return compactBox(rank, ports[box]); });
}

/// All states, or the one that is called so.
Status Session::State::setStates(LocalRank &rank, const std::string *only,
                                 const StateReader &read) {
  const Program &program = reader.programOfRank(rank.rank);
  for (size_t i = 0; i < program.ports.size(); ++i) {
    const PortShard &shard = reader.rank(rank.rank).ports[i];
    if (program.ports[i].role == Role::State && !isEmpty(shard) &&
        (!only || program.ports[i].name == *only))
      AUTOPAR_RETURN_IF_ERROR(
          writeBox(rank, i, [&](void *out) { return read(boxOf(program.ports[i], shard), out); }));
  }
  return Status::ok();
}

Status Session::visitStates(const StateVisitor &visit) {
  return state->drive([&](LocalRank &rank) { return state->visitStates(rank, visit); },
                      [](LocalRank &) { return Status::ok(); });
}

Status Session::setStates(const StateReader &read) {
  return state->drive([&](LocalRank &rank) { return state->setStates(rank, nullptr, read); },
                      [](LocalRank &) { return Status::ok(); });
}

Result<TensorSpec> Session::State::stateNamed(const std::string &wanted) const {
  if (isDistributed)
    return Status::badInput(
        "state " + wanted +
        ": a state is read and written whole where all ranks are in one process");
  return tensorNamed(wanted, "state", states);
}

Status Session::readState(const std::string &wanted, void *data) {
  auto spec = state->stateNamed(wanted);
  if (!spec)
    return spec.status();
  return visitStates([&](int32_t, const std::vector<StateBox> &boxes, const BoxBytes &read) {
    for (size_t i = 0; i < boxes.size(); ++i) {
      if (boxes[i].name != wanted)
        continue;
      auto bytes = read(i);
      if (!bytes)
        return bytes.status();
      copyBoxToGlobal(bytes->data(), boxes[i].box.extent, boxes[i].box, data, boxes[i].shape,
                      byteSize(spec->dtype));
    }
    return Status::ok();
  });
}

Status Session::setState(const std::string &wanted, DataType dtype,
                         const std::vector<int64_t> &shape, const void *data) {
  auto spec = state->stateNamed(wanted);
  if (!spec)
    return spec.status();
  AUTOPAR_RETURN_IF_ERROR(checkGiven("state", *spec, dtype, shape));
  auto write = [&](LocalRank &rank) {
    return state->setStates(rank, &wanted, [&](const StateBox &box, void *out) {
      copyBoxToLocal(data, box.shape, box.box, out, box.box.extent, byteSize(spec->dtype));
      return Status::ok();
    });
  };
  return state->drive(write, [](LocalRank &) { return Status::ok(); });
}

Status Session::State::sendText(LocalRank &rank, int32_t to, const std::string &text) {
  uint64_t count = text.size();
  auto *begin = reinterpret_cast<const uint8_t *>(&count);
  AUTOPAR_RETURN_IF_ERROR(sendBytes(rank, to, kTextTag, {begin, begin + sizeof(count)}));
  return sendBytes(rank, to, kTextTag, {text.begin(), text.end()});
}

Result<std::string> Session::State::receiveText(LocalRank &rank, int32_t from) {
  uint64_t count = 0;
  auto bytes = receiveBytes(rank, from, kTextTag, sizeof(count));
  if (!bytes)
    return bytes.status();
  std::memcpy(&count, bytes->data(), sizeof(count));
  bytes = receiveBytes(rank, from, kTextTag, size_t(count));
  if (!bytes)
    return bytes.status();
  return std::string(bytes->begin(), bytes->end());
}

Result<std::vector<std::string>> Session::gatherTexts(const std::string &mine) {
  std::vector<std::string> texts;
  if (hasOutputs())
    texts.push_back(mine);
  if (!state->isDistributed)
    return texts;
  Status status = state->drive(
      [&](LocalRank &rank) {
        if (rank.rank != 0)
          return state->sendText(rank, 0, mine);
        for (int32_t other = 1; other < state->reader.worldSize(); ++other) {
          auto text = state->receiveText(rank, other);
          if (!text)
            return text.status();
          texts.push_back(text.take());
        }
        return Status::ok();
      },
      [](LocalRank &) { return Status::ok(); });
  if (!status.isOk())
    return status;
  return texts;
}

Result<std::string> Session::broadcastText(const std::string &text) {
  std::string result = text;
  if (!state->isDistributed)
    return result;
  Status status = state->drive(
      [&](LocalRank &rank) {
        if (rank.rank != 0) {
          auto received = state->receiveText(rank, 0);
          if (received)
            result = received.take();
          return received.status();
        }
        for (int32_t other = 1; other < state->reader.worldSize(); ++other)
          AUTOPAR_RETURN_IF_ERROR(state->sendText(rank, other, text));
        return Status::ok();
      },
      [](LocalRank &) { return Status::ok(); });
  if (!status.isOk())
    return status;
  return result;
}

} // namespace autopar::runtime
