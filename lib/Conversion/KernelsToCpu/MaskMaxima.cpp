// SPDX-License-Identifier: Apache-2.0
// LLVM turns max(m, select(c, x, -inf)) into select(c, max(m, x), m), and its loop vectorizer knows
// no conditional maxima: the loop would stay scalar. So the mask goes back to the element.
#include "Stages.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/PatternMatch.h"

using namespace llvm;
using namespace llvm::PatternMatch;

namespace autopar::cpu {
namespace {

/// What leaves every other number as it is; null where there is nothing such.
Constant *identityOf(const IntrinsicInst &extremum) {
  Type *type = extremum.getType();
  switch (extremum.getIntrinsicID()) {
  case Intrinsic::maximum:
    return ConstantFP::getInfinity(type, true);
  case Intrinsic::minimum:
    return ConstantFP::getInfinity(type, false);
  case Intrinsic::maxnum:
    return extremum.hasNoNaNs() ? ConstantFP::getInfinity(type, true) : nullptr;
  case Intrinsic::minnum:
    return extremum.hasNoNaNs() ? ConstantFP::getInfinity(type, false) : nullptr;
  default:
    return nullptr;
  }
}

/// select(c, max(m, x), m), where m is what the loop carries.
bool maskElement(PHINode &carried, Value *next) {
  Value *condition, *left, *right;
  if (!match(next, m_Select(m_Value(condition), m_Value(left), m_Value(right))))
    return false;
  bool keepsIfTrue = left == &carried;
  auto *extremum = dyn_cast<IntrinsicInst>(keepsIfTrue ? right : left);
  if ((keepsIfTrue ? left : right) != &carried || !extremum || !extremum->hasOneUse() ||
      extremum->arg_size() != 2)
    return false;
  Constant *identity = identityOf(*extremum);
  unsigned element = extremum->getArgOperand(0) == &carried ? 1 : 0;
  if (!identity || extremum->getArgOperand(1 - element) != &carried)
    return false;
  auto *select = cast<SelectInst>(next);
  IRBuilder<> builder(select);
  Value *x = extremum->getArgOperand(element);
  Value *masked = keepsIfTrue ? builder.CreateSelect(condition, identity, x)
                              : builder.CreateSelect(condition, x, identity);
  extremum->moveBefore(select->getIterator());
  extremum->setArgOperand(element, masked);
  select->replaceAllUsesWith(extremum);
  select->eraseFromParent();
  return true;
}

} // namespace

PreservedAnalyses MaskMaximaPass::run(Function &function, FunctionAnalysisManager &analyses) {
  bool any = false;
  for (Loop *loop : analyses.getResult<LoopAnalysis>(function).getLoopsInPreorder())
    if (BasicBlock *latch = loop->getLoopLatch(); latch && loop->isInnermost())
      for (PHINode &carried : loop->getHeader()->phis())
        any |= maskElement(carried, carried.getIncomingValueForBlock(latch));
  if (!any)
    return PreservedAnalyses::all();
  PreservedAnalyses preserved;
  preserved.preserveSet<CFGAnalyses>();
  return preserved;
}

} // namespace autopar::cpu
