// SPDX-License-Identifier: Apache-2.0
// Mixed precision after differentiation: derivatives of what was narrowed have types that followed
// from their formulas; here they get those that their operations ask for.
#include "autopar/Training/MixedPrecision.h"

#include "PrecisionCasts.h"
#include "autopar/Interfaces/LoweringInterface.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

class Settlement {
public:
  Settlement(func::FuncOp function, FloatType narrow)
      : function(function), casts(function, narrow) {}

  void run(ValueRange cotangents) {
    for (Operation *op : operationsOf(function)) {
      Precision precision = precisionOf(op);
      bool isArithmetic = precision == Precision::Rounded || precision == Precision::Wide;
      if (isArithmetic && !isa<CastOp>(op) && touchesNarrow(op))
        casts.computeWide(op, false);
    }
    for (Operation *op : operationsOf(function))
      if (auto cast = dyn_cast<CastOp>(op))
        readRounded(cast);
    for (Operation *op : operationsOf(function))
      if (auto cast = dyn_cast<CastOp>(op))
        keepInKernel(cast);
    roundForTheWayBack(cotangents);
  }

  /// The gradient of a parameter, made of products that yield f32.
  Value widenGradient(Value gradient) {
    if (auto add = gradient.getDefiningOp<BinaryOp>()) {
      if (add.getKind() == BinaryKind::Add && casts.isWide(gradient) &&
          (gradient.use_empty() || gradient.hasOneUse()))
        for (OpOperand &operand : add->getOpOperands())
          operand.set(widenGradient(operand.get()));
      return gradient;
    }
    auto cast = gradient.getDefiningOp<CastOp>();
    if (!cast || !casts.isWide(gradient))
      return gradient;
    if (auto rounding = cast.getInput().getDefiningOp<CastOp>();
        rounding && casts.isWide(rounding.getInput()))
      return widenGradient(rounding.getInput());
    if (!mayYieldWide(cast.getInput()))
      return gradient;
    yieldWide(cast.getInput());
    return cast.getInput();
  }

private:
  bool touchesNarrow(Operation *op) {
    auto isNarrow = [&](Value value) { return casts.isNarrow(value); };
    return llvm::any_of(op->getOperands(), isNarrow) || llvm::any_of(op->getResults(), isNarrow);
  }

  /// Everybody else who reads what `cast` rounds reads it rounded, except of arguments, which are
  /// there anyway.
  void readRounded(CastOp cast) {
    Value wide = cast.getInput();
    if (!casts.isWide(wide) || !casts.isNarrow(cast) || isViewOfArgument(wide))
      return;
    Value &first = rounded[wide];
    if (first) {
      cast.replaceAllUsesWith(first);
      cast.erase();
      return;
    }
    first = cast;
    cast->moveAfter(wide.getDefiningOp());
    if (wide.hasOneUse())
      return;
    Value again = casts.widen(first);
    again.getDefiningOp()->moveAfter(cast); // where it was made before, readers stand in front
    wide.replaceAllUsesExcept(again, cast);
  }

  /// A rounded value that one operation reads, as part of its own kernel, is no value of memory.
  void keepInKernel(CastOp cast) {
    if (!casts.isNarrow(cast) || !casts.isWide(cast.getInput()) || cast.use_empty())
      return;
    OpOperand *reader = nullptr;
    for (Operation *user : cast->getUsers()) {
      auto back = dyn_cast<CastOp>(user);
      if (!back || !casts.isWide(back))
        return;
      for (OpOperand &use : back->getUses()) {
        if (reader)
          return;
        reader = &use;
      }
    }
    if (!reader || !isa<ElementLoweringOpInterface>(reader->getOwner()) ||
        precisionOf(reader->getOwner()) == Precision::AsOperands)
      return;
    reader->set(cast.getInput());
  }

  /// What the way back multiplies cotangents with (slopes of activations, normalized values) waits
  /// for it in memory, rounded.
  void roundForTheWayBack(ValueRange cotangents) {
    DenseSet<Value> onTheWay(cotangents.begin(), cotangents.end());
    for (Operation *op : operationsOf(function)) {
      bool isOnTheWay = llvm::any_of(op->getOperands(),
                                     [&](Value operand) { return onTheWay.contains(operand); });
      if (!isOnTheWay)
        continue;
      onTheWay.insert(op->result_begin(), op->result_end());
      if (isa<CastOp>(op) || precisionOf(op) != Precision::Rounded)
        continue;
      for (OpOperand &operand : op->getOpOperands()) {
        Value value = operand.get();
        Operation *source = value.getDefiningOp();
        if (!source || onTheWay.contains(value) || !casts.isWide(value) || isa<CastOp>(source) ||
            precisionOf(source) != Precision::Rounded)
          continue;
        Value narrow = casts.narrow(value);
        value.replaceAllUsesExcept(casts.widen(narrow), narrow.getDefiningOp());
      }
    }
  }

  /// Whether `value` comes, moved about at most, from products that may yield it in f32.
  bool mayYieldWide(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !casts.isNarrow(value))
      return false;
    if (op->hasTrait<OpTrait::ConstantLike>())
      return true;
    if (!value.hasOneUse())
      return false;
    return (precisionOf(op) == Precision::Narrow && op->getNumResults() == 1) ||
           (precisionOf(op) == Precision::AsOperands &&
            llvm::all_of(op->getOperands(), [&](Value operand) { return mayYieldWide(operand); }));
  }

  void yieldWide(Value value) {
    Operation *op = value.getDefiningOp();
    value.setType(cast<RankedTensorType>(value.getType()).clone(casts.wide()));
    if (precisionOf(op) != Precision::AsOperands)
      return;
    for (OpOperand &operand : op->getOpOperands()) {
      if (operand.get().getDefiningOp()->hasTrait<OpTrait::ConstantLike>())
        operand.set(casts.widen(operand.get()));
      else
        yieldWide(operand.get());
    }
  }

  func::FuncOp function;
  PrecisionCasts casts;
  DenseMap<Value, Value> rounded; ///< f32 value -> its narrow form
};

} // namespace

void mlir::autopar::settlePrecision(func::FuncOp function, ValueRange cotangents,
                                    MutableArrayRef<Value> gradients, bool wideGradients) {
  auto narrow = function->getAttrOfType<TypeAttr>(kPrecisionAttribute);
  if (!narrow)
    return;
  Settlement settlement(function, cast<FloatType>(narrow.getValue()));
  settlement.run(cotangents);
  if (wideGradients)
    for (Value &gradient : gradients)
      if (gradient)
        gradient = settlement.widenGradient(gradient);
}
