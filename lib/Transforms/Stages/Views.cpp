// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/Views.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

/// Whether somebody reads the value through strides: a product or attention, perhaps behind more
/// views.
static bool isReadStrided(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    if (isa<ViewOpInterface>(user))
      return isReadStrided(user->getResult(0));
    if (auto group = dyn_cast<GroupOp>(user)) {
      if (llvm::any_of(group.getBody().front(), llvm::IsaPred<DotGeneralOp>))
        return true;
      return llvm::all_of(group.getBody().front().without_terminator(),
                          llvm::IsaPred<ViewOpInterface>) &&
             llvm::any_of(group.getResults(), isReadStrided);
    }
    return isa<DotGeneralOp, AttentionOp, AttentionGradOp>(user);
  });
}

static bool stepsForward(SliceOp slice) {
  return llvm::all_of(slice.getSteps(), [](int64_t step) { return step > 0; });
}

/// One position of the first dimension, such as a micro-batch of a stack: the bytes lie together.
static bool isOnePosition(SliceOp slice) {
  RankedTensorType part = slice.getType();
  auto all = cast<RankedTensorType>(slice.getInput().getType());
  return part.getRank() > 0 && part.getDimSize(0) == 1 &&
         part.getShape().drop_front() == all.getShape().drop_front();
}

/// Whether the bytes of the part lie together where the whole lies row-major.
static bool liesTogether(SliceOp slice) {
  ArrayRef<int64_t> part = slice.getType().getShape(),
                    all = cast<RankedTensorType>(slice.getInput().getType()).getShape();
  while (!all.empty() && all.front() == 1) {
    part = part.drop_front();
    all = all.drop_front();
  }
  return !all.empty() && part.drop_front() == all.drop_front() &&
         llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
}

/// What is sent of a value to one of several ranks.
static bool isSentAsItLies(SliceOp slice) {
  return liesTogether(slice) && llvm::all_of(slice->getUsers(), llvm::IsaPred<SendOp>);
}

/// What kernels may read where it lies, without keeping much more alive: a value whose padding is
/// left out.
static bool isMostAsItLies(SliceOp slice) {
  auto all = cast<RankedTensorType>(slice.getInput().getType());
  int64_t first = 0, whole = tensorBytes(all);
  for (auto [start, extent] : llvm::zip(slice.getStarts(), all.getShape()))
    first = first * extent + start;
  return liesTogether(slice) && 2 * tensorBytes(slice.getType()) >= whole &&
         first * whole / std::max<int64_t>(all.getNumElements(), 1) % kKernelAlignment == 0;
}

bool mlir::autopar::isView(Operation *op) {
  if (isWholeView(op))
    return true;
  if (auto slice = dyn_cast<SliceOp>(op))
    return stepsForward(slice) && slice.getType().getNumElements() > 0 &&
           (isOnePosition(slice) || isSentAsItLies(slice) || isMostAsItLies(slice) ||
            isReadStrided(slice.getResult()));
  auto group = dyn_cast<GroupOp>(op);
  if (!group)
    return false;
  bool areViews = llvm::all_of(group.getBody().front().without_terminator(), [](Operation &inner) {
    auto slice = dyn_cast<SliceOp>(inner);
    return isWholeView(&inner) ||
           (slice && stepsForward(slice) && slice.getType().getNumElements() > 0);
  });
  if (!areViews) // of most groups the first operation tells
    return false;
  auto only = dyn_cast<SliceOp>(group.getBody().front().front());
  bool isPart = only && llvm::hasNItems(group.getBody().front().without_terminator(), 1) &&
                isMostAsItLies(only);
  return isPart || llvm::any_of(group.getResults(), isReadStrided);
}
