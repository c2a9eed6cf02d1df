// SPDX-License-Identifier: Apache-2.0
// A parameter that a step trains, and what its optimizer keeps of it.
#pragma once

#include "autopar/Training/Optimizers.h"
#include "autopar/Training/ParameterMatrices.h"

namespace mlir::autopar {

struct TrainedParameter {
  BlockArgument argument;
  std::string name;
  bool decays = true;
  Value gradient = {};
  double rateScale = 1; ///< of the learning rate
  const Optimizer *optimizer = nullptr;
  ParameterMatrix matrix = {};   ///< where the optimizer is that of matrices
  SmallVector<Value> state = {}; ///< in the order of Optimizer::keptNames
};

/// Gives each its optimizer: that of matrices to those among `matrices`. A remark counts them where
/// there are two.
void chooseOptimizers(MutableArrayRef<TrainedParameter> trained, const Optimizers &optimizers,
                      const llvm::MapVector<BlockArgument, ParameterMatrix> &matrices,
                      Location loc);

/// Adds arguments for what the optimizers keep, named PARAMETER/STATE, of the parameter's shape,
/// outside as well; they and the parameters are donated.
void addState(func::FuncOp function, MutableArrayRef<TrainedParameter> trained);

} // namespace mlir::autopar
