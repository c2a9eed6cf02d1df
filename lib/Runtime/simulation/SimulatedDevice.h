// SPDX-License-Identifier: Apache-2.0
// A device without memory or arithmetic.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Runtime/Device.h"
#include "autopar/VirtualTime/VirtualClock.h"

#include <array>
#include <unordered_map>
#include <vector>

namespace autopar::runtime {

/// What ranks work at, where they do one thing at a time.
struct SimulatedThreads {
  std::vector<int64_t> freeNs; ///< by rank: computes or communicates until then
  /// Takes `ns` of a rank's time from when it is free; gives the end.
  int64_t occupy(int32_t rank, int64_t ns, VirtualClock &clock);
};

/// Times of the instructions of programs, which stay where they are, on devices of a type; each is
/// looked up once.
class InstructionTimes {
public:
  explicit InstructionTimes(const DeviceType &type) : type(type) {}
  Result<int64_t> ns(const artifact::Instruction &instruction);

private:
  const DeviceType &type;
  std::unordered_map<const artifact::Instruction *, int64_t> known;
};

/// Takes for an instruction what the cost model says of its FLOPs and bytes. Tokens are the times
/// at which instructions end. Buffers have no addresses; what is read from them is zero.
class SimulatedDevice : public Device {
public:
  /// Wakes `rank` when an instruction ends. Nothing given is owned. Without threads, the rank
  /// communicates while it computes.
  SimulatedDevice(int32_t rank, InstructionTimes &times, SimulatedThreads *threads,
                  VirtualClock &clock)
      : rank(rank), times(times), threads(threads), clock(clock) {}

  using Device::prepare;
  Status prepare(const artifact::Program &, BufferPlaces, std::span<const int64_t>) override {
    return Status::ok();
  }
  void *address(int32_t, int32_t) override { return nullptr; }
  Result<Token> issue(const artifact::Instruction &instruction, int32_t slot,
                      std::span<const Token> after) override;
  Result<bool> test(Token token) override { return clock.nowNs() >= int64_t(token); }
  Status write(int32_t, int64_t, const void *, int64_t) override { return Status::ok(); }
  Status read(int32_t buffer, int64_t offset, void *data, int64_t bytes) override;
  int64_t unplannedBytes() const override { return 0; }

  /// How long the instructions of a queue took.
  int64_t busyNs(artifact::Queue queue) const { return busy[size_t(queue)]; }
  /// Forgets it.
  void clearBusy() { busy.fill(0); }
  int64_t instructions() const { return count; }

private:
  int32_t rank;
  InstructionTimes &times;
  SimulatedThreads *threads;
  VirtualClock &clock;
  std::array<int64_t, artifact::kQueueCount> busy{};
  int64_t count = 0;
};

} // namespace autopar::runtime
