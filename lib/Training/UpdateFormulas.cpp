// SPDX-License-Identifier: Apache-2.0
// See the header. The numbers of a formula: what is kept, gradient, what the optimizer shares, clip
// factor, whether the step counts.
#include "autopar/Training/UpdateFormulas.h"

#include "autopar/Training/MixedPrecision.h"

using namespace mlir;
using namespace mlir::autopar;

UpdateFormulas::UpdateFormulas(func::FuncOp function) : symbols(function->getParentOp()) {
  if (auto precision = function->getAttrOfType<TypeAttr>(kPrecisionAttribute))
    narrow = cast<FloatType>(precision.getValue());
}

SmallVector<Value> UpdateFormulas::apply(FormulaBuilder &b, const Optimizer &optimizer,
                                         const UpdateInputs &inputs) {
  Value gradient = inputs.gradient;
  ValueRange state = inputs.state;
  UpdateConditions conditions = inputs.conditions;
  auto element = cast<FloatType>(getElementTypeOrSelf(inputs.parameter.getType()));
  SmallVector<Value> next;
  if (const Preconditioner *preconditioner = optimizer.preconditioner()) {
    ValueRange own = state.take_front(preconditioner->stateNames().size());
    state = state.drop_front(own.size());
    SmallVector<Type> types(own.getTypes());
    types.push_back(inputs.parameter.getType());
    UpdateOp accumulated =
        update(b, optimizer.name + "_direction", false, {element, own, gradient, {}, conditions},
               types, [&](FormulaBuilder &b, ValueRange kept, Value gradient, ValueRange) {
                 return preconditioner->accumulate(b, gradient, kept);
               });
    llvm::append_range(next, accumulated.getResults());
    auto element = cast<FloatType>(getElementTypeOrSelf(inputs.parameter.getType()));
    gradient = preconditioner->precondition(b, next.pop_back_val(), inputs.matrix,
                                            narrow ? narrow : element);
    conditions.clipFactor = nullptr; // the direction follows a clipped gradient
  }
  Operands operands{element, {inputs.parameter}, gradient, inputs.shared, conditions};
  llvm::append_range(operands.kept, state);
  UpdateOp updated =
      update(b, optimizer.name, inputs.decays, operands, ValueRange(operands.kept).getTypes(),
             [&](FormulaBuilder &b, ValueRange kept, Value gradient, ValueRange shared) {
               return optimizer.update(b, kept[0], gradient, kept.drop_front(), shared,
                                       inputs.decays ? optimizer.weightDecay : 0);
             });
  next.insert(next.begin(), updated.getResult(0));
  llvm::append_range(next, updated.getResults().drop_front());
  return next;
}

UpdateOp UpdateFormulas::update(FormulaBuilder &b, const Twine &name, bool decays,
                                const Operands &operands, TypeRange results, Body body) {
  SmallVector<Value> inputs = operands.kept;
  inputs.push_back(operands.gradient);
  auto add = [&](Value scalar, Type element) {
    Value &known = casts[{scalar, element}];
    if (!known)
      known = b.cast(scalar, element);
    inputs.push_back(known);
  };
  for (Value number : operands.shared)
    add(number, operands.element);
  if (operands.conditions.clipFactor)
    add(operands.conditions.clipFactor, b.typeOf(operands.gradient).getElementType());
  if (operands.conditions.isFinite)
    inputs.push_back(operands.conditions.isFinite);
  SmallVector<Type> numbers = llvm::map_to_vector(inputs, [](Value input) -> Type {
    return RankedTensorType::get({}, getElementTypeOrSelf(input.getType()));
  });
  StringAttr symbol = b.builder.getStringAttr(name);
  FormulaOp &formula = formulas[{symbol, b.builder.getTypeArrayAttr(numbers), decays}];
  if (!formula)
    formula = build(symbol, numbers, operands, body);
  return UpdateOp::create(b.builder, b.loc, results, formula.getSymName(), inputs);
}

FormulaOp UpdateFormulas::build(StringRef name, ArrayRef<Type> numbers, const Operands &operands,
                                Body body) {
  Operation *module = symbols.getOp();
  OpBuilder builder(module->getContext());
  auto formula = FormulaOp::create(builder, module->getLoc(), name);
  // Where a look-up meets it first.
  symbols.insert(formula, module->getRegion(0).front().begin());
  Block &block = formula.getBody().emplaceBlock();
  for (Type number : numbers)
    block.addArgument(number, formula.getLoc());
  builder.setInsertionPointToEnd(&block);
  FormulaBuilder b(builder, formula.getLoc());
  ValueRange inputs = block.getArguments();
  ValueRange kept = inputs.take_front(operands.kept.size());
  ValueRange shared = inputs.slice(kept.size() + 1, operands.shared.size());
  Value gradient = inputs[kept.size()];
  if (operands.conditions.clipFactor)
    gradient = b.mul(gradient, inputs[kept.size() + 1 + shared.size()]);
  // The gradient of a narrow parameter may be f32, the state of a wide one bf16.
  auto inElement = [&](Value value) { return b.cast(value, operands.element); };
  SmallVector<Value> results =
      body(b, llvm::map_to_vector(kept, inElement), inElement(gradient), shared);
  for (auto [next, before] : llvm::zip(results, kept)) {
    next = b.cast(next, getElementTypeOrSelf(before.getType()));
    if (operands.conditions.isFinite)
      next = b.select(inputs.back(), next, before);
  }
  YieldOp::create(builder, formula.getLoc(), results);
  return formula;
}
