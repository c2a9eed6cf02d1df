// SPDX-License-Identifier: Apache-2.0
// Casts, made where they are first asked for.
#include "PrecisionCasts.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static bool holds(Value value, Type element) {
  RankedTensorType type = typeOf(value);
  return type && type.getElementType() == element;
}

Precision mlir::autopar::precisionOf(Operation *op) {
  auto known = dyn_cast<PrecisionOpInterface>(op);
  return known ? known.getPrecision() : Precision::Wide;
}

bool mlir::autopar::isViewOfArgument(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (precisionOf(op) != Precision::AsOperands || op->getNumOperands() != 1)
      return false;
    value = op->getOperand(0);
  }
  return true;
}

SmallVector<Operation *> mlir::autopar::operationsOf(func::FuncOp function) {
  return llvm::map_to_vector(function.getBody().front().without_terminator(),
                             [](Operation &op) { return &op; });
}

PrecisionCasts::PrecisionCasts(func::FuncOp function, FloatType narrow)
    : function(function), narrowType(narrow), wideType(Float32Type::get(function.getContext())),
      ids(function.getBody().front()) {}

bool PrecisionCasts::isNarrow(Value value) const { return holds(value, narrowType); }
bool PrecisionCasts::isWide(Value value) const { return holds(value, wideType); }

Value PrecisionCasts::narrow(Value value) {
  if (isNarrow(value))
    return value;
  Value &known = narrowed[value];
  if (known)
    return known;
  Operation *op = value.getDefiningOp();
  if (!isViewOfArgument(value) || !op)
    return known = cast(value, narrowType);
  OpBuilder builder(op);
  builder.setInsertionPointAfter(op);
  IRMapping mapping;
  mapping.map(op->getOperand(0), narrow(op->getOperand(0)));
  Operation *view = builder.clone(*op, mapping);
  view->getResult(0).setType(typeOf(value).clone(narrowType));
  name(view, baseOf(value));
  return narrowed[value] = view->getResult(0);
}

Value PrecisionCasts::widen(Value value) {
  if (!isNarrow(value))
    return value;
  Value &known = widened[value];
  return known ? known : known = cast(value, wideType);
}

void PrecisionCasts::computeWide(Operation *op, bool rounded) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(widen(operand.get()));
  for (Value result : op->getResults()) {
    bool wasNarrow = isNarrow(result);
    if (wasNarrow)
      result.setType(typeOf(result).clone(wideType));
    if (wasNarrow || (rounded && isWide(result)))
      round(result);
  }
}

/// Rounds what `result` (f32) is from here on: its readers get the narrow value.
void PrecisionCasts::round(Value result) {
  Value rounded = narrow(result);
  result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
}

Value PrecisionCasts::cast(Value value, Type element) {
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfterValue(value);
  auto op = CastOp::create(builder, value.getLoc(), typeOf(value).clone(element), value);
  name(op, baseOf(value));
  return op;
}

std::string PrecisionCasts::baseOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return nameOfArgument(llvm::cast<BlockArgument>(value));
  StringRef id = getOpId(op);
  return (id.empty() ? op->getName().stripDialect() : id).str();
}

/// `base/bf16`.
void PrecisionCasts::name(Operation *op, const Twine &base) {
  std::string wanted;
  llvm::raw_string_ostream(wanted) << base << "/" << typeOf(op->getResult(0)).getElementType();
  ids.name(op, wanted);
}
