// SPDX-License-Identifier: Apache-2.0
// Sums with a scatter into zeros become a scatter into the other addend.
#include "AccumulateScatters.h"

#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mlir::autopar;

/// The scatter behind `value` if all it does is to add into zeros, for this one reader.
static ScatterOp scatterIntoZeros(Value value) {
  auto scatter = value.getDefiningOp<ScatterOp>();
  bool fits = scatter && scatter->hasOneUse() && scatter.getKind() == ScatterKind::Add &&
              isIdentity(scatter.getInput(), ReductionKind::Sum);
  return fits ? scatter : ScatterOp();
}

void autopar::accumulateScatters(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(block)) {
    auto sum = dyn_cast<BinaryOp>(op);
    if (!sum || sum.getKind() != BinaryKind::Add || sum.getLhs() == sum.getRhs())
      continue;
    for (bool isRight : {false, true}) {
      ScatterOp scatter = scatterIntoZeros(isRight ? sum.getRhs() : sum.getLhs());
      if (!scatter)
        continue;
      scatter->moveBefore(sum);
      scatter.getInputMutable().assign(isRight ? sum.getLhs() : sum.getRhs());
      sum.getResult().replaceAllUsesWith(scatter.getResult());
      sum.erase();
      break;
    }
  }
}
