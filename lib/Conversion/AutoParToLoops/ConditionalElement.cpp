// SPDX-License-Identifier: Apache-2.0
// Conditions on positions, as scf.if: LLVM turns them into masked accesses.
#include "ConditionalElement.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::autopar;

Value autopar::emitGuarded(OpBuilder &builder, Location loc, Value condition, Type type,
                           function_ref<Value(OpBuilder &)> inside,
                           function_ref<Value(OpBuilder &)> outside) {
  auto branch = scf::IfOp::create(builder, loc, TypeRange{type}, condition, true, true);
  OpBuilder then = OpBuilder::atBlockEnd(branch.thenBlock());
  scf::YieldOp::create(then, loc, inside(then));
  OpBuilder otherwise = OpBuilder::atBlockEnd(branch.elseBlock());
  scf::YieldOp::create(otherwise, loc, outside(otherwise));
  return branch.getResult(0);
}

Value autopar::emitAnd(OpBuilder &builder, Location loc, Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(builder, loc, a, b);
}

Value autopar::compareIndex(OpBuilder &builder, Location loc, arith::CmpIPredicate predicate,
                            Value index, int64_t constant) {
  return arith::CmpIOp::create(builder, loc, predicate, index,
                               indexConstant(builder, loc, constant));
}
