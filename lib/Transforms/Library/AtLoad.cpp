// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/AtLoad.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::isFixedParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && isParameter(argument) && !isOnHost(argument) &&
         !cast<func::FuncOp>(argument.getOwner()->getParentOp())
              .getArgAttr(argument.getArgNumber(), "autopar.donated");
}

static bool isOfKernels(Operation *op) {
  if (auto group = dyn_cast<GroupOp>(op))
    return llvm::all_of(group.getBody().front().without_terminator(),
                        [](Operation &inner) { return isOfKernels(&inner); });
  return isa<ViewOpInterface, ConstantOp>(op) ||
         (isa<ElementLoweringOpInterface, KernelLoweringOpInterface>(op) &&
          !isa<DotGeneralOp, ConvolutionOp, RandomOp>(op));
}

static int64_t bytesOf(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    bytes += tensorBytes(cast<RankedTensorType>(type));
  return bytes;
}

bool mlir::autopar::mayRunAtLoad(Operation *groupOrOp) {
  return isOfKernels(groupOrOp) &&
         mayBeMadeAtLoad(groupOrOp->getOperandTypes(), groupOrOp->getResultTypes());
}

bool mlir::autopar::mayBeMadeAtLoad(TypeRange from, TypeRange made) {
  constexpr int64_t free = 64 << 10;
  return bytesOf(made) <= free + bytesOf(from);
}
