// SPDX-License-Identifier: Apache-2.0
// Rows with an element at a position that is data. No element is asked whether it is the one: sums
// of it alone read it where it is, and results are stored as if there were none, whereupon the
// thread that has it stores it once more, as it is.
#include "GpuRowEmitter.h"
#include "LoopNest.h"
#include "LoweringModels.h"

using namespace mlir;
using namespace mlir::autopar;

/// Teams of one thread have few elements, and columns lie in several rows.
void GpuRowEmitter::findMark(OpBuilder &builder) {
  if (team.kind != RowTeam::Kind::Warp && team.kind != RowTeam::Kind::Block)
    return;
  mark = RowMark::find(emitter.body, plan);
  if (!mark)
    return;
  Value position = emitter.evaluate(builder, mark->getPosition(), plan.domainIndex);
  emitter.forget();
  Type type = position.getType();
  auto constant = [&](int64_t value) {
    return arith::ConstantIntOp::create(builder, loc, type, value).getResult();
  };
  Value isInside =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, position, constant(rowLength));
  // What is negative is a huge number.
  Value clamped = arith::MinUIOp::create(builder, loc, position, constant(rowLength - 1));
  marked = arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(), clamped);
  // So that it is known how large it is.
  marked = arith::MinUIOp::create(builder, loc, marked, indexConstant(builder, loc, rowLength - 1));
  Value vector =
      arith::DivUIOp::create(builder, loc, marked, indexConstant(builder, loc, team.width));
  Value owner =
      arith::RemUIOp::create(builder, loc, vector, indexConstant(builder, loc, team.members()));
  ownsMarked = both(
      builder, isInside,
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, owner, member).getResult());
}

/// From here on the current point is the marked one.
void GpuRowEmitter::bindMarked(OpBuilder &builder) {
  SmallVector<int64_t> extents =
      llvm::map_to_vector(innerLoops, [&](unsigned loop) { return plan.loops[loop].extent; });
  for (auto [loop, index] : llvm::zip(innerLoops, emitDelinearize(builder, loc, marked, extents)))
    emitter.bind(loop, index);
  emitter.forget();
}

/// Every thread reads the term by itself; one outside of the row is 0 by its formula.
void GpuRowEmitter::sumMarked(OpBuilder &builder, ElementLoweringOpInterface op) {
  bindMarked(builder);
  RowState &state = emitter.stateOf(op);
  Value element = emitter.emitRowElement(builder, op, 0, plan.domainIndex, state);
  SmallVector<Value> start = op.emitRowStart(builder, 0);
  SmallVector<Value> sum =
      emitter.emitRowStep(builder, op, 0, element, start, plan.domainIndex, state);
  state.values.assign({{}});
  for (Value value : op.emitRowFinish(builder, 0, sum))
    state.values[0].push_back({value, {}});
  emitter.forget();
  // Nobody stores over what others still read.
  if (throughMemory())
    emitBarrier(builder, loc);
}

bool GpuRowEmitter::storesMarked() const {
  return mark && llvm::any_of(plan.outputs, [&](const PlannedOutput &output) {
           return !output.isRowLevel && mark->matters(output.value);
         });
}

void GpuRowEmitter::storeMarkedRow(OpBuilder &builder) {
  SmallVector<Type> types;
  SmallVector<PlannedOutput> outputs;
  for (const PlannedOutput &output : plan.outputs)
    if (!output.isRowLevel && mark->matters(output.value)) {
      outputs.push_back(output);
      types.push_back(getScalarType(elementTypeOf(output.value)));
    }
  // Before anything is stored, which may be over what it is made of.
  auto computed = scf::IfOp::create(builder, loc, types, ownsMarked, /*withElseRegion=*/true);
  OpBuilder owner = OpBuilder::atBlockBegin(computed.thenBlock());
  bindMarked(owner);
  SmallVector<Value> values;
  for (const PlannedOutput &output : outputs)
    values.push_back(emitter.evaluate(owner, output.value, output.index));
  scf::YieldOp::create(owner, loc, values);
  OpBuilder others = OpBuilder::atBlockBegin(computed.elseBlock());
  SmallVector<Value> zeros;
  for (Type type : types)
    zeros.push_back(arith::ConstantOp::create(others, loc, others.getZeroAttr(type)));
  scf::YieldOp::create(others, loc, zeros);

  for (Value test : mark->getTests())
    emitter.assume(test, false);
  storeRow(builder);
  emitter.stopAssuming();
  emitWhere(builder, loc, ownsMarked, [&](OpBuilder &inner) {
    bindMarked(inner);
    for (auto [output, value] : llvm::zip_equal(outputs, computed.getResults()))
      emitter.storeAt(inner, placeOf(kernel, emitter, output), value);
  });
}
