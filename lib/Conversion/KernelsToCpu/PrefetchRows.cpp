// SPDX-License-Identifier: Apache-2.0
// A kernel that walks several times over each row leaves memory idle after the first pass: the row
// is in the cache then. The second pass asks for the next row meanwhile, element by element.
#include "Stages.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/IRBuilder.h"

#include <map>

using namespace llvm;

namespace autopar::cpu {
namespace {

/// Longer rows would push each other out of the second-level cache.
constexpr int64_t longestRow = 128 << 10;

/// A vector load from a large buffer, and how far the next row is from it.
struct RowLoad {
  LoadInst *load;
  const Value *buffer;
  int64_t nextRow;
};

class RowPrefetcher {
public:
  RowPrefetcher(Function &function, ScalarEvolution &evolution, LoopInfo &loops)
      : function(function), evolution(evolution), loops(loops) {}

  bool run() {
    bool any = false;
    for (Loop *loop : loops.getLoopsInPreorder())
      any |= visit(*loop);
    return any;
  }

private:
  /// Passes over a row are the innermost loops directly within `rows`, in the order of the code.
  bool visit(Loop &rows) {
    std::map<const Value *, Loop *> first, second;
    SmallVector<RowLoad> found;
    for (BasicBlock &block : function) {
      Loop *pass = loops.getLoopFor(&block);
      if (!pass || pass->getParentLoop() != &rows || !pass->isInnermost())
        continue;
      for (Instruction &instruction : block) {
        std::optional<RowLoad> row = rowLoad(instruction, *pass, rows);
        if (!row)
          continue;
        Loop *&reader = first.try_emplace(row->buffer, pass).first->second;
        if (reader == pass)
          continue;
        if (second.try_emplace(row->buffer, pass).first->second == pass)
          found.push_back(*row);
      }
    }
    for (const RowLoad &row : found)
      prefetch(row);
    return !found.empty();
  }

  std::optional<RowLoad> rowLoad(Instruction &instruction, Loop &pass, Loop &rows) {
    auto *load = dyn_cast<LoadInst>(&instruction);
    if (!load || !load->getType()->isVectorTy())
      return std::nullopt;
    auto *alongRow = dyn_cast<SCEVAddRecExpr>(evolution.getSCEV(load->getPointerOperand()));
    if (!alongRow || alongRow->getLoop() != &pass)
      return std::nullopt;
    auto *base = dyn_cast<SCEVUnknown>(evolution.getPointerBase(alongRow));
    auto *buffer = base ? dyn_cast<Argument>(base->getValue()) : nullptr;
    auto *overRows = dyn_cast<SCEVAddRecExpr>(alongRow->getStart());
    if (!buffer || buffer->getDereferenceableBytes() < beyondCaches || !overRows ||
        overRows->getLoop() != &rows)
      return std::nullopt;
    auto *step = dyn_cast<SCEVConstant>(overRows->getStepRecurrence(evolution));
    if (!step || step->getAPInt().abs().ugt(longestRow))
      return std::nullopt;
    return RowLoad{load, buffer, step->getAPInt().getSExtValue()};
  }

  static void prefetch(const RowLoad &row) {
    IRBuilder<> builder(row.load);
    Value *next =
        builder.CreatePtrAdd(row.load->getPointerOperand(), builder.getInt64(row.nextRow));
    constexpr int read = 0, secondLevel = 2, data = 1;
    builder.CreateIntrinsic(
        Intrinsic::prefetch, {next->getType()},
        {next, builder.getInt32(read), builder.getInt32(secondLevel), builder.getInt32(data)});
  }

  Function &function;
  ScalarEvolution &evolution;
  LoopInfo &loops;
};

} // namespace

PreservedAnalyses PrefetchRowsPass::run(Function &function, FunctionAnalysisManager &analyses) {
  RowPrefetcher prefetcher(function, analyses.getResult<ScalarEvolutionAnalysis>(function),
                           analyses.getResult<LoopAnalysis>(function));
  return prefetcher.run() ? PreservedAnalyses::none() : PreservedAnalyses::all();
}

} // namespace autopar::cpu
