// SPDX-License-Identifier: Apache-2.0
// Before loops are unrolled whole: the vectorizer finds those that fill vectors as they are.
// Written out, the loop around them would be vectorized in their place, and gather what lies side
// by side: the channels of a block, of which every element has a sum of its own. Of some hundred
// loads and stores it takes seconds to find out that it cannot. Sums of products with what all rows
// read (a row by a matrix) stay loops however long they are: written out, all of that is kept in
// more registers than there are, and each row is added to one vector, in another order than it
// lies in memory.
#include "Stages.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace llvm;

namespace autopar::cpu {
namespace {

/// The longest block of channels, and the longest loop that LLVM writes out.
constexpr unsigned longestBlock = 16, longestWrittenOut = 128;
constexpr unsigned elementBits = 32;
/// Of a long sum: vectors that it is in, and those that an iteration adds to each.
constexpr unsigned partialSums = 4, vectorsOfSum = 2;

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

/// Whether the loop sums floats that it makes of what the loop around it reads again in every
/// iteration.
bool sumsWhatRowsShare(const Loop &loop, ScalarEvolution &evolution) {
  bool sums = llvm::any_of(loop.getHeader()->phis(), [](PHINode &phi) {
    return phi.getType()->getScalarType()->isFloatingPointTy();
  });
  return sums && llvm::any_of(loop.blocks(), [&](BasicBlock *block) {
           return llvm::any_of(*block, [&](Instruction &instruction) {
             auto *load = dyn_cast<LoadInst>(&instruction);
             auto *walk =
                 load ? dyn_cast<SCEVAddRecExpr>(evolution.getSCEV(load->getPointerOperand()))
                      : nullptr;
             return walk && walk->getLoop() == &loop &&
                    evolution.isLoopInvariant(walk->getStart(), loop.getParentLoop());
           });
         });
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
  if (!loop.isInnermost() || !loop.getParentLoop() || !isContiguous(loop, analyses.SE))
    return PreservedAnalyses::all();
  unsigned count = analyses.SE.getSmallConstantTripCount(&loop);
  if (fillsVectors(*loop.getHeader()->getParent(), count)) {
    loop.setLoopAlreadyUnrolled();
  } else if (count > longestWrittenOut && sumsWhatRowsShare(loop, analyses.SE)) {
    addStringMetadataToLoop(&loop, "llvm.loop.interleave.count", partialSums);
    addStringMetadataToLoop(&loop, "llvm.loop.unroll.count", vectorsOfSum);
  }
  return PreservedAnalyses::all();
}

} // namespace autopar::cpu
