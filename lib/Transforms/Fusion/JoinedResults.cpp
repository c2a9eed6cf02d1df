// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/JoinedResults.h"

using namespace mlir;
using namespace mlir::autopar;

ConcatOp mlir::autopar::concatOfResults(Operation *op) {
  ConcatOp concat;
  for (Value result : op->getResults()) {
    Value value = result;
    while (value.hasOneUse() && isWholeView(*value.user_begin()))
      value = value.user_begin()->getResult(0);
    auto reader = value.hasOneUse() ? dyn_cast<ConcatOp>(*value.user_begin()) : ConcatOp();
    if (!reader || (concat && reader != concat))
      return {};
    concat = reader;
  }
  return concat && concat.getInputs().size() == op->getNumResults() ? concat : ConcatOp();
}
