// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "TrainedParameter.h"

#include "autopar/Base/AverageName.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Training/StepSignature.h"

using namespace mlir;
using namespace mlir::autopar;

void mlir::autopar::chooseOptimizers(
    MutableArrayRef<TrainedParameter> trained, const Optimizers &optimizers,
    const llvm::MapVector<BlockArgument, ParameterMatrix> &matrices, Location loc) {
  size_t chosen = 0;
  for (TrainedParameter &parameter : trained) {
    auto matrix = matrices.find(parameter.argument);
    bool isMatrix = matrix != matrices.end();
    parameter.optimizer = isMatrix ? optimizers.ofMatrices.get() : optimizers.others.get();
    if (isMatrix)
      parameter.matrix = matrix->second;
    parameter.rateScale *= parameter.optimizer->rateScale;
    chosen += isMatrix;
  }
  if (optimizers.ofMatrices)
    emitRemark(loc) << optimizers.ofMatrices->name << " updates " << chosen << " matrices, "
                    << optimizers.others->name << " the other " << trained.size() - chosen
                    << " parameters";
}

/// Of a state. An average would not follow in 16 bits.
static RankedTensorType stateType(const TrainedParameter &parameter, StringRef state) {
  auto type = cast<RankedTensorType>(parameter.argument.getType());
  bool isNarrow = parameter.optimizer->stateBits == 16 && state != ::autopar::kAverageState &&
                  type.getElementTypeBitWidth() > 16;
  return isNarrow ? type.clone(BFloat16Type::get(type.getContext())) : type;
}

void mlir::autopar::addState(func::FuncOp function, MutableArrayRef<TrainedParameter> trained) {
  SmallVector<Type> types;
  SmallVector<std::string> names;
  for (const TrainedParameter &parameter : trained)
    for (StringRef state : parameter.optimizer->keptNames()) {
      types.push_back(stateType(parameter, state));
      names.push_back(parameter.name + "/" + state.str());
    }
  Builder builder(function.getContext());
  NamedAttribute donated(builder.getStringAttr("autopar.donated"), builder.getUnitAttr());
  ArrayRef<BlockArgument> left = addArguments(function, types, names, donated);
  for (TrainedParameter &parameter : trained) {
    size_t count = parameter.optimizer->keptNames().size();
    parameter.state.assign(left.begin(), left.begin() + count);
    left = left.drop_front(count);
  }
  auto attributes = SignatureAttributes::ofArguments(function);
  for (const TrainedParameter &parameter : trained) {
    unsigned number = parameter.argument.getArgNumber();
    if (Attribute shape = attributes.get(number, kModelShapeAttribute))
      for (Value state : parameter.state)
        attributes.set(cast<BlockArgument>(state).getArgNumber(), kModelShapeAttribute, shape);
    attributes.set(number, donated.getName(), donated.getValue());
    attributes.set(number, "autopar.name", builder.getStringAttr(parameter.name));
  }
  attributes.write();
}
