// SPDX-License-Identifier: Apache-2.0
// How the memories of a job's devices are connected: by NCCL where every rank has a GPU of its own,
// else through memory of the host. All ranks decide alike.
#include "../comm/nccl/NcclCommunicator.h"
#include "../comm/staged/StagedCommunicator.h"
#include "SessionState.h"

#include <cstdlib>
#include <cstring>

namespace autopar::runtime {

using namespace artifact;

namespace {

constexpr int64_t kIdentityBytes = 16;

} // namespace

/// What every rank of the world says, in their order.
Result<std::vector<uint8_t>> Session::State::gatherFromAll(LocalRank &rank,
                                                           const std::vector<uint8_t> &own) {
  std::vector<int32_t> all(static_cast<size_t>(reader.worldSize()));
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = int32_t(i);
  std::vector<uint8_t> &sent = rank.messages.emplace_back(own);
  std::vector<uint8_t> &gathered = rank.messages.emplace_back(all.size() * own.size());
  CollectiveCall call{CollectiveKind::AllGather,
                      Reduction::Sum,
                      DataType::U8,
                      int64_t(sent.size()),
                      sent.data(),
                      gathered.data(),
                      &all};
  auto token = rank.communicator->collective(call);
  if (!token)
    return token.status();
  AUTOPAR_RETURN_IF_ERROR(waitFor(rank, *token));
  std::vector<uint8_t> result = std::move(gathered);
  rank.messages.clear();
  return result;
}

/// Loading a kernel may wait for all that runs, and so for a message that is only sent once the
/// kernel has run. Before the driver starts.
void Session::State::loadKernelsEarly() const {
  bool sends = false;
  for (int32_t rankClass = 0; rankClass < reader.classCount(); ++rankClass)
    sends |= sendsMessages(reader.program(rankClass));
  if (sends && reader.target().isCuda() && options.communication != CommunicationChoice::Staged)
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
}

Status Session::State::connectDevices(LocalRank &rank) {
  if (!rank.device->staging())
    return options.communication == CommunicationChoice::Auto
               ? Status::ok()
               : Status::mismatch("it is asked how GPUs communicate, but the program is for CPUs; "
                                  "leave --communication out");
  bool isNeeded = false;
  for (int32_t rankClass = 0; rankClass < reader.classCount(); ++rankClass)
    isNeeded |= communicates(reader.program(rankClass));
  if (isNeeded && options.communication != CommunicationChoice::Staged) {
    auto why = whyStaged(rank);
    if (!why)
      return why.status();
    if (why->empty())
      return connectByNccl(rank);
    if (options.communication == CommunicationChoice::Nccl)
      return Status::mismatch("NCCL is asked for, but " + *why);
    rank.communication = "through memory of the host: " + *why;
  } else if (isNeeded) {
    rank.communication = "through memory of the host, as is asked for";
  }
  rank.forDevice = createStagedCommunicator(*rank.communicator, *rank.device);
  return Status::ok();
}

/// Empty where every rank has a device of its own.
Result<std::string> Session::State::whyStaged(LocalRank &rank) {
  if (ranks.size() > size_t(workers->count()))
    return std::string("several ranks share a thread");
  std::string identity = rank.device->identity();
  if (int64_t(identity.size()) != kIdentityBytes)
    return std::string("NCCL knows CUDA devices only");
  auto gathered = gatherFromAll(rank, {identity.begin(), identity.end()});
  if (!gathered)
    return gathered.status();
  auto at = [&](int32_t r) { return gathered->data() + r * kIdentityBytes; };
  for (int32_t a = 0; a < reader.worldSize(); ++a)
    for (int32_t b = a + 1; b < reader.worldSize(); ++b)
      if (std::memcmp(at(a), at(b), kIdentityBytes) == 0)
        return "ranks " + std::to_string(a) + " and " + std::to_string(b) + " share a GPU";
  return std::string();
}

Status Session::State::connectByNccl(LocalRank &rank) {
  auto plan = planNccl(
      [this](int32_t other) {
        return RankProgram{&reader.programOfRank(other), &reader.rank(other)};
      },
      rank.rank);
  if (!plan)
    return plan.status().at(reader.path());
  NcclOptions nccl;
  nccl.host = rank.communicator.get();
  nccl.device = rank.device.get();
  nccl.ids = &rank.messages.emplace_back();
  nccl.ranksOfProcess = int32_t(ranks.size());
  nccl.plan = plan.take();
  nccl.verdict = options.verdict;
  auto connected = createNcclCommunicator(std::move(nccl));
  if (!connected)
    return connected.status().code() == StatusCode::NoDevice
               ? Status(StatusCode::NoDevice,
                        connected.status().message() + "; --communication staged does without it")
               : connected.status();
  rank.forDevice = connected.take();
  rank.communication = "by NCCL";
  return Status::ok();
}

} // namespace autopar::runtime
