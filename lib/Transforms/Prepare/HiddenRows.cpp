// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "HiddenRows.h"
#include "CompositeMatching.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Of each sample, position and head, in this order.
Value HiddenRows::hiddenBy(Value bias, Operation *root) {
  Value &hidden = known[bias];
  if (hidden && hidden.getParentBlock() == root->getBlock())
    return hidden;
  OpBuilder builder(root->getContext());
  builder.setInsertionPointAfterValue(bias);
  RankedTensorType type = typeOf(bias).clone(typeOf(bias).getShape().drop_back());
  auto largest = ReduceOp::create(builder, root->getLoc(), type, ReduceKind::Max, bias, int64_t(3));
  nameAfter(largest, root, "bias/largest");
  Value least =
      repeatNumber(builder, root, type, -std::numeric_limits<double>::infinity(), "bias/least");
  auto compare = CompareOp::create(builder, root->getLoc(), type.clone(builder.getI1Type()),
                                   ComparePredicate::Eq, largest, least);
  nameAfter(compare, root, "bias/hides.row");
  auto swapped = TransposeOp::create(builder, root->getLoc(), compare, ArrayRef<int64_t>{0, 2, 1});
  nameAfter(swapped, root, "bias/hides.row.swapped");
  return hidden = swapped;
}

Value HiddenRows::clear(Operation *root, Value attention, Value bias) {
  OpBuilder builder(root);
  Value swapped = swapHeadsAndRows(builder, root, attention, "rows/by.position");
  RankedTensorType type = typeOf(swapped);
  auto condition = BroadcastOp::create(builder, root->getLoc(), type.clone(builder.getI1Type()),
                                       hiddenBy(bias, root), ArrayRef<int64_t>{0, 1, 2});
  nameAfter(condition, root, "rows/hidden");
  Value zero = repeatNumber(builder, root, type, 0, "rows/zero");
  auto cleared = SelectOp::create(builder, root->getLoc(), type, condition, zero, swapped);
  nameAfter(cleared, root, "rows/cleared");
  return swapHeadsAndRows(builder, root, cleared, "rows");
}
