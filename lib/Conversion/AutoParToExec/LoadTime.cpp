// SPDX-License-Identifier: Apache-2.0
// What is known before the first step: parameters, constants, and what is computed from them alone.
#include "ProgramBuilder.h"

#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/AtLoad.h"
#include "autopar/Transforms/FewRows.h"

using namespace mlir;
using namespace mlir::autopar;

bool ProgramBuilder::isLoadTime(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getOwner()->getParentOp() == func::FuncOp(function) &&
           arguments[argument.getArgNumber()].isFixed();
  Operation *op = value.getDefiningOp();
  // Not of what groups hold: they go away with them.
  if (op->getBlock() != &func::FuncOp(function).getBody().front())
    return runsAtLoad(op);
  if (auto known = loadTimes.find(op); known != loadTimes.end())
    return known->second;
  bool runs = runsAtLoad(op);
  loadTimes[op] = runs;
  return runs;
}

bool ProgramBuilder::runsAtLoad(Operation *op) const {
  return mayRunAtLoad(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isLoadTime(operand); });
}

/// How often the step reads a value, itself or through views.
int64_t ProgramBuilder::countStepReads(Value value) const {
  int64_t count = 0;
  for (Operation *user : value.getUsers()) {
    if (user->getNumResults() == 0 || !isLoadTime(user->getResult(0)))
      ++count;
    else if (isa<ViewOpInterface>(user) && !user->hasAttr(kLaidOut))
      count += countStepReads(user->getResult(0));
  }
  return count;
}

/// A parameter that only computations at load read needs no room afterwards.
bool ProgramBuilder::isReadAtLoadOnly(Value parameter) const {
  // Without users it is what a library call took out of its group: the step reads it.
  return arguments[cast<BlockArgument>(parameter).getArgNumber()].isFixed() &&
         !parameter.use_empty() && countStepReads(parameter) == 0;
}

Value ProgramBuilder::readAtLoad(Value weight) {
  auto argument = dyn_cast<BlockArgument>(weight);
  if (!argument)
    return viewOf(weight).buffer;
  Value &scratch = loaded[argument];
  if (!scratch) {
    const Argument &info = arguments[argument.getArgNumber()];
    scratch = createBuffer(info.name + ".read", cast<RankedTensorType>(weight.getType()));
    exec::ReadOp::create(loadBuilder, function.getLoc(), info.name, scratch);
  }
  return scratch;
}

std::string ProgramBuilder::nameOf(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return arguments[argument.getArgNumber()].name;
  return getOpId(value.getDefiningOp()).str();
}
