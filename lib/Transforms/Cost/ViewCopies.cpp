// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ViewCopies.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Transforms/LibraryContraction.h"

using namespace mlir;
using namespace mlir::autopar;

/// Libraries write results as they are looked at.
static bool isLibraryResult(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && isWholeView(op))
    op = op->getOperand(0).getDefiningOp();
  return op && (isa<AttentionOp, AttentionGradOp>(op) || hasLibraryContraction(op));
}

bool ViewCopies::isCopied(Operation *view) {
  auto group = dyn_cast<GroupOp>(view);
  if (!group)
    return isCopiedHere(view);
  Block &body = group.getBody().front();
  for (auto [argument, input] : llvm::zip_equal(body.getArguments(), group.getInputs()))
    strides[argument] = stridesOf(input);
  bool isCopied = false;
  for (Operation &inner : body.without_terminator())
    isCopied |= isCopiedHere(&inner);
  for (auto [result, value] :
       llvm::zip_equal(group.getResults(), body.getTerminator()->getOperands()))
    strides[result] = stridesOf(value);
  return isCopied;
}

bool ViewCopies::isCopiedHere(Operation *op) {
  auto layout = cast<ViewOpInterface>(op).getLayout(stridesOf(op->getOperand(0)));
  if (layout)
    strides[op->getResult(0)] = layout->strides;
  return !layout && !isLibraryResult(op->getOperand(0));
}

SmallVector<int64_t> ViewCopies::stridesOf(Value value) const {
  auto known = strides.find(value);
  return known == strides.end() ? denseStrides(cast<RankedTensorType>(value.getType()).getShape())
                                : known->second;
}
