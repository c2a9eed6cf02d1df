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

Value PaddingMask::missing(StringAttr extent, int64_t pace, Operation *root) {
  Value steps = missing(extent);
  if (pace == 1)
    return steps;
  Value times = number(builder.getI64IntegerAttr(pace), root, "step");
  return binary(BinaryKind::Mul, steps, times, root, "missing");
}

/// [extent of the dimension]: whether a position is in front of the end. Made once, in front of all
/// operations.
Value PaddingMask::inFront(const Varying &varying, int64_t dimSize) {
  Value &line =
      lines[{varying.extent, varying.size, varying.pace, varying.inner, varying.tail, dimSize}];
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
  Value fewer = missing(varying.extent);
  if (varying.pace != 1) {
    auto pace = builder.getI64IntegerAttr(varying.pace);
    Value times = name(
        ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, Attribute(pace))), "step");
    fewer = name(BinaryOp::create(builder, loc, scalar, BinaryKind::Mul, fewer, times), "missing");
  }
  Value end = name(BinaryOp::create(builder, loc, scalar, BinaryKind::Sub, all, fewer), "end");
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

/// [extents of the dimensions]: whether a position is in front of all ends. Made once, in front of
/// all operations.
Value PaddingMask::inFront(ArrayRef<Varying> varying, ArrayRef<int64_t> shape) {
  SmallVector<Value> each;
  SmallVector<int64_t> extents;
  for (const Varying &one : varying) {
    each.push_back(inFront(one, shape[one.dim]));
    extents.push_back(shape[one.dim]);
  }
  if (each.size() == 1)
    return each.front();
  Value &all = planes[{each[0], each[1]}];
  if (all)
    return all;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(first);
  auto type = RankedTensorType::get(extents, builder.getI1Type());
  auto name = [&](Value value) {
    ids.name(value.getDefiningOp(),
             varying[0].extent.getValue() + "/" + varying[1].extent.getValue() + "/in_front");
    return value;
  };
  Location loc = function.getLoc();
  for (auto [dim, value] : llvm::enumerate(each))
    value = name(BroadcastOp::create(builder, loc, type, value, ArrayRef<int64_t>{int64_t(dim)}));
  return all = name(BinaryOp::create(builder, loc, type, BinaryKind::And, each[0], each[1]));
}

Value PaddingMask::masked(Value value, ArrayRef<Varying> varying, Value behind, Operation *root) {
  auto type = mlir::cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> at =
      llvm::map_to_vector(varying, [](const Varying &one) { return one.dim; });
  Value inside = inFront(varying, type.getShape());
  standBefore(root);
  Value condition = spread(inside, type.clone(builder.getI1Type()), at, root, "in_front");
  Value filled = spread(behind, type, {}, root, "behind");
  return named(SelectOp::create(builder, root->getLoc(), type, condition, value, filled), root,
               "masked");
}

Value PaddingMask::masked(Value value, const Varying &varying, ReductionKind reduction,
                          Operation *root) {
  Attribute filled =
      identityOf(reduction, mlir::cast<RankedTensorType>(value.getType()).getElementType());
  standBefore(root);
  Value behind = number(filled, root, "identity");
  // Where a mask of another dimension is filled with the same, one stands in for both.
  Mask other = masks.lookup(value);
  if (other.of && other.varying.dim != varying.dim && other.filled == filled) {
    bool isFirst = varying.dim < other.varying.dim;
    return masked(other.of, {isFirst ? varying : other.varying, isFirst ? other.varying : varying},
                  behind, root);
  }
  Value result = masked(value, ArrayRef(varying), behind, root);
  masks.try_emplace(result, Mask{value, filled, varying});
  return result;
}
