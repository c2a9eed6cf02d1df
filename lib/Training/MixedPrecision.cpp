// SPDX-License-Identifier: Apache-2.0
// Mixed precision: the pass autopar-mixed-precision on the forward function, and what follows from
// it for derivatives. Each operation says through PrecisionOpInterface what it does in narrow
// floats; here values get their types accordingly, and casts stand where they differ.
#include "autopar/Training/MixedPrecision.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Interfaces/PrecisionInterface.h"
#include "autopar/Training/Passes.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_MIXEDPRECISIONPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

FloatType mlir::autopar::precisionType(MLIRContext *context, StringRef word) {
  if (word == "f32")
    return Float32Type::get(context);
  if (word == "bf16")
    return BFloat16Type::get(context);
  if (word == "fp16")
    return Float16Type::get(context);
  return {};
}

static RankedTensorType typeOf(Value value) { return dyn_cast<RankedTensorType>(value.getType()); }

static bool holds(Value value, Type element) {
  RankedTensorType type = typeOf(value);
  return type && type.getElementType() == element;
}

static Precision precisionOf(Operation *op) {
  auto known = dyn_cast<PrecisionOpInterface>(op);
  return known ? known.getPrecision() : Precision::Wide;
}

/// Whether a value is an argument of the function, as it is or moved about.
static bool isViewOfArgument(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (precisionOf(op) != Precision::AsOperands || op->getNumOperands() != 1)
      return false;
    value = op->getOperand(0);
  }
  return true;
}

namespace {

/// Casts between f32 and the narrow type in one function: one per value and direction.
class Casts {
public:
  Casts(func::FuncOp function, FloatType narrow)
      : function(function), narrowType(narrow), wideType(Float32Type::get(function.getContext())) {
    for (Operation &op : function.getBody().front())
      taken.insert(getOpId(&op));
  }

  bool isNarrow(Value value) const { return holds(value, narrowType); }
  bool isWide(Value value) const { return holds(value, wideType); }
  Type wide() const { return wideType; }

  /// The narrow form of an f32 value. Views of arguments are taken of the narrow argument, so that
  /// each argument is rounded once and as a whole.
  Value narrow(Value value) {
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

  /// The f32 form of a narrow value.
  Value widen(Value value) {
    if (!isNarrow(value))
      return value;
    Value &known = widened[value];
    return known ? known : known = cast(value, wideType);
  }

  /// Rounds what `result` (f32) is from here on: its readers get the narrow value.
  void round(Value result) {
    Value rounded = narrow(result);
    result.replaceAllUsesExcept(rounded, rounded.getDefiningOp());
  }

private:
  Value cast(Value value, Type element) {
    OpBuilder builder(function.getContext());
    builder.setInsertionPointAfterValue(value);
    auto op = CastOp::create(builder, value.getLoc(), typeOf(value).clone(element), value);
    name(op, baseOf(value));
    return op;
  }

  std::string baseOf(Value value) {
    if (Operation *op = value.getDefiningOp()) {
      StringRef id = getOpId(op);
      return (id.empty() ? op->getName().stripDialect() : id).str();
    }
    return nameOfArgument(llvm::cast<BlockArgument>(value));
  }

  /// `base/bf16`.
  void name(Operation *op, const Twine &base) {
    std::string wanted;
    llvm::raw_string_ostream(wanted) << base << "/" << typeOf(op->getResult(0)).getElementType();
    std::string id = wanted;
    for (int count = 1; !taken.insert(id).second; ++count)
      id = wanted + "." + std::to_string(count);
    setOpId(op, id);
  }

  func::FuncOp function;
  FloatType narrowType, wideType;
  DenseMap<Value, Value> narrowed, widened;
  llvm::StringSet<> taken;
};

SmallVector<Operation *> operationsOf(func::FuncOp function) {
  return llvm::map_to_vector(function.getBody().front().without_terminator(),
                             [](Operation &op) { return &op; });
}

/// Reads f32 and yields f32; what was narrow before, or is to be `rounded`, is rounded behind it.
void computeWide(Operation *op, Casts &casts, bool rounded) {
  for (OpOperand &operand : op->getOpOperands())
    operand.set(casts.widen(operand.get()));
  for (Value result : op->getResults()) {
    bool wasNarrow = casts.isNarrow(result);
    if (wasNarrow)
      result.setType(typeOf(result).clone(casts.wide()));
    if (wasNarrow || (rounded && casts.isWide(result)))
      casts.round(result);
  }
}

void computeNarrow(Operation *op, Casts &casts, FloatType narrow) {
  for (OpOperand &operand : op->getOpOperands())
    if (casts.isWide(operand.get()))
      operand.set(casts.narrow(operand.get()));
  for (Value result : op->getResults())
    if (casts.isWide(result))
      result.setType(typeOf(result).clone(narrow));
}

void narrowFunction(func::FuncOp function, FloatType narrow) {
  Casts casts(function, narrow);
  for (Operation *op : operationsOf(function)) {
    bool readsNarrow =
        llvm::any_of(op->getOperands(), [&](Value value) { return casts.isNarrow(value); });
    switch (precisionOf(op)) {
    case Precision::Narrow:
      computeNarrow(op, casts, narrow);
      break;
    case Precision::AsOperands:
      if (readsNarrow)
        computeNarrow(op, casts, narrow);
      break;
    case Precision::Rounded:
      computeWide(op, casts, readsNarrow);
      break;
    case Precision::Wide:
      computeWide(op, casts, false);
      break;
    }
  }
  Operation *returns = function.getBody().front().getTerminator();
  for (OpOperand &operand : returns->getOpOperands())
    operand.set(casts.widen(operand.get()));
}

//===-- after differentiation --------------------------------------------------------------===//

class Settlement {
public:
  Settlement(func::FuncOp function, FloatType narrow)
      : function(function), casts(function, narrow) {}

  void run(ValueRange cotangents) {
    for (Operation *op : operationsOf(function)) {
      Precision precision = precisionOf(op);
      bool isArithmetic = precision == Precision::Rounded || precision == Precision::Wide;
      if (isArithmetic && !isa<CastOp>(op) && touchesNarrow(op))
        computeWide(op, casts, false);
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
    return precisionOf(op) == Precision::Narrow ||
           (precisionOf(op) == Precision::AsOperands &&
            llvm::all_of(op->getOperands(), [&](Value operand) { return mayYieldWide(operand); }));
  }

  void yieldWide(Value value) {
    Operation *op = value.getDefiningOp();
    value.setType(typeOf(value).clone(casts.wide()));
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
  Casts casts;
  DenseMap<Value, Value> rounded; ///< f32 value -> its narrow form
};

struct MixedPrecisionPass : mlir::autopar::impl::MixedPrecisionPassBase<MixedPrecisionPass> {
  using Base::Base;

  void runOnOperation() override {
    FloatType narrow = precisionType(&getContext(), precision);
    if (!narrow) {
      getOperation().emitError() << "precision: expected f32, bf16 or fp16, got \"" << precision
                                 << "\"";
      return signalPassFailure();
    }
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock()) {
      getOperation().emitError("expected a function @main of one block to narrow");
      return signalPassFailure();
    }
    if (narrow.isF32())
      return;
    narrowFunction(function, narrow);
    function->setAttr(kPrecisionAttribute, TypeAttr::get(narrow));
  }
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
