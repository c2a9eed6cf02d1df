// SPDX-License-Identifier: Apache-2.0
// Identities and combiners of reductions.
#include "autopar/Dialect/AutoPar/IR/Reduction.h"

#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

TypedAttr mlir::autopar::identityOf(ReductionKind reduction, Type element) {
  if (auto floating = dyn_cast<FloatType>(element)) {
    const llvm::fltSemantics &semantics = floating.getFloatSemantics();
    switch (reduction) {
    case ReductionKind::Max:
      return FloatAttr::get(element, APFloat::getInf(semantics, true));
    case ReductionKind::Min:
      return FloatAttr::get(element, APFloat::getInf(semantics, false));
    case ReductionKind::Prod:
      return FloatAttr::get(element, 1.0);
    default:
      return FloatAttr::get(element, 0.0);
    }
  }
  auto integer = cast<IntegerType>(element);
  unsigned width = integer.getWidth();
  bool isUnsigned = integer.isUnsigned() || width == 1;
  switch (reduction) {
  case ReductionKind::Max:
    return IntegerAttr::get(element, isUnsigned ? APInt::getMinValue(width)
                                                : APInt::getSignedMinValue(width));
  case ReductionKind::Min:
    return IntegerAttr::get(element, isUnsigned ? APInt::getMaxValue(width)
                                                : APInt::getSignedMaxValue(width));
  case ReductionKind::Prod:
    return IntegerAttr::get(element, APInt(width, 1));
  case ReductionKind::And:
    return IntegerAttr::get(element, APInt::getAllOnes(width));
  default:
    return IntegerAttr::get(element, APInt(width, 0));
  }
}

Value mlir::autopar::buildIdentity(OpBuilder &builder, Location loc, RankedTensorType type,
                                   ReductionKind reduction) {
  Type element = type.getElementType();
  Value scalar = ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(RankedTensorType::get({}, element), identityOf(reduction, element)));
  return BroadcastOp::create(builder, loc, type, scalar, ArrayRef<int64_t>{});
}

bool mlir::autopar::isIdentity(Value value, ReductionKind reduction) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  DenseElementsAttr known;
  return matchPattern(value, m_Constant(&known)) && known.isSplat() &&
         known.getSplatValue<Attribute>() == identityOf(reduction, known.getElementType());
}

Value mlir::autopar::buildInFirst(OpBuilder &builder, Location loc, Value value, Value index,
                                  ReductionKind reduction) {
  if (isIdentity(value, reduction))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  Value isFirst = CompareOp::create(builder, loc, RankedTensorType::get({}, builder.getI1Type()),
                                    ComparePredicate::Eq, index, i64Scalar(builder, loc, 0));
  Value mask = BroadcastOp::create(builder, loc, type.clone(builder.getI1Type()), isFirst,
                                   ArrayRef<int64_t>{});
  return SelectOp::create(builder, loc, mask, value, buildIdentity(builder, loc, type, reduction));
}

BinaryKind mlir::autopar::combinerOf(ReductionKind reduction) {
  switch (reduction) {
  case ReductionKind::Sum:
    return BinaryKind::Add;
  case ReductionKind::Prod:
    return BinaryKind::Mul;
  case ReductionKind::Max:
    return BinaryKind::Max;
  case ReductionKind::Min:
    return BinaryKind::Min;
  case ReductionKind::And:
    return BinaryKind::And;
  case ReductionKind::Or:
    return BinaryKind::Or;
  }
  llvm_unreachable("all kinds are listed");
}
