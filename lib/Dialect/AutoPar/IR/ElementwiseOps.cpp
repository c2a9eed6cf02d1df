// SPDX-License-Identifier: Apache-2.0
// Elementwise operations: verification and sharding rules.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Interfaces/ElementTypes.h"

using namespace mlir;
using namespace mlir::autopar;

LogicalResult UnaryOp::verify() {
  Type element = getResult().getType().getElementType();
  switch (getKind()) {
  case UnaryKind::Neg:
  case UnaryKind::Abs:
  case UnaryKind::Sign:
  case UnaryKind::Relu:
  case UnaryKind::Reciprocal:
    return element.isInteger(1) ? emitOpError("is not defined on i1") : success();
  case UnaryKind::Not:
    return isa<IntegerType>(element) ? success() : emitOpError("expects integers, got ") << element;
  default:
    return isa<FloatType>(element) ? success() : emitOpError("expects floats, got ") << element;
  }
}

LogicalResult UnaryGradOp::verify() {
  if (!llvm::is_contained({UnaryKind::Relu, UnaryKind::Gelu, UnaryKind::GeluTanh, UnaryKind::Silu},
                          getKind()))
    return emitOpError() << "expects relu, gelu, gelu_tanh or silu, got "
                         << stringifyUnaryKind(getKind());
  Type element = getType().getElementType();
  return isa<FloatType>(element) ? success() : emitOpError("expects floats, got ") << element;
}
double UnaryGradOp::getFlops(ArrayRef<RankedTensorType>, ArrayRef<RankedTensorType> results) {
  double perElement = getKind() == UnaryKind::Relu ? 1 : 16;
  return perElement * static_cast<double>(results.front().getNumElements());
}

RankedTensorType mlir::autopar::maskTypeOf(RankedTensorType type) {
  constexpr int64_t step = ::autopar::artifact::kMaskStep;
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = llvm::divideCeil(shape.back(), step) * (step / 8);
  return RankedTensorType::get(shape, IntegerType::get(type.getContext(), 8));
}

static LogicalResult verifyMask(Operation *op, RankedTensorType type, RankedTensorType mask) {
  if (type.getRank() == 0 || !isa<FloatType>(type.getElementType()))
    return op->emitOpError("expects rows of floats, got ") << type;
  return mask == maskTypeOf(type) ? success()
                                  : op->emitOpError("expects a mask ")
                                        << maskTypeOf(type) << " of " << type << ", got " << mask;
}
LogicalResult MarkPositiveOp::verify() {
  return verifyMask(*this, getInput().getType(), getType());
}
LogicalResult KeepMarkedOp::verify() { return verifyMask(*this, getType(), getMask().getType()); }

LogicalResult BinaryOp::verify() {
  Type element = getResult().getType().getElementType();
  bool bitwise = llvm::is_contained({BinaryKind::And, BinaryKind::Or, BinaryKind::Xor}, getKind());
  bool shift = llvm::is_contained({BinaryKind::ShiftLeft, BinaryKind::ShiftRight}, getKind());
  if ((bitwise || shift) && !isa<IntegerType>(element))
    return emitOpError("expects integers, got ") << element;
  if (!bitwise && element.isInteger(1))
    return emitOpError("is not defined on i1");
  return success();
}

LogicalResult CastOp::verify() {
  Type element = getType().getElementType();
  if (getOverflows() && !isByteFloat(element))
    return emitOpError("overflows to a float of 8 bits or less, got ") << element;
  return success();
}

bool CastOp::isWidening() {
  auto from = dyn_cast<FloatType>(getInput().getType().getElementType()),
       to = dyn_cast<FloatType>(getType().getElementType());
  return from && to && from.getWidth() < to.getWidth();
}

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? getInput() : Value();
}

LogicalResult BitcastOp::verify() {
  Type from = getInput().getType().getElementType(), to = getType().getElementType();
  auto widthOf = [](Type type) { return isByteFloat(type) ? 8 : type.getIntOrFloatBitWidth(); };
  return widthOf(from) == widthOf(to)
             ? success()
             : emitOpError("expects types of one width, got ") << from << " and " << to;
}

ShardingRule UnaryOp::getShardingRule() { return ShardingRule::elementwise(*this); }
ShardingRule UnaryGradOp::getShardingRule() { return ShardingRule::elementwise(*this); }
ShardingRule BinaryOp::getShardingRule() { return ShardingRule::elementwise(*this); }
ShardingRule CompareOp::getShardingRule() { return ShardingRule::elementwise(*this); }
ShardingRule SelectOp::getShardingRule() { return ShardingRule::elementwise(*this); }
ShardingRule CastOp::getShardingRule() { return ShardingRule::elementwise(*this); }
ShardingRule BitcastOp::getShardingRule() { return ShardingRule::elementwise(*this); }
