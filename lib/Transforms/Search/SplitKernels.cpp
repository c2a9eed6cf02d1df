// SPDX-License-Identifier: Apache-2.0
// See the header. What the layer hands on is as a rule a sum, stored by the kernel that also norms
// it: computed again as a whole it would need what it adds, which is more than the sum.
#include "SplitKernels.h"

#include "Fusion/FusionClusters.h"
#include "Stages/Recompute.h"
#include "Stages/StagePhases.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The operations of a body that two sets of what it yields are made of.
struct Parts {
  llvm::SetVector<Operation *> first, second;
  SmallVector<Value> firstYields, secondYields;
};

/// Adds what `value` is made of inside of the body, as far as `stored`.
void addSlice(Value value, Value stored, llvm::SetVector<Operation *> &slice) {
  Operation *op = value.getDefiningOp();
  if (!op || value == stored || slice.contains(op))
    return;
  for (Value operand : op->getOperands())
    addSlice(operand, stored, slice);
  slice.insert(op);
}

/// `value` and what is made of it.
DenseSet<Value> madeOf(Value value, Block &body) {
  DenseSet<Value> made{value};
  for (Operation &op : body.without_terminator())
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return made.contains(operand); }))
      made.insert(op.getResult(0));
  return made;
}

/// The id of the first operation of the forward pass, by which plans may name the part.
StringRef nameOf(const llvm::SetVector<Operation *> &ops) {
  for (Operation *op : ops)
    if (!getOpId(op).empty() && !op->hasAttr("autopar.phase"))
      return getOpId(op);
  return {};
}

/// Whether the parts have no work in common, and read nothing in common that would be kept for it.
bool areApart(const Parts &parts) {
  DenseSet<Value> read;
  for (Operation *op : parts.first)
    read.insert_range(op->getOperands());
  return llvm::none_of(parts.second, [&](Operation *op) {
    return (parts.first.contains(op) && !isFluid(op)) ||
           llvm::any_of(op->getOperands(), [&](Value operand) {
             return isa<BlockArgument>(operand) && read.contains(operand);
           });
  });
}

/// Whether operations only lay out anew what they read. As a kernel of its own that looks like a
/// view, which stores nothing; this one stores it.
bool onlyLayOut(const llvm::SetVector<Operation *> &ops) {
  return llvm::all_of(ops, llvm::IsaPred<ViewOpInterface>);
}

/// At the first value that others are made of, where that parts the group.
std::optional<Parts> partsOf(GroupOp group) {
  Block &body = group.getBody().front();
  if (group.getNumResults() < 2 || llvm::any_of(body.without_terminator(), [](Operation &op) {
        return isFixed(&op) || op.getNumRegions() > 0 || op.getNumResults() != 1;
      }))
    return std::nullopt;
  OperandRange yields = body.getTerminator()->getOperands();
  for (Value stored : yields) {
    if (!stored.getDefiningOp())
      continue;
    DenseSet<Value> behind = madeOf(stored, body);
    Parts parts;
    for (Value value : yields)
      (value != stored && behind.contains(value) ? parts.secondYields : parts.firstYields)
          .push_back(value);
    for (Value value : parts.firstYields)
      addSlice(value, {}, parts.first);
    for (Value value : parts.secondYields)
      addSlice(value, stored, parts.second);
    if (!parts.secondYields.empty() && areApart(parts) && !onlyLayOut(parts.first) &&
        !nameOf(parts.first).empty() && !nameOf(parts.second).empty())
      return parts;
  }
  return std::nullopt;
}

/// A group of some of the body's operations, in their order. `known` are values of the body that
/// others have made.
GroupOp makePart(OpBuilder &builder, GroupOp group, const llvm::SetVector<Operation *> &ops,
                 ArrayRef<Value> yields, const IRMapping &known) {
  llvm::SetVector<Value> inputs;
  for (Operation *op : ops)
    for (Value operand : op->getOperands())
      if (!ops.contains(operand.getDefiningOp()))
        inputs.insert(operand);
  SmallVector<Value> given =
      llvm::map_to_vector(inputs, [&](Value input) { return known.lookup(input); });
  SmallVector<Type> types =
      llvm::map_to_vector(yields, [](Value value) { return value.getType(); });
  auto part = GroupOp::create(builder, group.getLoc(), types, given);
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&part.getBody(), {}, ValueRange(given).getTypes(),
                                    SmallVector<Location>(given.size(), group.getLoc()));
  IRMapping mapping;
  mapping.map(inputs.getArrayRef(), body->getArguments());
  for (Operation &op : group.getBody().front().without_terminator())
    if (ops.contains(&op))
      builder.clone(op, mapping);
  YieldOp::create(builder, group.getLoc(),
                  llvm::map_to_vector(yields, [&](Value value) { return mapping.lookup(value); }));
  setOpId(part, nameOf(ops));
  return part;
}

SplitKernel split(GroupOp group, const Parts &parts) {
  OpBuilder builder(group->getContext());
  builder.setInsertionPointAfter(group);
  Block &body = group.getBody().front();
  IRMapping known;
  known.map(body.getArguments(), group.getInputs());
  SplitKernel kernel;
  kernel.whole = group;
  kernel.first = makePart(builder, group, parts.first, parts.firstYields, known);
  known.map(parts.firstYields, kernel.first.getResults());
  kernel.second = makePart(builder, group, parts.second, parts.secondYields, known);
  known.map(parts.secondYields, kernel.second.getResults());
  for (auto [value, result] :
       llvm::zip_equal(body.getTerminator()->getOperands(), group.getResults())) {
    kernel.results.push_back(known.lookup(value));
    result.replaceAllUsesWith(kernel.results.back());
  }
  return kernel;
}

} // namespace

SmallVector<SplitKernel> mlir::autopar::splitKernels(func::FuncOp function, Target target,
                                                     IsSplit isSplit) {
  if (target == Target::Cpu)
    return {};
  Block &block = function.getBody().front();
  StagePhases phases(block);
  SmallVector<SplitKernel> kernels;
  for (auto group : llvm::make_early_inc_range(block.getOps<GroupOp>())) {
    if (phases.isBackward(group) || !mayRecompute(group))
      continue;
    if (std::optional<Parts> parts = partsOf(group);
        parts && isSplit(parts->first.getArrayRef(), parts->second.getArrayRef()))
      kernels.push_back(split(group, *parts));
  }
  return kernels;
}

void mlir::autopar::joinKernels(ArrayRef<SplitKernel> kernels) {
  for (const SplitKernel &kernel : kernels) {
    GroupOp whole = kernel.whole;
    for (auto [result, part] : llvm::zip_equal(whole.getResults(), kernel.results))
      Value(part).replaceAllUsesWith(result);
    for (GroupOp part : {kernel.second, kernel.first})
      part.erase();
  }
}
