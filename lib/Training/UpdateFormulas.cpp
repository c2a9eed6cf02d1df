// SPDX-License-Identifier: Apache-2.0
// See the header. The numbers of a formula: parameter, gradient, state, what the optimizer shares,
// clip factor, whether the step counts.
#include "autopar/Training/UpdateFormulas.h"

using namespace mlir;
using namespace mlir::autopar;

UpdateFormulas::UpdateFormulas(func::FuncOp function, StringRef name, const Optimizer &optimizer)
    : symbols(function->getParentOp()), name(name), optimizer(optimizer) {}

UpdateOp UpdateFormulas::apply(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                               ValueRange shared, UpdateConditions conditions, bool decays) {
  SmallVector<Value> inputs{parameter, gradient};
  llvm::append_range(inputs, state);
  auto add = [&](Value scalar, Value like) {
    Type element = b.typeOf(like).getElementType();
    Value &known = casts[{scalar, element}];
    if (!known)
      known = b.cast(scalar, element);
    inputs.push_back(known);
  };
  for (Value number : shared)
    add(number, parameter);
  if (conditions.clipFactor)
    add(conditions.clipFactor, gradient);
  if (conditions.isFinite)
    inputs.push_back(conditions.isFinite);
  SmallVector<Type> numbers = llvm::map_to_vector(inputs, [](Value input) -> Type {
    return RankedTensorType::get({}, getElementTypeOrSelf(input.getType()));
  });
  FormulaOp &formula = formulas[{b.builder.getTypeArrayAttr(numbers), decays}];
  if (!formula)
    formula = build(numbers, state.size(), shared.size(), conditions, decays);
  SmallVector<Type> types{parameter.getType()};
  llvm::append_range(types, state.getTypes());
  return UpdateOp::create(b.builder, b.loc, types, formula.getSymName(), inputs);
}

FormulaOp UpdateFormulas::build(ArrayRef<Type> numbers, size_t states, size_t shared,
                                UpdateConditions conditions, bool decays) {
  Operation *module = symbols.getOp();
  OpBuilder builder(module->getContext());
  auto formula = FormulaOp::create(builder, module->getLoc(), name);
  // Where a look-up meets it first.
  symbols.insert(formula, module->getRegion(0).front().begin());
  Block &body = formula.getBody().emplaceBlock();
  for (Type number : numbers)
    body.addArgument(number, formula.getLoc());
  builder.setInsertionPointToEnd(&body);
  FormulaBuilder b(builder, formula.getLoc());
  ValueRange inputs = body.getArguments();
  Value parameter = inputs[0], gradient = inputs[1];
  ValueRange old = inputs.slice(2, states);
  if (conditions.clipFactor)
    gradient = b.mul(gradient, inputs[2 + states + shared]);
  // Of narrow parameters it may be f32.
  gradient = b.cast(gradient, getElementTypeOrSelf(parameter.getType()));
  SmallVector<Value> next =
      optimizer.update(b, parameter, gradient, old, inputs.slice(2 + states, shared),
                       decays ? optimizer.weightDecay : 0);
  if (conditions.isFinite) {
    next[0] = b.select(inputs.back(), next[0], parameter);
    for (auto [value, before] : llvm::zip_equal(MutableArrayRef<Value>(next).drop_front(), old))
      value = b.select(inputs.back(), value, before);
  }
  YieldOp::create(builder, formula.getLoc(), next);
  return formula;
}
