// SPDX-License-Identifier: Apache-2.0
// Extents that what a step is given decides: by how many steps of its range each is below its most.
#pragma once

#include "autopar/Runtime/Session.h"

#include <map>
#include <optional>

namespace autopar::runtime {

/// By extent, how many steps it lacks; those that are not there lack none.
using Missing = std::map<std::string, int64_t>;

/// Positions that dimensions have at least, and by how many they vary: 1 where they do not.
std::vector<int64_t> leastShape(const TensorSpec &spec);
std::vector<int64_t> stepShape(const TensorSpec &spec);

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
