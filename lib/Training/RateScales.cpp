// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "RateScales.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

static constexpr StringLiteral kFlag = "lr-scale";

FailureOr<RateScales> RateScales::of(Operation *module, ArrayRef<std::string> texts) {
  RateScales made;
  for (const std::string &text : texts) {
    auto [pattern, number] = StringRef(text).rsplit('=');
    double scale = 0;
    if (pattern.empty() || number.getAsDouble(scale) || !(scale > 0) || !std::isfinite(scale))
      return module->emitError() << kFlag
                                 << ": expected pattern=number, as in classifier*=10, with "
                                    "a positive number (--freeze keeps values), got \""
                                 << text << "\"";
    FailureOr<NamePatterns> patterns = NamePatterns::of(module, kFlag, {pattern.str()});
    if (failed(patterns))
      return failure();
    made.scales.emplace_back(std::move(*patterns), scale);
  }
  return made;
}

double RateScales::scaleOf(const ParameterNames &names) {
  for (auto &[patterns, scale] : scales)
    if (patterns.match(names) != NamePatterns::Match::None)
      return scale;
  return 1;
}

LogicalResult RateScales::checkUsed(Operation *module) const {
  for (const auto &[patterns, scale] : scales)
    if (failed(patterns.checkUsed(module,
                                  "parameter that is trained, and that no pattern before has,")))
      return failure();
  return success();
}
