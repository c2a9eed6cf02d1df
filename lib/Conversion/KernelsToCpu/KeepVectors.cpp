// SPDX-License-Identifier: Apache-2.0
// Before loops are unrolled whole: the vectorizer finds those that fill vectors as they are.
// Written out, the loop around them would be vectorized in their place, and gather what lies side
// by side: the channels of a block, of which every element has a sum of its own. Of some hundred
// loads and stores it takes seconds to find out that it cannot.
#include "Stages.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"

using namespace llvm;

namespace autopar::cpu {
namespace {

/// The longest block of channels, and the longest loop that LLVM writes out.
constexpr unsigned longestBlock = 16, longestWrittenOut = 128;
constexpr unsigned elementBits = 32;

/// Whether something in the loop walks over neighbouring elements.
bool isContiguous(const Loop &loop, ScalarEvolution &evolution) {
  for (BasicBlock *block : loop.blocks())
    for (Instruction &instruction : *block) {
      Value *place = getLoadStorePointerOperand(&instruction);
      auto *walk = place ? dyn_cast<SCEVAddRecExpr>(evolution.getSCEV(place)) : nullptr;
      if (!walk || walk->getLoop() != &loop)
        continue;
      auto *step = dyn_cast<SCEVConstant>(walk->getStepRecurrence(evolution));
      if (step && step->getAPInt() ==
                      instruction.getDataLayout().getTypeStoreSize(getLoadStoreType(&instruction)))
        return true;
    }
  return false;
}

/// Whether a loop of so many iterations becomes vectors, with little left over.
bool fillsVectors(const Function &kernel, unsigned count) {
  if (count > longestBlock)
    return count <= longestWrittenOut;
  unsigned width = 0;
  Attribute preferred = kernel.getFnAttribute("prefer-vector-width");
  return preferred.isStringAttribute() && !preferred.getValueAsString().getAsInteger(10, width) &&
         width > 0 && count > 0 && count * elementBits % width == 0;
}

} // namespace

PreservedAnalyses KeepVectorsPass::run(Loop &loop, LoopAnalysisManager &,
                                       LoopStandardAnalysisResults &analyses, LPMUpdater &) {
  if (loop.isInnermost() && loop.getParentLoop() &&
      fillsVectors(*loop.getHeader()->getParent(), analyses.SE.getSmallConstantTripCount(&loop)) &&
      isContiguous(loop, analyses.SE))
    loop.setLoopAlreadyUnrolled();
  return PreservedAnalyses::all();
}

} // namespace autopar::cpu
