// SPDX-License-Identifier: Apache-2.0
// Gradients of measured operations: one operation for those of all inputs, one for that of the
// weight, so that a schedule may keep them apart.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

bool isFloat(Value value) {
  return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
}

struct ProfiledGradient : GradientOpInterface::ExternalModel<ProfiledGradient, ProfiledOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange given) const {
    auto profiled = cast<ProfiledOp>(op);
    FormulaBuilder b(builder, op);
    SmallVector<int64_t> inputs;
    SmallVector<Type> types;
    for (auto [number, input] : llvm::enumerate(profiled.getInputs()))
      if (isFloat(input)) {
        inputs.push_back(number);
        types.push_back(input.getType());
      }
    types.push_back(profiled.getWorkspace().getType());
    bool isWeight = operand >= profiled.getInputs().size();
    if (!isWeight)
      for (Operation *user : profiled.getSaved().getUsers())
        if (auto known = dyn_cast<ProfiledBackwardOp>(user))
          return known.getGradients()[llvm::find(inputs, operand) - inputs.begin()];
    SmallVector<Value> cotangents;
    for (auto [number, output] : llvm::enumerate(profiled.getOutputs()))
      cotangents.push_back(given[number] ? given[number] : b.zeros(b.typeOf(output)));
    if (isWeight)
      return ProfiledWeightGradientOp::create(
                 builder, op->getLoc(),
                 TypeRange{profiled.getWeight().getType(), profiled.getWorkspace().getType()},
                 cotangents, profiled.getSaved(), profiled.getProfile(), inputs.empty())
          .getGradient();
    return ProfiledBackwardOp::create(builder, op->getLoc(), types, cotangents, profiled.getSaved(),
                                      profiled.getProfile(), inputs)
        .getGradients()[llvm::find(inputs, operand) - inputs.begin()];
  }
};

} // namespace

void mlir::autopar::attachProfiledGradients(MLIRContext &context) {
  ProfiledOp::attachInterface<ProfiledGradient>(context);
}
