// SPDX-License-Identifier: Apache-2.0
// Kernels over rows: an iteration is one row, or the same row position of a tile of neighbouring
// columns when memory is contiguous across rows. Passes of one stage share their loops; elements
// that were expensive to compute wait in a stack buffer, or in the output, for the next stage. Rows
// of many short pieces have an accumulator for each place of a piece, so that these are a vector.
#include "ByteSums.h"
#include "KernelBodies.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Columns that are worked on together; fewer where a column is long work, for threads to share.
constexpr int64_t columnTile = 256, leastColumnTile = 64, manyTiles = 16;
/// Stack space for row buffers of one kernel.
constexpr int64_t bufferBytes = 64 * 1024;
/// Formulas that cost more than this are kept rather than computed again.
constexpr int64_t cheapCost = 3;

class RowEmitter {
public:
  RowEmitter(KernelFrame &kernel, ElementEmitter &emitter)
      : kernel(kernel), emitter(emitter), plan(emitter.plan), loc(emitter.loc),
        context(plan.rowOps.front().op->getContext()) {}

  int64_t emit();

private:
  struct Running {
    ElementLoweringOpInterface op;
    int64_t pass;
    SmallVector<RowValue> accumulators; ///< per row of the iteration and lane, if there are several
    size_t firstCarried, carriedCount;  ///< among the loop's values, otherwise
  };

  void divide();
  void emitIteration(OpBuilder &builder, Value iteration);
  void emitStage(OpBuilder &builder, int64_t stage);
  void startPass(OpBuilder &builder, Running &running, SmallVector<Value> &carried);
  void finishPass(OpBuilder &builder, Running &running, ValueRange carried);
  SmallVector<Value> sumsOf(OpBuilder &builder, Running &running, ValueRange carried);
  void overLanes(OpBuilder &builder, function_ref<void(OpBuilder &)> body);
  SmallVector<Value> joinLanes(OpBuilder &builder, Running &running);
  void emitPassElement(OpBuilder &builder, Running &running, ValueRange carried,
                       SmallVector<Value> &next);
  void keepElement(OpBuilder &builder, Running &running, Value element);
  KeptElements chooseKept(Running &running, Type scalarType, bool &isOperand);
  KeptElements makeRowBuffer(Type scalarType);
  AffineExpr columnSlot() const;
  RowValue makeColumnBuffer(Type scalarType);
  RowValue makeAccumulator(Type scalarType);
  int64_t chainCost(Value value);
  void overColumns(OpBuilder &builder, function_ref<void(OpBuilder &)> body);
  LoopBounds wholeLoop(OpBuilder &builder, unsigned loop);
  SmallVector<LoopBounds> rowLoops(OpBuilder &builder, bool withColumns);
  SmallVector<LoopBounds> columnLoops(OpBuilder &builder);
  bool hasColumns() const { return plan.columnLoop >= 0; }
  /// Whether an iteration computes several rows, whose values are elements of buffers.
  bool hasManyRows() const { return hasColumns() || !plan.partLoops.empty(); }
  bool hasLanes() const { return plan.laneLoops > 0; }
  /// Whether accumulators are elements of buffers rather than carried by loops.
  bool areBuffered() const { return hasManyRows() || hasLanes(); }
  ArrayRef<unsigned> laneLoops() const { return ArrayRef(innerLoops).take_back(plan.laneLoops); }
  int64_t laneCount() const {
    int64_t count = 1;
    for (unsigned loop : laneLoops())
      count *= plan.loops[loop].extent;
    return count;
  }

  KernelFrame &kernel;
  ElementEmitter &emitter;
  const KernelPlan &plan;
  Location loc;
  MLIRContext *context;

  SmallVector<unsigned> outerLoops;
  SmallVector<unsigned> innerLoops;
  int64_t rowLength = 1;
  int64_t tile = 1, parts = 1;
  int64_t usedBytes = 0;
  Value tileStart, tileLength;
  unsigned columnAtom = 0; ///< position within the tile
};

void RowEmitter::divide() {
  for (auto [i, loop] : llvm::enumerate(plan.loops)) {
    if (loop.isRow) {
      innerLoops.push_back(i);
      rowLength *= loop.extent;
    } else if (llvm::is_contained(plan.partLoops, i)) {
      parts *= loop.extent;
    } else if (static_cast<int64_t>(i) != plan.columnLoop) {
      outerLoops.push_back(i);
    }
  }
  if (hasColumns()) {
    int64_t columns = plan.loops[plan.columnLoop].extent;
    tile = std::clamp<int64_t>(columns, 1, columnTile);
    while (plan.hasFewRows() && tile > leastColumnTile && columns < tile * manyTiles)
      tile /= 2;
    columnAtom = emitter.addAtom(tile);
  }
}

//===-- loops --------------------------------------------------------------------------------===//

int64_t RowEmitter::emit() {
  divide();
  SmallVector<int64_t> extents =
      llvm::map_to_vector(outerLoops, [&](unsigned loop) { return plan.loops[loop].extent; });
  if (hasColumns())
    extents.push_back((plan.loops[plan.columnLoop].extent + tile - 1) / tile);
  return emitIterations(kernel, emitter, outerLoops, extents,
                        [&](OpBuilder &builder, ArrayRef<Value> indices) {
                          emitIteration(builder, indices.empty() ? Value() : indices.back());
                        });
}

void RowEmitter::emitIteration(OpBuilder &builder, Value tileIndex) {
  if (hasColumns()) {
    Value size = indexConstant(builder, loc, tile);
    tileStart = arith::MulIOp::create(builder, loc, tileIndex, size);
    Value extent = indexConstant(builder, loc, plan.loops[plan.columnLoop].extent);
    Value rest = arith::SubIOp::create(builder, loc, extent, tileStart);
    bool even = plan.loops[plan.columnLoop].extent % tile == 0;
    tileLength = even ? size : arith::MinSIOp::create(builder, loc, size, rest).getResult();
  }
  emitByteSums(builder, kernel, emitter);
  for (int64_t stage = 0; stage < plan.stageCount; ++stage)
    emitStage(builder, stage);
  overColumns(builder, [&](OpBuilder &inner) {
    for (const PlannedOutput &output : plan.outputs)
      if (output.isRowLevel)
        emitStore(inner, kernel, emitter, output);
  });
  if (llvm::all_of(plan.outputs, [](const PlannedOutput &output) { return output.isRowLevel; }))
    return;
  emitNest(builder, emitter, rowLoops(builder, true), {}, [&](OpBuilder &inner, ValueRange) {
    for (const PlannedOutput &output : plan.outputs)
      if (!output.isRowLevel)
        emitStore(inner, kernel, emitter, output);
    return SmallVector<Value>();
  });
}

LoopBounds RowEmitter::wholeLoop(OpBuilder &builder, unsigned loop) {
  return {loop, indexConstant(builder, loc, 0),
          indexConstant(builder, loc, plan.loops[loop].extent)};
}

/// Over the rows of an iteration: columns of the tile, parts.
SmallVector<LoopBounds> RowEmitter::columnLoops(OpBuilder &builder) {
  SmallVector<LoopBounds> loops;
  if (hasColumns())
    loops.push_back({static_cast<unsigned>(plan.columnLoop), indexConstant(builder, loc, 0),
                     tileLength, tileStart, columnAtom});
  for (unsigned loop : plan.partLoops)
    loops.push_back(wholeLoop(builder, loop));
  return loops;
}

SmallVector<LoopBounds> RowEmitter::rowLoops(OpBuilder &builder, bool withColumns) {
  SmallVector<LoopBounds> loops;
  for (unsigned loop : innerLoops)
    loops.push_back(wholeLoop(builder, loop));
  if (withColumns)
    llvm::append_range(loops, columnLoops(builder));
  return loops;
}

/// Once per row of the iteration.
void RowEmitter::overColumns(OpBuilder &builder, function_ref<void(OpBuilder &)> body) {
  if (!hasManyRows())
    return body(builder);
  emitNest(builder, emitter, columnLoops(builder), {}, [&](OpBuilder &inner, ValueRange) {
    body(inner);
    return SmallVector<Value>();
  });
}

//===-- passes -------------------------------------------------------------------------------===//

void RowEmitter::emitStage(OpBuilder &builder, int64_t stage) {
  SmallVector<Running> passes;
  for (const PlannedRowOp &row : plan.rowOps) {
    ElementLoweringOpInterface op = row.op;
    int64_t pass = stage - row.firstStage;
    if (pass >= 0 && pass < op.getRowPassCount())
      passes.push_back({op, pass, {}, 0, 0});
  }
  if (passes.empty())
    return;
  SmallVector<Value> carried;
  overLanes(builder, [&](OpBuilder &inner) {
    for (Running &running : passes)
      startPass(inner, running, carried);
  });
  if (areBuffered())
    carried.clear();
  SmallVector<Value> totals = emitNest(builder, emitter, rowLoops(builder, true), carried,
                                       [&](OpBuilder &inner, ValueRange values) {
                                         SmallVector<Value> next;
                                         for (Running &running : passes)
                                           emitPassElement(inner, running, values, next);
                                         return next;
                                       });
  overColumns(builder, [&](OpBuilder &inner) {
    for (Running &running : passes)
      finishPass(inner, running, totals);
  });
}

/// Once per accumulator: per row of the iteration and place of a piece.
void RowEmitter::overLanes(OpBuilder &builder, function_ref<void(OpBuilder &)> body) {
  overColumns(builder, [&](OpBuilder &inner) {
    if (!hasLanes())
      return body(inner);
    SmallVector<LoopBounds> lanes = rowLoops(inner, false);
    emitNest(inner, emitter, ArrayRef(lanes).take_back(plan.laneLoops), {},
             [&](OpBuilder &innermost, ValueRange) {
               body(innermost);
               return SmallVector<Value>();
             });
  });
}

void RowEmitter::startPass(OpBuilder &builder, Running &running, SmallVector<Value> &carried) {
  SmallVector<Value> start = running.op.emitRowStart(builder, running.pass);
  running.firstCarried = carried.size();
  running.carriedCount = start.size();
  llvm::append_range(carried, start);
  if (!areBuffered())
    return;
  for (Value value : start) {
    running.accumulators.push_back(makeAccumulator(value.getType()));
    emitter.storeAt(builder, running.accumulators.back().perColumn, value);
  }
}

/// What the places of a piece have summed up, as the accumulators of one row: halves are joined,
/// all places at once, as long as there are two of them.
SmallVector<Value> RowEmitter::joinLanes(OpBuilder &builder, Running &running) {
  int64_t left = laneCount();
  unsigned lane = emitter.addAtom(left);
  auto at = [&](RowValue &sum, int64_t first) {
    KeptElements place = sum.perColumn;
    place.offset = columnSlot() * laneCount() + getAffineDimExpr(lane, context) + first;
    return place;
  };
  auto joined = [&](OpBuilder &inner, ValueRange sums, int64_t other) {
    SmallVector<Value> others;
    for (RowValue &sum : running.accumulators)
      others.push_back(emitter.loadAt(inner, at(sum, other)));
    return running.op.emitRowCombine(inner, running.pass, sums, others);
  };
  auto sums = [&](OpBuilder &inner) {
    return llvm::map_to_vector(running.accumulators,
                               [&](RowValue &sum) { return emitter.loadAt(inner, at(sum, 0)); });
  };
  for (; left % 2 == 0; left /= 2) {
    LoopBounds half{lane, indexConstant(builder, loc, 0), indexConstant(builder, loc, left / 2)};
    emitNest(builder, emitter, half, {}, [&](OpBuilder &inner, ValueRange) {
      SmallVector<Value> both = joined(inner, sums(inner), left / 2);
      for (auto [sum, value] : llvm::zip(running.accumulators, both))
        emitter.storeAt(inner, at(sum, 0), value);
      return SmallVector<Value>();
    });
  }
  emitter.rebind(lane, indexConstant(builder, loc, 0));
  SmallVector<Value> total = sums(builder);
  for (int64_t other = 1; other < left; ++other)
    total = joined(builder, total, other);
  return total;
}

/// The accumulators as they stand.
SmallVector<Value> RowEmitter::sumsOf(OpBuilder &builder, Running &running, ValueRange carried) {
  if (!areBuffered())
    return carried.slice(running.firstCarried, running.carriedCount);
  return llvm::map_to_vector(running.accumulators,
                             [&](RowValue &sum) { return emitter.loadAt(builder, sum.perColumn); });
}

void RowEmitter::emitPassElement(OpBuilder &builder, Running &running, ValueRange carried,
                                 SmallVector<Value> &next) {
  RowState &state = emitter.stateOf(running.op);
  Value element =
      emitter.emitRowElement(builder, running.op, running.pass, plan.domainIndex, state);
  keepElement(builder, running, element);
  SmallVector<Value> sums = sumsOf(builder, running, carried);
  sums = emitter.emitRowStep(builder, running.op, running.pass, element, sums, plan.domainIndex,
                             state);
  if (!areBuffered()) {
    llvm::append_range(next, sums);
    return;
  }
  for (auto [place, sum] : llvm::zip(running.accumulators, sums))
    emitter.storeAt(builder, place.perColumn, sum);
}

void RowEmitter::finishPass(OpBuilder &builder, Running &running, ValueRange carried) {
  RowState &state = emitter.stateOf(running.op);
  SmallVector<Value> sums =
      hasLanes() ? joinLanes(builder, running) : sumsOf(builder, running, carried);
  SmallVector<RowValue> values;
  for (Value value : running.op.emitRowFinish(builder, running.pass, sums)) {
    if (!hasManyRows()) {
      values.push_back({value, {}});
      continue;
    }
    values.push_back(makeColumnBuffer(value.getType()));
    emitter.storeAt(builder, values.back().perColumn, value);
  }
  state.values.push_back(values);
}

//===-- what is kept -------------------------------------------------------------------------===//

/// Cost of computing an element of `value` from what stands in memory.
int64_t RowEmitter::chainCost(Value value) {
  DenseSet<Value> seen;
  SmallVector<Value> worklist{value};
  int64_t cost = 0, reads = 0;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second || emitter.isKept(next))
      continue;
    auto op = next.getDefiningOp<ElementLoweringOpInterface>();
    if (llvm::is_contained(emitter.body.inputs, next) || !op) {
      reads += cast<RankedTensorType>(next.getType()).getNumElements() > rowLength;
      continue;
    }
    cost += op.getElementCost();
    if (!plan.isRowOp(op))
      llvm::append_range(worklist, op->getOperands());
  }
  return cost + std::max<int64_t>(reads - 1, 0) + (plan.hasStridedRows ? 2 * cheapCost : 0);
}

/// The place of a row in a buffer of the iteration's: the first parts of all columns, the second
/// parts, ...
AffineExpr RowEmitter::columnSlot() const {
  AffineExpr slot = getAffineConstantExpr(0, context);
  for (unsigned loop : plan.partLoops)
    slot = slot * plan.loops[loop].extent + getAffineDimExpr(loop, context);
  return hasColumns() ? slot * tile + getAffineDimExpr(columnAtom, context) : slot;
}

KeptElements RowEmitter::makeRowBuffer(Type scalarType) {
  int64_t elements = rowLength * parts * tile;
  int64_t bytes = elements * std::max(1u, scalarType.getIntOrFloatBitWidth() / 8);
  if (usedBytes + bytes > bufferBytes)
    return {};
  usedBytes += bytes;
  AffineExpr slot = getAffineConstantExpr(0, context);
  for (unsigned loop : innerLoops)
    slot = slot * plan.loops[loop].extent + getAffineDimExpr(loop, context);
  if (hasManyRows())
    slot = slot * (parts * tile) + columnSlot();
  return {emitBuffer(kernel, loc, elements, scalarType), slot, scalarType};
}

RowValue RowEmitter::makeColumnBuffer(Type scalarType) {
  return {{}, {emitBuffer(kernel, loc, parts * tile, scalarType), columnSlot(), scalarType}};
}

/// One element per row of the iteration and place of a piece; places of the longest loop lie side
/// by side.
RowValue RowEmitter::makeAccumulator(Type scalarType) {
  if (!hasLanes())
    return makeColumnBuffer(scalarType);
  SmallVector<unsigned> order(laneLoops());
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::pair(plan.loops[a].extent, a) < std::pair(plan.loops[b].extent, b);
  });
  AffineExpr slot = columnSlot();
  for (unsigned loop : order)
    slot = slot * plan.loops[loop].extent + getAffineDimExpr(loop, context);
  return {{}, {emitBuffer(kernel, loc, parts * tile * laneCount(), scalarType), slot, scalarType}};
}

/// Decides where the elements of a pass wait for the next one, if they are worth it. The elements
/// of a first pass are the operand's: they serve every formula that asks for the operand.
KeptElements RowEmitter::chooseKept(Running &running, Type scalarType, bool &isOperand) {
  ElementLoweringOpInterface op = running.op;
  bool isLast = running.pass + 1 == op.getRowPassCount();
  bool reduces = op.getRowDomain().reduces;
  isOperand = running.pass == 0;
  if (isOperand) {
    AffineMap map = op.getOperandMap(0);
    bool isWanted = !isLast || !reduces || !op->getOperand(0).hasOneUse();
    if (!isWanted || op->getNumOperands() != 1 || !map || !map.isIdentity() ||
        emitter.isKept(op->getOperand(0)) || chainCost(op->getOperand(0)) <= cheapCost)
      return {};
    return makeRowBuffer(scalarType);
  }
  if (isLast && reduces)
    return {};
  if (op.getElementCost() <= 2 * cheapCost + 2)
    return {};
  if (KeptElements buffer = makeRowBuffer(scalarType))
    return buffer;
  // A row too long for the stack waits in the output that it becomes.
  for (const PlannedOutput &output : plan.outputs)
    if (output.value == op->getResult(0) && elementTypeOf(output.value) == scalarType)
      return placeOf(kernel, emitter, output);
  return {};
}

void RowEmitter::keepElement(OpBuilder &builder, Running &running, Value element) {
  bool isOperand = false;
  KeptElements kept = chooseKept(running, element.getType(), isOperand);
  if (!kept)
    return;
  emitter.storeAt(builder, kept, element);
  RowState &state = emitter.stateOf(running.op);
  if (isOperand)
    emitter.keep(running.op->getOperand(0), kept);
  state.kept = kept;
  state.keptPass = running.pass;
}

} // namespace

int64_t autopar::emitRows(KernelFrame &kernel, ElementEmitter &emitter) {
  return RowEmitter(kernel, emitter).emit();
}
