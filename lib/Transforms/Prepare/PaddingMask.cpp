// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "PaddingMask.h"

#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Transforms/VaryingExtents.h"

using namespace mlir;
using namespace mlir::autopar;

PaddingMask::PaddingMask(func::FuncOp function)
    : builder(function.getContext()), function(function), ids(function.getBody().front()),
      first(&function.getBody().front().front()) {}

Value PaddingMask::named(Value value, Operation *root, StringRef part) {
  if (!getOpId(root).empty())
    ids.name(value.getDefiningOp(), getOpId(root) + "/" + part);
  return value;
}

Value PaddingMask::number(Attribute number, Operation *root, StringRef part) {
  auto type = RankedTensorType::get({}, mlir::cast<TypedAttr>(number).getType());
  return named(ConstantOp::create(builder, root->getLoc(), DenseElementsAttr::get(type, number)),
               root, part);
}

Value PaddingMask::binary(BinaryKind kind, Value lhs, Value rhs, Operation *root, StringRef part) {
  return named(BinaryOp::create(builder, root->getLoc(), lhs.getType(), kind, lhs, rhs), root,
               part);
}

Value PaddingMask::cast(Value value, Type element, Operation *root, StringRef part) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  if (type.getElementType() == element)
    return value;
  return named(CastOp::create(builder, root->getLoc(), type.clone(element), value), root, part);
}

Value PaddingMask::spread(Value value, RankedTensorType type, ArrayRef<int64_t> dims,
                          Operation *root, StringRef part) {
  return named(BroadcastOp::create(builder, root->getLoc(), type, value, dims), root, part);
}

Value PaddingMask::missing(StringAttr extent) {
  Value &argument = missingOf[extent];
  if (argument)
    return argument;
  auto type = RankedTensorType::get({}, builder.getI64Type());
  NamedAttrList attributes;
  attributes.append("autopar.name", builder.getStringAttr("missing " + extent.getValue()));
  attributes.append(kMissingAttribute, extent);
  unsigned number = function.getNumArguments();
  (void)function.insertArgument(number, type, attributes.getDictionary(builder.getContext()),
                                function.getLoc());
  return argument = function.getArgument(number);
}

/// [extent of the dimension]: whether a position is in front of the end. Made once, in front of all
/// operations.
Value PaddingMask::inFront(const Varying &varying, int64_t dimSize) {
  Value &line = lines[{varying.extent, varying.size, varying.inner, varying.tail, dimSize}];
  if (line)
    return line;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(first);
  Location loc = function.getLoc();
  auto name = [&](Value value, StringRef part) {
    ids.name(value.getDefiningOp(), varying.extent.getValue() + "/" + part);
    return value;
  };
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  auto type = RankedTensorType::get({varying.size}, builder.getI64Type());
  auto size = builder.getI64IntegerAttr(varying.size);
  Value all = name(
      ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, Attribute(size))), "most");
  Value end = name(
      BinaryOp::create(builder, loc, scalar, BinaryKind::Sub, all, missing(varying.extent)), "end");
  Value ends = name(BroadcastOp::create(builder, loc, type, end, ArrayRef<int64_t>{}), "end");
  Value position = name(IotaOp::create(builder, loc, type, 0), "position");
  auto flags = type.clone(builder.getI1Type());
  line = name(CompareOp::create(builder, loc, flags, ComparePredicate::Lt, position, ends),
              "in_front");
  if (dimSize == varying.size)
    return line;
  if (varying.tail > 0) {
    auto rest = RankedTensorType::get({varying.tail}, builder.getI1Type());
    Value seen = name(ConstantOp::create(builder, loc, DenseElementsAttr::get(rest, true)), "tail");
    auto joined = RankedTensorType::get({dimSize}, builder.getI1Type());
    return line =
               name(ConcatOp::create(builder, loc, joined, ValueRange{line, seen}, 0), "in_front");
  }
  int64_t outer = dimSize / varying.size / varying.inner;
  auto apart = RankedTensorType::get({outer, varying.size, varying.inner}, builder.getI1Type());
  line = name(BroadcastOp::create(builder, loc, apart, line, ArrayRef<int64_t>{1}), "in_front");
  auto joined = RankedTensorType::get({dimSize}, builder.getI1Type());
  return line = name(ReshapeOp::create(builder, loc, joined, line), "in_front");
}

Value PaddingMask::masked(Value value, const Varying &varying, Value behind, Operation *root) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  Value line = inFront(varying, type.getDimSize(varying.dim));
  standBefore(root);
  Value condition = spread(line, type.clone(builder.getI1Type()), {varying.dim}, root, "in_front");
  Value filled = spread(behind, type, {}, root, "behind");
  return named(SelectOp::create(builder, root->getLoc(), type, condition, value, filled), root,
               "masked");
}

Value PaddingMask::masked(Value value, const Varying &varying, ReductionKind reduction,
                          Operation *root) {
  Type element = mlir::cast<RankedTensorType>(value.getType()).getElementType();
  standBefore(root);
  return masked(value, varying, number(identityOf(reduction, element), root, "identity"), root);
}
