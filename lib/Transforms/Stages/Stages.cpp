// SPDX-License-Identifier: Apache-2.0
// One walk over the block.
#include "autopar/Transforms/Stages.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

SmallVector<SmallVector<int64_t>> mlir::autopar::stageDevices(func::FuncOp function,
                                                              int64_t devices) {
  SmallVector<SmallVector<int64_t>> parts;
  if (auto own = function->getAttrOfType<ArrayAttr>(kStageDevicesAttribute)) {
    for (auto part : own.getAsRange<DenseI64ArrayAttr>())
      parts.emplace_back(part.asArrayRef());
    return parts;
  }
  auto count = function->getAttrOfType<IntegerAttr>(kStageMeshesAttribute);
  int64_t meshes = count ? count.getInt() : 1, each = devices / meshes;
  for (int64_t mesh = 0; mesh < meshes; ++mesh)
    parts.push_back(llvm::to_vector(llvm::seq<int64_t>(mesh * each, (mesh + 1) * each)));
  return parts;
}

void mlir::autopar::setStageDevices(func::FuncOp function, ArrayRef<SmallVector<int64_t>> meshes) {
  Builder builder(function.getContext());
  int64_t each = meshes.front().size();
  bool isDefault = true;
  SmallVector<Attribute> lists;
  for (auto [mesh, own] : llvm::enumerate(meshes)) {
    isDefault &= llvm::equal(own, llvm::seq<int64_t>(mesh * each, (mesh + 1) * each));
    lists.push_back(builder.getDenseI64ArrayAttr(own));
  }
  if (isDefault)
    function->removeAttr(kStageDevicesAttribute);
  else
    function->setAttr(kStageDevicesAttribute, builder.getArrayAttr(lists));
}

Stages::Stages(func::FuncOp function) : function(function) {
  bool isAnyOnStage = false; // so far
  for (BlockArgument argument : function.getArguments()) {
    int64_t stage = of(argument);
    isAnyOnStage |= stage != kNone;
    stageCount = std::max(stageCount, stage + 1);
  }
  for (Operation &op : function.getBody().front().without_terminator()) {
    int64_t stage = kNone;
    if (auto transfer = dyn_cast<TransferOp>(op))
      stage = transfer.getStage();
    else if (isAnyOnStage)
      for (Value operand : op.getOperands())
        stage = std::max(stage, of(operand));
    if (stage == kNone)
      continue;
    isAnyOnStage = true;
    stages[&op] = stage;
    stageCount = std::max(stageCount, stage + 1);
  }
}

int64_t Stages::of(Value value) const {
  if (Operation *op = value.getDefiningOp())
    return of(op);
  auto stage = function.getArgAttrOfType<IntegerAttr>(cast<BlockArgument>(value).getArgNumber(),
                                                      kStageAttribute);
  return stage ? stage.getInt() : kNone;
}

int64_t Stages::senderOf(TransferOp transfer) const {
  auto argument = dyn_cast<BlockArgument>(transfer.getInput());
  if (argument && !function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
    return kNone;
  return of(transfer.getInput());
}

LogicalResult Stages::verify() const {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (auto transfer = dyn_cast<TransferOp>(op)) {
      if (auto first = transfer.getInput().getDefiningOp<TransferOp>())
        return op.emitOpError() << "sends on what stage " << first.getStage()
                                << " was sent; expected a transfer of the value from the stage "
                                   "that makes it";
      continue;
    }
    for (Value operand : op.getOperands())
      if (of(operand) != kNone && of(operand) != of(&op))
        return op.emitOpError() << "reads values of stages " << of(operand) << " and " << of(&op)
                                << "; expected an autopar.transfer between them";
  }
  return success();
}

StagePlaces::StagePlaces(func::FuncOp function) : stages(function) {
  if (stages.count() == 1)
    return;
  for (Operation &op : llvm::reverse(function.getBody().front().without_terminator())) {
    if (of(&op) != Stages::kNone)
      continue;
    llvm::SmallBitVector own(stages.count());
    for (Operation *user : op.getUsers()) {
      int64_t stage = of(user);
      if (stage == Stages::kNone && user->hasTrait<OpTrait::IsTerminator>())
        stage = 0; // whose mesh returns it
      if (stage == Stages::kNone)
        own |= readers.lookup(user);
      else
        own.set(stage);
    }
    readers[&op] = std::move(own);
  }
}

bool StagePlaces::areTogether(Operation *one, Operation *other) const {
  int64_t stage = of(one);
  if (stage != Stages::kNone || of(other) != Stages::kNone || stages.count() == 1)
    return stage == of(other);
  return readers.lookup(one) == readers.lookup(other);
}
