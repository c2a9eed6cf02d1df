// SPDX-License-Identifier: Apache-2.0
#include "SimulatedDevice.h"

#include "autopar/Cost/CostModel.h"

#include <algorithm>
#include <cstring>

namespace autopar::runtime {

int64_t SimulatedThreads::occupy(int32_t rank, int64_t ns, VirtualClock &clock) {
  int64_t &free = freeNs[size_t(rank)];
  free = std::min(std::max(free, clock.nowNs()) + ns, 2 * kHorizonNs);
  clock.wake(free, rank);
  return free;
}

static Work workOf(const artifact::Instruction &instruction) {
  auto *attention = std::get_if<artifact::Attention>(&instruction.payload);
  if (!attention)
    return Work::Product;
  return attention->geometry.isGradient() ? Work::AttentionGradient : Work::Attention;
}

Result<int64_t> InstructionTimes::ns(const artifact::Instruction &instruction) {
  using artifact::Queue;
  bool isOverLink = instruction.queue == Queue::CopyIn || instruction.queue == Queue::CopyOut;
  if (auto *copy = std::get_if<artifact::Copy>(&instruction.payload); copy && isOverLink) {
    if (type.hostLink.bytesPerSecond == 0)
      return Status::badInput("device type \"" + type.name +
                              "\": the program has tensors in host memory, and host_link is not "
                              "given");
    return virtualNs(hostCopyUs(double(copy->bytes), type.hostLink));
  }
  // The formula is as fast as a look.
  bool isLookedUp = !type.measured.list.empty();
  if (auto found = known.find(&instruction); isLookedUp && found != known.end())
    return found->second;
  auto us = instructionTimeUs(instruction.profileKey, double(instruction.flops),
                              double(instruction.bytes), instruction.arithmetic, type,
                              workOf(instruction));
  if (!us)
    return us.status();
  int64_t ns = virtualNs(*us);
  if (isLookedUp)
    known[&instruction] = ns;
  return ns;
}

Result<Token> SimulatedDevice::issue(const artifact::Instruction &instruction, int32_t,
                                     std::span<const Token>) {
  auto looked = times.ns(instruction);
  if (!looked)
    return looked.status();
  int64_t ns = *looked;
  ++count;
  if (ns == 0)
    return Token{0};
  int64_t &busyNs = busy[size_t(instruction.queue)];
  busyNs = std::min(busyNs + ns, kHorizonNs);
  if (threads)
    return Token(threads->occupy(rank, ns, clock));
  int64_t end = clock.nowNs() + ns;
  clock.wake(end, rank);
  return Token(end);
}

Status SimulatedDevice::read(int32_t, int64_t, void *data, int64_t bytes) {
  std::memset(data, 0, size_t(bytes));
  return Status::ok();
}

} // namespace autopar::runtime
