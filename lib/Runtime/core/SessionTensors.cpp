// SPDX-License-Identifier: Apache-2.0
// Inputs and outputs of a session: whole tensors outside, boxes per rank inside.
#include "InputLimits.h"
#include "SessionState.h"

#include "autopar/Artifact/Verify.h"

#include <cmath>

namespace autopar::runtime {

using namespace artifact;

namespace {

/// Tags of output boxes on their way to rank 0, apart from those of programs.
constexpr int32_t kOutputTag = 0x40000000;

int64_t elements(const std::vector<int64_t> &extent) {
  int64_t product = 1;
  for (int64_t e : extent)
    product *= e;
  return product;
}

} // namespace

Result<TensorSpec> tensorNamed(const std::string &wanted, const std::string &kind,
                               const std::vector<TensorSpec> &tensors) {
  for (const TensorSpec &spec : tensors)
    if (spec.name == wanted)
      return spec;
  return Status::badInput("there is no " + kind + " '" + wanted + "'; the " + kind + "s are " +
                          describe(tensors));
}

static Status refuseGiven(const std::string &kind, const TensorSpec &spec, DataType dtype,
                          const std::vector<int64_t> &shape) {
  return Status::badInput(kind + " " + spec.name + ": expected " + describe({spec}) + ", got " +
                          describe({TensorSpec{spec.name, dtype, shape, 0}}));
}

Status checkGiven(const std::string &kind, const TensorSpec &spec, DataType dtype,
                  const std::vector<int64_t> &shape) {
  return spec.dtype == dtype && spec.shape == shape ? Status::ok()
                                                    : refuseGiven(kind, spec, dtype, shape);
}

Status Session::setInput(const std::string &wanted, DataType dtype,
                         const std::vector<int64_t> &shape, const void *data) {
  auto spec = tensorNamed(wanted, "input", state->inputs);
  if (!spec)
    return spec.status();
  auto missing = missingIn(*spec, shape);
  if (!missing || dtype != spec->dtype)
    return refuseGiven("input", *spec, dtype, shape);
  if (auto outside = firstOutside(spec->limits, dtype, data, elements(shape)))
    return Status::badInput("input " + wanted + " at " + indexText(outside->place, shape) + ": " +
                            outside->text);
  std::vector<uint8_t> padded;
  if (shape != spec->shape) {
    padded.resize(size_t(spec->bytes), 0);
    Box box{std::vector<int64_t>(shape.size(), 0), shape};
    copyBoxToGlobal(data, shape, box, padded.data(), spec->shape, byteSize(dtype));
    data = padded.data();
  }
  AUTOPAR_RETURN_IF_ERROR(state->writeInput(
      *spec,
      [&](const Box &box, void *out) {
        copyBoxToLocal(data, spec->shape, box, out, box.extent, byteSize(spec->dtype));
        return Status::ok();
      },
      data));
  state->missing.set(*spec, std::move(*missing));
  return Status::ok();
}

Status Session::setInput(const std::string &wanted, const BoxReader &read) {
  auto spec = tensorNamed(wanted, "input", state->inputs);
  if (!spec)
    return spec.status();
  state->missing.set(*spec, {});
  return state->writeInput(*spec, read, nullptr);
}

Status Session::setLearningRate(double rate) {
  if (!std::isfinite(rate) || rate < 0)
    return Status::badInput("learning rate " + std::to_string(rate) +
                            ": expected a number that is not negative");
  for (const LocalRank &rank : state->ranks) {
    int32_t control = state->reader.programOfRank(rank.rank).controlBuffer;
    if (control < 0)
      return Status::badInput(state->reader.path() +
                              " has no learning rate: compile the model with --train to train it");
    AUTOPAR_RETURN_IF_ERROR(
        rank.device->write(control, int64_t(ControlWord::LearningRate) * 8, &rate, 8));
  }
  return Status::ok();
}

/// Straight to where the ranks of this process keep it; there it stays, step after step.
Status Session::State::writeInput(const TensorSpec &spec, const BoxReader &read,
                                  const void *whole) {
  takeTurn();
  std::vector<Status> written(ranks.size(), Status::ok());
  workers->run([&](int32_t worker) {
    for (size_t i = size_t(worker); i < ranks.size(); i += size_t(workers->count()))
      written[i] = writeInput(ranks[i], spec, read, whole);
  });
  for (Status &status : written)
    AUTOPAR_RETURN_IF_ERROR(status);
  inputsGiven.insert(spec.name);
  return Status::ok();
}

/// A rank's box of an input: the caller knows micro-batches and samples as one dimension.
static Status readSamples(const Port &port, const PortShard &shard, const Session::BoxReader &read,
                          void *out) {
  if (port.microBatches == 1)
    return read({shard.offset, shard.extent}, out);
  Box box{{shard.offset.begin() + 1, shard.offset.end()},
          {shard.extent.begin() + 1, shard.extent.end()}};
  int64_t bytes = elements(box.extent) * byteSize(port.dtype);
  auto *part = static_cast<uint8_t *>(out);
  for (int64_t i = 0; i < shard.extent[0]; ++i, part += bytes) {
    box.offset[0] = (shard.offset[0] + i) * port.shape[1] + shard.offset[1];
    AUTOPAR_RETURN_IF_ERROR(read(box, part));
  }
  return Status::ok();
}

/// A rank's box of an input, padded with zeros where the rank's shape is larger. `whole` spares a
/// copy where the rank takes all of it; may be null.
Status Session::State::writeInput(LocalRank &rank, const TensorSpec &spec, const BoxReader &read,
                                  const void *whole) {
  const Program &program = reader.programOfRank(rank.rank);
  const RankTable &table = reader.rank(rank.rank);
  for (size_t i = 0; i < program.ports.size(); ++i) {
    const Port &port = program.ports[i];
    if (port.role != Role::Input || port.name != spec.name)
      continue;
    const PortShard &shard = table.ports[i];
    const Buffer &buffer = program.buffers[size_t(port.buffer)];
    if (whole && shard.extent == port.shape && buffer.shape == port.shape)
      return rank.device->write(port.buffer, 0, whole, spec.bytes);
    return writeBox(rank, i, [&](void *out) { return readSamples(port, shard, read, out); });
  }
  return Status::ok();
}

/// Fills a port's buffer from its box, which `read` gives; the rest of the buffer becomes zero.
Status Session::State::writeBox(LocalRank &rank, size_t port,
                                const std::function<Status(void *out)> &read) {
  const Program &program = reader.programOfRank(rank.rank);
  int32_t index = program.ports[port].buffer;
  const Buffer &buffer = program.buffers[size_t(index)];
  const std::vector<int64_t> &extent = reader.rank(rank.rank).ports[port].extent;
  if (extent == buffer.shape && rank.device->hostAddress(index))
    return read(rank.device->address(index, 0));
  std::vector<uint8_t> box(size_t(elements(extent) * byteSize(buffer.dtype)));
  AUTOPAR_RETURN_IF_ERROR(read(box.data()));
  if (extent == buffer.shape)
    return rank.device->write(index, 0, box.data(), int64_t(box.size()));
  std::vector<uint8_t> local(size_t(checkedBytes(buffer.shape, buffer.dtype).value_or(0)), 0);
  copyBoxToLocal(box.data(), extent, {std::vector<int64_t>(extent.size(), 0), extent}, local.data(),
                 buffer.shape, byteSize(buffer.dtype));
  return rank.device->write(index, 0, local.data(), int64_t(local.size()));
}

/// The rank's valid box of a port, dense.
std::vector<uint8_t> Session::State::compactBox(LocalRank &rank, size_t port) {
  const Program &program = reader.programOfRank(rank.rank);
  const PortShard &shard = reader.rank(rank.rank).ports[port];
  const Buffer &buffer = program.buffers[size_t(program.ports[port].buffer)];
  int64_t size = byteSize(buffer.dtype);
  std::vector<uint8_t> local(size_t(checkedBytes(buffer.shape, buffer.dtype).value_or(0)));
  (void)rank.device->read(program.ports[port].buffer, 0, local.data(), int64_t(local.size()));
  if (shard.extent == buffer.shape)
    return local;
  std::vector<uint8_t> compact(size_t(elements(shard.extent) * size));
  Box box{std::vector<int64_t>(shard.extent.size(), 0), shard.extent};
  copyBoxToLocal(local.data(), buffer.shape, box, compact.data(), shard.extent, size);
  return compact;
}

/// Puts a rank's box into the assembled output; `data` holds the box at the origin of `shape`.
void Session::State::takeBox(int32_t rank, size_t port, const void *data,
                             const std::vector<int64_t> &shape) {
  const Port &spec = reader.programOfRank(rank).ports[port];
  const PortShard &shard = reader.rank(rank).ports[port];
  copyBoxToGlobal(data, shape, {shard.offset, shard.extent}, outputData[spec.name].assembled.data(),
                  spec.shape, byteSize(spec.dtype));
}

void Session::State::takeOwnBox(LocalRank &rank, size_t port) {
  const Program &program = reader.programOfRank(rank.rank);
  int32_t buffer = program.ports[port].buffer;
  if (outputData[program.ports[port].name].direct)
    return;
  if (const void *data = rank.device->hostAddress(buffer))
    return takeBox(rank.rank, port, data, program.buffers[size_t(buffer)].shape);
  takeBox(rank.rank, port, compactBox(rank, port).data(),
          reader.rank(rank.rank).ports[port].extent);
}

/// Where a rank of this process holds the whole output, without padding, in memory that the host
/// reads.
const void *Session::State::wholeOutput(const std::string &wanted) {
  for (LocalRank &rank : ranks) {
    const Program &program = reader.programOfRank(rank.rank);
    for (size_t i = 0; i < program.ports.size(); ++i) {
      const Port &port = program.ports[i];
      const PortShard &shard = reader.rank(rank.rank).ports[i];
      bool isOutput = port.role == Role::Output || port.role == Role::Metric;
      if (isOutput && port.name == wanted && shard.replica == 0 && shard.extent == port.shape &&
          program.buffers[size_t(port.buffer)].shape == port.shape)
        return rank.device->hostAddress(port.buffer);
    }
  }
  return nullptr;
}

/// The port of an output on a rank that writes it; nothing on other ranks.
std::optional<size_t> Session::State::portToWrite(int32_t rank, const std::string &wanted) {
  const Program &program = reader.programOfRank(rank);
  for (size_t i = 0; i < program.ports.size(); ++i) {
    const Port &port = program.ports[i];
    const PortShard &shard = reader.rank(rank).ports[i];
    if ((port.role == Role::Output || port.role == Role::Metric) && port.name == wanted &&
        shard.replica == 0 && elements(shard.extent) > 0)
      return i;
  }
  return std::nullopt;
}

Status Session::State::receiveOutput(LocalRank &root, size_t output) {
  for (int32_t other = 0; other < reader.worldSize(); ++other) {
    auto port = portToWrite(other, outputs[output].name);
    if (other == root.rank || !port)
      continue;
    const PortShard &shard = reader.rank(other).ports[*port];
    auto compact = receiveBytes(
        root, other, kOutputTag + int32_t(output),
        size_t(elements(shard.extent) * byteSize(reader.programOfRank(other).ports[*port].dtype)));
    if (!compact)
      return compact.status();
    takeBox(other, *port, compact->data(), shard.extent);
  }
  return Status::ok();
}

Status Session::State::collect(LocalRank &rank) {
  for (size_t output = 0; output < outputs.size(); ++output) {
    auto port = portToWrite(rank.rank, outputs[output].name);
    if (port && isDistributed && rank.rank != 0)
      AUTOPAR_RETURN_IF_ERROR(
          sendBytes(rank, 0, kOutputTag + int32_t(output), compactBox(rank, *port)));
    else if (port)
      takeOwnBox(rank, *port);
    if (isDistributed && rank.rank == 0)
      AUTOPAR_RETURN_IF_ERROR(receiveOutput(rank, output));
  }
  return Status::ok();
}

Status Session::collectOutputs() {
  if (*state->turn != state.get())
    return Status::badInput(state->reader.path() + ": its outputs are gone, as a session beside it "
                                                   "was given inputs or ran since");
  if (hasOutputs())
    for (const TensorSpec &spec : state->outputs) {
      OutputTensor &output = state->outputData[spec.name];
      output.direct = state->wholeOutput(spec.name);
      output.assembled.assign(output.direct ? 0 : size_t(spec.bytes), 0);
    }
  AUTOPAR_RETURN_IF_ERROR(state->drive([&](LocalRank &rank) { return state->collect(rank); },
                                       [](LocalRank &) { return Status::ok(); }));
  for (const TensorSpec &spec : state->outputs)
    if (hasOutputs())
      state->cutOutput(spec);
  return state->options.checkReplicas ? state->compareReplicas() : Status::ok();
}

/// Leaves away positions that the inputs do not have.
void Session::State::cutOutput(const TensorSpec &spec) {
  std::vector<int64_t> shape = missing.shapeOf(spec);
  if (shape == spec.shape)
    return;
  OutputTensor &output = outputData[spec.name];
  std::vector<uint8_t> cut(size_t(elements(shape) * byteSize(spec.dtype)));
  Box box{std::vector<int64_t>(shape.size(), 0), shape};
  copyBoxToLocal(output.data(), spec.shape, box, cut.data(), shape, byteSize(spec.dtype));
  output.direct = nullptr;
  output.assembled = std::move(cut);
}

std::vector<int64_t> Session::outputShape(const TensorSpec &output) const {
  return state->missing.shapeOf(output);
}

Status Session::State::compareReplicas() {
  std::map<std::pair<std::string, std::vector<int64_t>>, std::vector<uint8_t>> seen;
  for (LocalRank &rank : ranks) {
    const Program &program = reader.programOfRank(rank.rank);
    for (size_t i = 0; i < program.ports.size(); ++i) {
      const Port &port = program.ports[i];
      if (port.role != Role::Output && port.role != Role::Metric)
        continue;
      std::vector<uint8_t> own = compactBox(rank, i);
      auto [first, isNew] =
          seen.try_emplace({port.name, reader.rank(rank.rank).ports[i].offset}, own);
      if (!isNew && first->second != own)
        return Status::internal("rank " + std::to_string(rank.rank) + " holds another value of '" +
                                port.name + "' than an earlier rank with the same part of it");
    }
  }
  return Status::ok();
}

Result<const void *> Session::output(const std::string &wanted) const {
  auto found = state->outputData.find(wanted);
  if (found == state->outputData.end())
    return Status::badInput("there is no output '" + wanted + "' here; the outputs are " +
                            describe(state->outputs) +
                            (hasOutputs() ? "" : " (they arrive on rank 0)"));
  return found->second.data();
}

} // namespace autopar::runtime
