// SPDX-License-Identifier: Apache-2.0
// What a step repeats: verification.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

LogicalResult RoundBeginOp::verify() {
  if (static_cast<int64_t>(getCount()) < 1 || static_cast<int64_t>(getStep()) < 1)
    return emitOpError() << "expected a number of rounds and of micro-batches, got "
                         << static_cast<int64_t>(getCount()) << " and "
                         << static_cast<int64_t>(getStep());
  if (getInitial().getTypes() != getResultTypes())
    return emitOpError() << "expected results of the types of the operands, ("
                         << getInitial().getTypes() << "), got (" << getResultTypes() << ")";
  return success();
}

/// The beginning of the rounds that an operation ends; null where there is none.
static RoundBeginOp beginOf(RoundEndOp end) {
  RoundBeginOp begin;
  for (auto op : end->getBlock()->getOps<RoundBeginOp>())
    if (op->isBeforeInBlock(end))
      begin = op;
  return begin;
}

LogicalResult RoundEndOp::verify() {
  RoundBeginOp begin = beginOf(*this);
  if (!begin)
    return emitOpError("expected an autopar.round_begin before it");
  if (begin.getResultTypes() != getHandedOn().getTypes())
    return emitOpError() << "hands on (" << getHandedOn().getTypes()
                         << "); expected what rounds begin with, (" << begin.getResultTypes()
                         << ")";
  if (getOperandTypes() != getResultTypes())
    return emitOpError() << "expected results of the types of the operands, (" << getOperandTypes()
                         << "), got (" << getResultTypes() << ")";
  return success();
}

LogicalResult RoundSliceOp::verify() {
  auto all = cast<RankedTensorType>(getInput().getType());
  auto part = cast<RankedTensorType>(getType());
  if (all.getRank() < 1 || part.getRank() != all.getRank() || part.getDimSize(0) != 1 ||
      part.getShape().drop_front() != all.getShape().drop_front() ||
      part.getElementType() != all.getElementType())
    return emitOpError() << "expected one position of the first dimension of " << all << ", got "
                         << part;
  if (static_cast<int64_t>(getFirst()) < 0 || static_cast<int64_t>(getFirst()) >= all.getDimSize(0))
    return emitOpError() << "begins at position " << static_cast<int64_t>(getFirst()) << " of "
                         << all;
  return success();
}

LogicalResult InsertPartOp::verify() {
  auto all = cast<RankedTensorType>(getType());
  auto part = cast<RankedTensorType>(getPart().getType());
  if (all.getRank() < 1 || all.getShape().drop_front() != part.getShape() ||
      all.getElementType() != part.getElementType() || (getWhole() && getWhole().getType() != all))
    return emitOpError() << "expected a part of " << all << " and one more of the whole, got "
                         << part;
  if (static_cast<int64_t>(getPosition()) < 0 ||
      static_cast<int64_t>(getPosition()) >= all.getDimSize(0))
    return emitOpError() << "puts it at position " << static_cast<int64_t>(getPosition()) << " of "
                         << all;
  return success();
}
