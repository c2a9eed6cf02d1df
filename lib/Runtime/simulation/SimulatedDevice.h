// SPDX-License-Identifier: Apache-2.0
// A device without memory or arithmetic.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Runtime/Device.h"
#include "autopar/VirtualTime/VirtualClock.h"

#include <array>

namespace autopar::runtime {

/// Takes for an instruction what the cost model says of its FLOPs and bytes. Tokens are the times
/// at which instructions end. Buffers have no addresses; what is read from them is zero.
class SimulatedDevice : public Device {
public:
  /// Wakes `rank` when an instruction ends. Nothing given is owned.
  SimulatedDevice(int32_t rank, const DeviceType &type, VirtualClock &clock)
      : rank(rank), type(type), clock(clock) {}

  Status prepare(const artifact::Program &) override { return Status::ok(); }
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
  const DeviceType &type;
  VirtualClock &clock;
  std::array<int64_t, artifact::kQueueCount> busy{};
  int64_t count = 0;
};

} // namespace autopar::runtime
