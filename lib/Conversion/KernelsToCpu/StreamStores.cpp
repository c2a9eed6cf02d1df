// SPDX-License-Identifier: Apache-2.0
// Results too large for any cache are written past it: an ordinary store would first read the line
// that it is about to overwrite, a third of the traffic of a kernel that reads once and writes
// once.
#include "Stages.h"

#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace autopar::cpu {
namespace {

/// Half a cache line: what follows at once completes the line.
constexpr uint64_t leastStore = 32;

/// A large buffer that the kernel writes and never reads.
bool isStreamed(const Value *pointer) {
  auto *argument = dyn_cast<Argument>(pointer);
  if (!argument || !argument->hasAttribute(Attribute::WriteOnly))
    return false;
  bool isStrided = argument->getParent()->hasFnAttribute(stridedResults);
  return argument->getDereferenceableBytes() >= (isStrided ? beyondCachesStrided : beyondCaches);
}

/// Stores past the cache exist for whole vectors at addresses that are multiples of their size.
bool streamStore(StoreInst &store, const DataLayout &layout) {
  if (!store.isSimple() || !store.getValueOperand()->getType()->isVectorTy() ||
      !isStreamed(getUnderlyingObject(store.getPointerOperand())))
    return false;
  uint64_t bytes = layout.getTypeStoreSize(store.getValueOperand()->getType());
  if (bytes < leastStore || bytes > 64 || !isPowerOf2_64(bytes))
    return false;
  Align known =
      std::max(store.getAlign(), getKnownAlignment(store.getPointerOperand(), layout, &store));
  if (known.value() < bytes)
    return false;
  store.setAlignment(known);
  LLVMContext &context = store.getContext();
  auto *one = ConstantAsMetadata::get(ConstantInt::get(Type::getInt32Ty(context), 1));
  store.setMetadata(LLVMContext::MD_nontemporal, MDNode::get(context, one));
  return true;
}

} // namespace

bool streamStores(Module &module) {
  bool any = false;
  for (Function &function : module) {
    bool streams = false;
    for (BasicBlock &block : function)
      for (Instruction &instruction : block)
        if (auto *store = dyn_cast<StoreInst>(&instruction))
          streams |= streamStore(*store, module.getDataLayout());
    if (!streams)
      continue;
    any = true;
    // Other threads read the result when the kernel has returned.
    for (BasicBlock &block : function)
      if (isa<ReturnInst>(block.getTerminator()))
        IRBuilder<>(block.getTerminator()).CreateIntrinsic(Intrinsic::x86_sse_sfence, {});
  }
  return any;
}

} // namespace autopar::cpu
