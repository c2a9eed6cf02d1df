// SPDX-License-Identifier: Apache-2.0
// The files about a plan that a compilation is asked for: the plan itself, the model with it, its
// report and trace, and what else was possible.
#pragma once

#include "autopar/Pipelines/Compile.h"
#include "autopar/Plan/PlanDetails.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

class PlanFiles {
public:
  /// `options` outlives it.
  explicit PlanFiles(const CompileOptions &options) : options(options) {}

  /// Before a function of whole tensors is split: reports tell how many samples a step takes, and
  /// how many words where they are numbers.
  void countSamples(func::FuncOp function);
  bool areWanted() const;
  /// Whether one of them tells of the best plans without the dearest choices.
  bool tellAlternatives() const {
    return !options.report.empty() || !options.emitAlternatives.empty();
  }
  ::autopar::Status writeAlternatives(ArrayRef<::autopar::Plan> others) const;
  /// All others. `text` is the plan's.
  ::autopar::Status write(const ::autopar::Plan &plan, const std::string &text,
                          const ::autopar::PlanDetails &details) const;

private:
  const CompileOptions &options;
  int64_t samples = 0, tokens = 0; ///< of a step
};

} // namespace mlir::autopar
