// SPDX-License-Identifier: Apache-2.0
// Where the first NaN and the first infinity of a step are.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <optional>
#include <string>

namespace autopar::runtime {

class Device;

/// Whether a float holds a number. `dtype` is F32 or F64.
bool isFinite(DataType dtype, const void *value);

/// A place in the program, ordered as the program runs.
struct NonFinitePlace {
  int64_t order = 0; ///< negative: it was there before the step
  std::string what;  ///< "the result of h.0/attn/dot", "parameter w"
};

/// Looks at every float that a rank computes, one instruction after the other.
class NonFiniteSearch {
public:
  /// Inputs, parameters and state as they are before the step.
  Status visitBefore(const artifact::Program &program, Device &device);
  /// What an instruction has just written. `order` counts the instructions of the step.
  Status visit(const artifact::Program &program, const artifact::Instruction &instruction,
               int64_t order, int32_t slot, Device &device);

  const std::optional<NonFinitePlace> &firstNan() const { return nan; }
  const std::optional<NonFinitePlace> &firstInfinity() const { return infinity; }

private:
  std::optional<NonFinitePlace> nan, infinity;
};

} // namespace autopar::runtime
