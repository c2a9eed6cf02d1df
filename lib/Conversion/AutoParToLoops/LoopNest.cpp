// SPDX-License-Identifier: Apache-2.0
// Nested scf loops.
#include "LoopNest.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

scf::ForOp autopar::emitFor(OpBuilder &builder, Location loc, Value lower, Value upper, Value step,
                            ValueRange initial,
                            function_ref<SmallVector<Value>(OpBuilder &, Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(builder, loc, lower, upper, step, initial);
  Block *block = loop.getBody();
  // Without carried values the loop comes with its terminator.
  if (!block->empty())
    block->back().erase();
  OpBuilder inner = OpBuilder::atBlockEnd(block);
  SmallVector<Value> next = body(inner, loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(inner, loc, next);
  return loop;
}

SmallVector<Value>
autopar::emitNest(OpBuilder &builder, ElementEmitter &emitter, ArrayRef<LoopBounds> loops,
                  ValueRange initial,
                  function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> body) {
  if (loops.empty())
    return body(builder, initial);
  const LoopBounds &loop = loops.front();
  Location loc = emitter.loc;
  scf::ForOp loopOp = emitFor(builder, loc, loop.lower, loop.upper, indexConstant(builder, loc, 1),
                              initial, [&](OpBuilder &inner, Value variable, ValueRange carried) {
                                Value index = variable;
                                if (loop.shift)
                                  index = arith::AddIOp::create(inner, loc, loop.shift, variable);
                                emitter.bind(loop.atom, index);
                                if (loop.localAtom >= 0)
                                  emitter.bind(loop.localAtom, variable);
                                return emitNest(inner, emitter, loops.drop_front(), carried, body);
                              });
  return llvm::to_vector_of<Value>(loopOp.getResults());
}

SmallVector<Value> autopar::emitDelinearize(OpBuilder &builder, Location loc, Value position,
                                            ArrayRef<int64_t> extents) {
  SmallVector<Value> indices(extents.size());
  for (size_t i = extents.size(); i-- > 0;) {
    if (i == 0) {
      indices[i] = position;
      break;
    }
    Value extent = indexConstant(builder, loc, extents[i]);
    indices[i] = arith::RemUIOp::create(builder, loc, position, extent);
    position = arith::DivUIOp::create(builder, loc, position, extent);
  }
  return indices;
}
