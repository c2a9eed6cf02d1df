// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "MovedPositions.h"

#include "autopar/Transforms/VaryingExtents.h"

using namespace mlir;
using namespace mlir::autopar;

/// By how much the start of a slice moves with a step of an extent.
static int64_t movesBy(SliceOp slice, const Varying &varying) {
  for (Attribute each : entriesOf(slice->getAttr(kMovesAttribute)))
    if (auto entry = cast<DictionaryAttr>(each);
        numberIn(entry, "dim") == varying.dim &&
        entry.getAs<StringAttr>("extent") == varying.extent)
      return numberIn(entry, "times", 1);
  return 0;
}

LogicalResult MovedPositions::follow(SliceOp slice) {
  bool moves = false;
  for (const Varying &varying : dims.of(slice.getInput())) {
    int64_t dim = varying.dim, start = slice.getStarts()[dim], step = slice.getSteps()[dim],
            size = slice.getType().getDimSize(dim), least = dims.least(varying);
    bool varies = hasEntry(slice, kVariesAttribute, dim, varying.extent),
         movesHere = hasEntry(slice, kMovesAttribute, dim, varying.extent);
    if (size == slice.getInput().getType().getDimSize(dim) && step == 1)
      dims.add(slice.getResult(), varying);
    else if (varying.tail > 0 && start == 0 && step == 1 && size == varying.size)
      dims.add(slice.getResult(),
               {varying.extent, dim, size, varying.pace, varying.inner, varying.isZero});
    else if (varies && step > 1 && !movesHere && varying.isAllOf(slice.getInput()) &&
             varying.pace % step == 0)
      dims.add(slice.getResult(), {varying.extent, dim, size, varying.pace / step});
    else if (step != 1 || !varying.isAllOf(slice.getInput()) || (movesHere && (varies || moves)))
      return refuseToVary(slice, varying.extent)
             << "takes positions of dimension " << dim << " in another order, or in steps";
    else if (movesHere && start < dims.mostMissing(varying))
      return refuseToVary(slice, varying.extent)
             << "reads " << varying.size - start << " positions before the end of dimension " << dim
             << ", and there are at least " << least;
    else if (movesHere && !varies &&
             start - dims.stepsOf(varying) * movesBy(slice, varying) + size > least)
      return refuseToVary(slice, varying.extent)
             << "moves slower along dimension " << dim << " than it ends";
    else if (!movesHere && !varies && start + size > least)
      return refuseToVary(slice, varying.extent)
             << "reads position " << start + size - 1 << " of dimension " << dim
             << ", and there are at least " << least;
    else if (varies)
      dims.add(slice.getResult(), {varying.extent, dim, size, varying.pace});
    moves |= movesHere;
  }
  if (ArrayRef<Attribute> moved = entriesOf(slice->getAttr(kMovesAttribute));
      moved.size() != (moves ? 1 : 0))
    return refuseToVary(slice, cast<DictionaryAttr>(moved.front()).getAs<StringAttr>("extent"))
           << "starts where it says, in what does not follow it";
  return success();
}

LogicalResult MovedPositions::takeFromEnd(SliceOp slice) {
  ArrayRef<Attribute> moved = entriesOf(slice->getAttr(kMovesAttribute));
  if (moved.empty())
    return success();
  auto entry = cast<DictionaryAttr>(moved.front());
  int64_t dim = numberIn(entry, "dim");
  RankedTensorType input = slice.getInput().getType(), type = slice.getType();
  SmallVector<int64_t> starts(slice.getStarts()), shape(type.getShape());
  int64_t start = std::exchange(starts[dim], 0),
          size = std::exchange(shape[dim], input.getDimSize(dim));
  mask.standBefore(slice);
  OpBuilder &builder = mask.builder;
  Location loc = slice.getLoc();
  Value rest = slice.getInput();
  if (input.getShape() != ArrayRef<int64_t>(shape))
    rest = mask.named(SliceOp::create(builder, loc,
                                      RankedTensorType::get(shape, type.getElementType()), rest,
                                      starts, slice.getSteps()),
                      slice, "rest");
  Value begin = mask.number(builder.getI64IntegerAttr(start), slice, "begin");
  Value fewer = mask.missing(entry.getAs<StringAttr>("extent"), numberIn(entry, "times", 1), slice);
  begin = mask.binary(BinaryKind::Sub, begin, fewer, slice, "begin");
  auto line = RankedTensorType::get({size, 1}, builder.getI64Type());
  Value position = mask.named(IotaOp::create(builder, loc, line, 0), slice, "position");
  position = mask.binary(BinaryKind::Add, position, mask.spread(begin, line, {}, slice, "begin"),
                         slice, "position");
  auto gather = GatherOp::create(builder, loc, type, rest, position, ArrayRef<int64_t>{dim}, 0);
  setOpId(gather, getOpId(slice));
  for (const Varying &varying : dims.of(slice.getResult()))
    dims.add(gather.getResult(), varying);
  slice.getResult().replaceAllUsesWith(gather.getResult());
  return success();
}

/// Whether what stands behind the first operand varies along the dimension of a concatenation.
bool MovedPositions::variesBehind(ConcatOp concat) const {
  return llvm::any_of(concat.getInputs().drop_front(), [&](Value input) {
    return llvm::any_of(dims.of(input), [&](const Varying &varying) {
      return varying.dim == static_cast<int64_t>(concat.getDim());
    });
  });
}

LogicalResult MovedPositions::follow(ConcatOp concat) {
  auto dim = static_cast<int64_t>(concat.getDim());
  for (auto [number, input] : llvm::enumerate(concat.getInputs()))
    for (const Varying &varying : dims.of(input)) {
      int64_t all = concat.getType().getDimSize(dim);
      bool isLast = number + 1 == concat.getInputs().size();
      if (varying.dim != dim)
        dims.add(concat.getResult(), varying.withoutZeros());
      else if (isLast && varying.isAllOf(input))
        dims.add(concat.getResult(), {varying.extent, dim, all, varying.pace});
      else if (number == 0 && varying.isAllOf(input) && !variesBehind(concat))
        dims.add(concat.getResult(),
                 {varying.extent, dim, varying.size, varying.pace, 1, false, all - varying.size});
      else
        return refuseToVary(concat, varying.extent) << "puts something behind its end";
    }
  return success();
}

LogicalResult MovedPositions::follow(PadOp pad) {
  for (const Varying &varying : dims.of(pad.getInput())) {
    int64_t size = pad.getInput().getType().getDimSize(varying.dim),
            padded = pad.getType().getDimSize(varying.dim);
    if (padded == size) {
      dims.add(pad.getResult(), varying.withoutZeros());
      continue;
    }
    if (!varying.isAllOf(pad.getInput()))
      return refuseToVary(pad, varying.extent) << "adds to a dimension of which it is a part";
    if (padded > size + pad.getLow()[varying.dim])
      pad.getInputMutable().set(mask.masked(pad.getInput(), varying, pad.getValue(), pad));
    dims.add(pad.getResult(), {varying.extent, varying.dim, padded, varying.pace});
  }
  return success();
}

LogicalResult MovedPositions::countFromEnd(GatherOp gather) {
  int64_t columns = gather.getIndices().getType().getRank() - 1;
  for (const Varying &varying : dims.of(gather.getInput()))
    for (auto [column, dim] : llvm::enumerate(gather.getDims()))
      if (dim == varying.dim && failed(countFromEnd(gather, gather.getIndicesMutable(), varying,
                                                    columns, static_cast<int64_t>(column))))
        return failure();
  return success();
}

LogicalResult MovedPositions::countFromEnd(GatherElementsOp gather) {
  for (const Varying &varying : dims.of(gather.getInput())) {
    bool isAlong = varying.dim == static_cast<int64_t>(gather.getDim());
    if (!isAlong && gather.getIndices().getType().getDimSize(varying.dim) !=
                        gather.getInput().getType().getDimSize(varying.dim))
      return refuseToVary(gather, varying.extent)
             << "has indices for a part of dimension " << varying.dim << " alone";
    if (isAlong && failed(countFromEnd(gather, gather.getIndicesMutable(), varying, -1, 0)))
      return failure();
  }
  return success();
}

static bool isNeverNegative(Value indices) {
  auto constant = indices.getDefiningOp<ConstantOp>();
  auto dense =
      constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  return dense &&
         llvm::none_of(dense.getValues<APInt>(), [](const APInt &i) { return i.isNegative(); });
}

/// Subtracts what is missing from the negative ones of the positions along an extent: a place
/// `column` of dimension `columns` of `indices`, or all of them where that is -1.
LogicalResult MovedPositions::countFromEnd(Operation *op, OpOperand &indices,
                                           const Varying &varying, int64_t columns,
                                           int64_t column) {
  if (!varying.isAllOf(op->getOperand(0)))
    return refuseToVary(op, varying.extent)
           << "takes positions of a dimension of which it is a part";
  Value given = indices.get();
  if (isNeverNegative(given))
    return success();
  auto type = cast<RankedTensorType>(given.getType());
  Type element = type.getElementType();
  auto flags = type.clone(mask.builder.getI1Type());
  mask.standBefore(op);
  OpBuilder &builder = mask.builder;
  Location loc = op->getLoc();
  Value zero = mask.number(builder.getIntegerAttr(element, 0), op, "zero");
  Value zeros = mask.spread(zero, type, {}, op, "zero");
  Value isNegative = mask.named(
      CompareOp::create(builder, loc, flags, ComparePredicate::Lt, given, zeros), op, "negative");
  if (columns >= 0 && type.getDimSize(columns) > 1) {
    SmallVector<bool> isOwn(type.getDimSize(columns), false);
    isOwn[column] = true;
    auto line = RankedTensorType::get({type.getDimSize(columns)}, builder.getI1Type());
    Value own = mask.named(
        ConstantOp::create(builder, loc, DenseElementsAttr::get(line, ArrayRef<bool>(isOwn))), op,
        "column");
    own = mask.spread(own, flags, {columns}, op, "column");
    isNegative = mask.binary(BinaryKind::And, isNegative, own, op, "negative");
  }
  Value fewer = mask.cast(mask.missing(varying.extent, varying.pace, op), element, op, "missing");
  fewer = mask.spread(fewer, type, {}, op, "missing");
  Value moved = mask.binary(BinaryKind::Sub, given, fewer, op, "moved");
  Value counted =
      mask.named(SelectOp::create(builder, loc, type, isNegative, moved, given), op, "from_end");
  for (const Varying &each : dims.of(given))
    dims.add(counted, each.withoutZeros());
  indices.set(counted);
  return success();
}
