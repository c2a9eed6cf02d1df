// SPDX-License-Identifier: Apache-2.0
// Learning rates of groups of parameters: "classifier*=10" for a new head on a trained network.
#pragma once

#include "NamePatterns.h"

#include <vector>

namespace mlir::autopar {

class RateScales {
public:
  /// Each text is a pattern of names, =, and a positive number. Reports what is none.
  static FailureOr<RateScales> of(Operation *module, ArrayRef<std::string> texts);

  /// What the learning rate of a parameter is multiplied with: the first pattern that its names
  /// meet says it, 1 where none does.
  double scaleOf(const ParameterNames &names);
  /// Reports a pattern that no parameter meets.
  LogicalResult checkUsed(Operation *module) const;

private:
  std::vector<std::pair<NamePatterns, double>> scales;
};

} // namespace mlir::autopar
