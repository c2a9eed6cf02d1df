// SPDX-License-Identifier: Apache-2.0
// LLVM folds conversions to bf16 into choices between bf16 constants, and its code generator takes
// such a choice, as a vector on CPUs without bf16 instructions, through a library function that
// rounds. So what is chosen are the bits.
#include "Stages.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace autopar::cpu {

PreservedAnalyses SelectNarrowBitsPass::run(Function &function, FunctionAnalysisManager &) {
  SmallVector<SelectInst *> choices;
  for (Instruction &instruction : instructions(function))
    if (auto *select = dyn_cast<SelectInst>(&instruction);
        select && select->getType()->getScalarType()->isBFloatTy())
      choices.push_back(select);
  for (SelectInst *select : choices) {
    IRBuilder<> builder(select);
    Type *bits = select->getType()->getWithNewType(builder.getInt16Ty());
    Value *chosen = builder.CreateSelect(select->getCondition(),
                                         builder.CreateBitCast(select->getTrueValue(), bits),
                                         builder.CreateBitCast(select->getFalseValue(), bits));
    select->replaceAllUsesWith(builder.CreateBitCast(chosen, select->getType()));
    select->eraseFromParent();
  }
  return choices.empty() ? PreservedAnalyses::all() : PreservedAnalyses::none();
}

} // namespace autopar::cpu
