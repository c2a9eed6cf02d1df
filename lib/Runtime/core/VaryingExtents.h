// SPDX-License-Identifier: Apache-2.0
// Extents that what a step is given decides: how many positions of each are missing.
#pragma once

#include "autopar/Runtime/Session.h"

#include <map>
#include <optional>

namespace autopar::runtime {

/// By extent, how many positions its dimensions lack; those that are not there lack none.
using Missing = std::map<std::string, int64_t>;

/// Positions that dimensions have at least.
std::vector<int64_t> leastShape(const TensorSpec &spec);

/// What a shape lacks; nothing where it is none that the tensor may have.
std::optional<Missing> missingIn(const TensorSpec &spec, const std::vector<int64_t> &shape);

/// What the inputs of a step lack.
class MissingPositions {
public:
  void set(const TensorSpec &input, Missing missing);
  /// BadInput where inputs disagree about an extent.
  Status agree(const std::vector<TensorSpec> &inputs);
  /// Of all inputs, once they agree.
  int64_t of(const std::string &extent) const;
  /// The shape that a tensor has then.
  std::vector<int64_t> shapeOf(const TensorSpec &spec) const;

private:
  std::map<std::string, Missing> byInput;
  Missing agreed;
};

} // namespace autopar::runtime
