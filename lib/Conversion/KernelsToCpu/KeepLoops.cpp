// SPDX-License-Identifier: Apache-2.0
// Before loops are unrolled: kernels of small buffers keep theirs. LLVM writes nests of constant
// extents out, up to thousands of instructions, of which its later passes and the code generator
// take ten times as long, and which run no faster on what a launch costs as much as.
#include "Stages.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"

using namespace llvm;

namespace autopar::cpu {
namespace {

/// All buffers of a kernel together.
constexpr uint64_t smallBuffers = 256 << 10;
/// An innermost loop of so few iterations is none: a window, the columns of an image.
constexpr unsigned fewIterations = 8;

bool isSmall(const Function &kernel) {
  uint64_t bytes = 0;
  for (const Argument &argument : kernel.args())
    bytes += argument.getDereferenceableBytes();
  return bytes <= smallBuffers;
}

} // namespace

PreservedAnalyses KeepLoopsPass::run(Loop &loop, LoopAnalysisManager &,
                                     LoopStandardAnalysisResults &analyses, LPMUpdater &) {
  if (!isSmall(*loop.getHeader()->getParent()))
    return PreservedAnalyses::all();
  unsigned count = analyses.SE.getSmallConstantTripCount(&loop);
  if (count == 0 || count > fewIterations)
    loop.setLoopAlreadyUnrolled();
  // Inner loops come first: once they are gone, this one would look innermost.
  if (Loop *outer = loop.getParentLoop())
    outer->setLoopAlreadyUnrolled();
  return PreservedAnalyses::all();
}

} // namespace autopar::cpu
