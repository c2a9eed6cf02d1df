// SPDX-License-Identifier: Apache-2.0
#include "SimulatedDevice.h"

#include "autopar/Cost/CostModel.h"

#include <cmath>
#include <cstring>

namespace autopar::runtime {

Result<Token> SimulatedDevice::issue(const artifact::Instruction &instruction, int32_t,
                                     std::span<const Token>) {
  double us =
      opTimeUs(double(instruction.flops), double(instruction.bytes), instruction.arithmetic, type);
  int64_t ns = std::llround(us * 1e3);
  ++count;
  if (ns == 0)
    return Token{0};
  busy[size_t(instruction.queue)] += ns;
  int64_t end = clock.nowNs() + ns;
  clock.wake(end, rank);
  return Token(end);
}

Status SimulatedDevice::read(int32_t, int64_t, void *data, int64_t bytes) {
  std::memset(data, 0, size_t(bytes));
  return Status::ok();
}

} // namespace autopar::runtime
