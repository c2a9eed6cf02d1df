// SPDX-License-Identifier: Apache-2.0
// Kernels over rows for a GPU: a team of threads per row (RowTeam.h). Every thread reads its own
// elements in every pass, at the same places; where a row fits, nothing is between the passes but
// arithmetic, and LLVM keeps the elements in registers. The elements of longer rows are read once,
// too: until the next pass they wait in shared memory, where each thread has its own. What the
// members have summed up is joined by shuffles within a warp and through shared memory between
// warps, with one barrier per stage.
#include "GpuRowEmitter.h"
#include "LoopNest.h"
#include "LoweringModels.h"

using namespace mlir;
using namespace mlir::autopar;

/// Sums of columns that a thread has at most, of each part and in all: they are joined through
/// shared memory.
static constexpr int64_t kMostColumnSums = 8, kMostSums = 16;

void GpuRowEmitter::divide() {
  int64_t columns = 0;
  bool isDivisible = llvm::all_of(plan.rowOps, [](const PlannedRowOp &row) -> bool {
    return ElementLoweringOpInterface(row.op).isRowDivisible();
  });
  for (auto [i, loop] : llvm::enumerate(plan.loops)) {
    bool isPart = llvm::is_contained(plan.partLoops, i);
    (isPart ? parts : loop.isRow ? rowLength : rowCount) *= loop.extent;
    if (isPart)
      continue;
    if (loop.isRow)
      innerLoops.push_back(i);
    else if (static_cast<int64_t>(i) != plan.columnLoop)
      outerLoops.push_back(i);
    else
      columns = loop.extent;
  }
  int64_t width = 1;
  if (columns == 0 && !plan.hasStridedRows && !innerLoops.empty())
    width = chooseVector();
  // Columns of a thread do not share row values, so that there may be one stage only.
  int64_t columnWidth = 1;
  if (columns > 0 && reducesOnly()) {
    columnWidth = chooseVectorWidth(emitter, columns, rowCount * rowLength);
    auto sums = static_cast<int64_t>(plan.rowOps.size());
    while (columnWidth > 1 &&
           (columnWidth * sums > kMostColumnSums || columnWidth * sums * parts > kMostSums))
      columnWidth /= 2;
  }
  int64_t tensors = llvm::count_if(
      llvm::concat<const Value>(emitter.body.inputs, emitter.body.outputs), [&](Value value) {
        return cast<RankedTensorType>(value.getType()).getNumElements() >= rowLength;
      });
  team = RowTeam::choose({rowCount, rowLength, width, columns, columnWidth, isDivisible, tensors});
  if (team.width == 1)
    steppedLoops = innerLoops.size();
  if (team.kind != RowTeam::Kind::Column && plan.columnLoop >= 0)
    outerLoops.push_back(plan.columnLoop);
}

void GpuRowEmitter::bindOwnRow(OpBuilder &builder, int64_t number) {
  if (team.kind == RowTeam::Kind::Column) {
    Value column = firstColumn;
    if (int64_t further = number % team.columns; further > 0)
      column = arith::AddIOp::create(builder, loc, column, indexConstant(builder, loc, further));
    emitter.rebind(plan.columnLoop, column);
  }
  int64_t part = number / team.columns;
  for (unsigned loop : llvm::reverse(plan.partLoops)) {
    int64_t extent = plan.loops[loop].extent;
    emitter.rebind(loop, indexConstant(builder, loc, part % extent));
    part /= extent;
  }
}

/// Finds the thread's row and binds its loops; returns whether there is one (null: always).
Value GpuRowEmitter::locate(OpBuilder &builder) {
  Value thread = emitThreadIndex(builder, loc), block = emitBlockIndex(builder, loc);
  Value warpSize = indexConstant(builder, loc, kWarpThreads);
  lane = emitLaneIndex(builder, loc);
  warp = arith::DivUIOp::create(builder, loc, thread, warpSize);
  SmallVector<int64_t> extents =
      llvm::map_to_vector(outerLoops, [&](unsigned loop) { return plan.loops[loop].extent; });
  Value row = block, exists;
  if (team.kind == RowTeam::Kind::Column) {
    member = warp;
    int64_t columns = plan.loops[plan.columnLoop].extent;
    extents.push_back(columnBlocks());
    SmallVector<Value> indices = emitDelinearize(builder, loc, row, extents);
    for (auto [loop, index] : llvm::zip(outerLoops, indices))
      emitter.bind(loop, index);
    Value first = arith::MulIOp::create(builder, loc, indices.back(), warpSize);
    first = arith::AddIOp::create(builder, loc, first, lane);
    firstColumn =
        arith::MulIOp::create(builder, loc, first, indexConstant(builder, loc, team.columns));
    if (columns % (kWarpThreads * team.columns) != 0) {
      hasColumn = compare(builder, firstColumn, columns);
      firstColumn = arith::MinUIOp::create(builder, loc, firstColumn,
                                           indexConstant(builder, loc, columns - team.columns));
    }
    bindOwnRow(builder, 0);
    return {};
  }
  bindOwnRow(builder, 0);
  if (team.kind == RowTeam::Kind::Thread) {
    row = emitGridIndex(builder, loc, team.rowsPerBlock);
    member = indexConstant(builder, loc, 0);
  } else if (team.kind == RowTeam::Kind::Warp) {
    Value first =
        arith::MulIOp::create(builder, loc, block, indexConstant(builder, loc, team.rowsPerBlock));
    Value lanes = indexConstant(builder, loc, team.lanes), inBlock = warp;
    member = lane;
    if (team.lanes < kWarpThreads) {
      inBlock = arith::DivUIOp::create(builder, loc, thread, lanes);
      member = arith::RemUIOp::create(builder, loc, lane, lanes);
    }
    row = arith::AddIOp::create(builder, loc, first, inBlock);
    warp = indexConstant(builder, loc, 0);
  } else {
    member = thread;
  }
  if (rowCount % team.rowsPerBlock != 0)
    exists = compare(builder, row, rowCount);
  // Where there is no row, nothing is read: positions do not matter.
  for (auto [loop, index] : llvm::zip(outerLoops, emitDelinearize(builder, loc, row, extents)))
    emitter.bind(loop, index);
  return exists;
}

/// The width of vectors along the row. Inner loops that are shorter than a vector (the halves of a
/// byte) lie within it; it takes some steps of the one around them.
int64_t GpuRowEmitter::chooseVector() {
  auto extent = [&] { return plan.loops[innerLoops[steppedLoops - 1]].extent; };
  int64_t most = elementsOfVector(emitter, rowLength), whole = 1;
  steppedLoops = innerLoops.size();
  while (steppedLoops > 1 && most % (2 * whole * extent()) == 0) {
    whole *= extent();
    --steppedLoops;
  }
  int64_t steps = most / whole;
  while (extent() % steps != 0)
    steps /= 2;
  return whole * steps;
}

/// Binds the loops of the row to element `number` of the vector that `indices` of steppedLoops say.
void GpuRowEmitter::bindElement(OpBuilder &builder, ValueRange indices, int64_t number) {
  for (unsigned loop : llvm::reverse(ArrayRef(innerLoops).drop_front(steppedLoops))) {
    emitter.bind(loop, indexConstant(builder, loc, number % plan.loops[loop].extent));
    number /= plan.loops[loop].extent;
  }
  for (auto [loop, index] : llvm::zip(innerLoops, indices))
    emitter.bind(loop, index);
  if (stepsOfVector() == 1)
    return;
  Value first = arith::MulIOp::create(builder, loc, indices.back(),
                                      indexConstant(builder, loc, stepsOfVector()));
  emitter.bind(innerLoops[steppedLoops - 1],
               arith::AddIOp::create(builder, loc, first, indexConstant(builder, loc, number)));
}

GpuGrid GpuRowEmitter::emit() {
  divide();
  // All threads of a warp have one row, or none: shuffles see the whole warp.
  Value exists = locate(kernel.body);
  emitWhere(kernel.body, loc, exists, [&](OpBuilder &builder) { emitRow(builder); });
  int64_t blocks = (rowCount + team.rowsPerBlock - 1) / team.rowsPerBlock;
  if (team.kind == RowTeam::Kind::Column) {
    int64_t columns = plan.loops[plan.columnLoop].extent;
    blocks = rowCount / std::max<int64_t>(columns, 1) * columnBlocks();
  }
  return {std::max<int64_t>(blocks, 1), team.blockThreads(), sharedBytes};
}

//===-- rows that wait in shared memory ------------------------------------------------------===//

/// Of a block's row that does not fit its registers.
void GpuRowEmitter::findRowInputs() {
  if (team.kind != RowTeam::Kind::Block || team.rounds == 1)
    return;
  for (Value input : emitter.body.inputs)
    if (cast<RankedTensorType>(input.getType()).getNumElements() == rowCount * rowLength)
      rowInputs.push_back({input, {}});
}

/// Puts aside what the current point has read, where it fits.
void GpuRowEmitter::keepRowInputs(OpBuilder &builder) {
  for (RowInput &row : rowInputs) {
    Value element = emitter.loadedHere(row.input);
    if (!element)
      continue;
    if (!row.shared && !row.isRead) {
      Type type = elementTypeOf(row.input);
      int64_t bytes = sharedBytesOf(rowLength, type);
      if (sharedBytes + bytes + sumBytes() <= kMostSharedBytes) {
        AffineExpr place = getAffineConstantExpr(0, builder.getContext());
        for (unsigned loop : innerLoops)
          place = place * plan.loops[loop].extent + getAffineDimExpr(loop, builder.getContext());
        row.shared = {emitDynamicShared(kernel.entry, loc, sharedBytes, rowLength, type), place,
                      type};
        sharedBytes += bytes;
      }
    }
    row.isRead = true;
    if (row.shared)
      emitter.storeAt(builder, row.shared, element);
  }
}

/// Later passes read what is put aside; a thread reads what it has stored itself.
void GpuRowEmitter::readKeptRowInputs() {
  for (RowInput &row : rowInputs)
    if (row.shared)
      emitter.keep(row.input, row.shared);
  llvm::erase_if(rowInputs, [](const RowInput &row) { return row.isRead; });
}

void GpuRowEmitter::emitRow(OpBuilder &builder) {
  findRowInputs();
  findMark(builder);
  bool storesRows =
      llvm::any_of(plan.outputs, [](const PlannedOutput &output) { return !output.isRowLevel; });
  for (int64_t stage = 0; stage < plan.stageCount; ++stage) {
    if (stage + 1 == plan.stageCount && !storesRows)
      rowInputs.clear(); // nothing is read after this
    emitStage(builder, stage);
    readKeptRowInputs();
  }
  rowInputs.clear();
  emitter.forget();
  emitResults(builder);
}

//===-- the elements of a row ----------------------------------------------------------------===//

/// One round: the thread's next elements. `inside` is null where they certainly exist; elsewhere
/// the row's last element is taken instead, and must not count.
SmallVector<Value> GpuRowEmitter::emitRound(OpBuilder &builder, Value round, bool isWhole,
                                            ValueRange carried, EmitElement body) {
  SmallVector<Value> values(carried);
  SmallVector<int64_t> extents =
      llvm::map_to_vector(ArrayRef(innerLoops).take_front(steppedLoops),
                          [&](unsigned loop) { return plan.loops[loop].extent; });
  if (!extents.empty())
    extents.back() /= stepsOfVector();
  int64_t vectors = rowLength / team.width;
  Value start = member;
  if (round)
    start = arith::AddIOp::create(
        builder, loc, start,
        arith::MulIOp::create(builder, loc, round,
                              indexConstant(builder, loc, team.members() * team.perRound)));
  for (int64_t i = 0; i < team.perRound; ++i) {
    Value vector = start, inside;
    if (i > 0)
      vector = arith::AddIOp::create(builder, loc, start,
                                     indexConstant(builder, loc, i * team.members()));
    // In the last round, the last members alone may be outside.
    int64_t before = (team.rounds - 1) * team.members() * team.perRound;
    bool mayLeave = !isWhole && before + (i + 1) * team.members() > vectors;
    if (mayLeave) {
      inside = compare(builder, vector, vectors);
      vector =
          arith::MinUIOp::create(builder, loc, vector, indexConstant(builder, loc, vectors - 1));
    }
    SmallVector<Value> indices = emitDelinearize(builder, loc, vector, extents);
    for (int64_t k = 0; k < team.width; ++k) {
      bindElement(builder, indices, k);
      emitter.forget();
      values =
          overOwnRows(builder, values, [&](ValueRange own) { return body(builder, inside, own); });
      keepRowInputs(builder);
    }
  }
  return values;
}

SmallVector<Value> GpuRowEmitter::overRow(OpBuilder &builder, ValueRange carried,
                                          EmitElement body) {
  if (rowLength == 0)
    return carried;
  int64_t whole = team.isExact ? team.rounds : team.rounds - 1;
  SmallVector<Value> values(carried);
  if (whole > 1) {
    scf::ForOp loop = emitFor(builder, loc, indexConstant(builder, loc, 0),
                              indexConstant(builder, loc, whole), indexConstant(builder, loc, 1),
                              values, [&](OpBuilder &inner, Value round, ValueRange sums) {
                                return emitRound(inner, round, true, sums, body);
                              });
    values = llvm::to_vector_of<Value>(loop.getResults());
  } else if (whole == 1) {
    values = emitRound(builder, {}, true, values, body);
  }
  if (whole == team.rounds)
    return values;
  // The last round by itself: no other has to ask whether its elements exist.
  Value last = whole == 0 ? Value() : indexConstant(builder, loc, whole);
  return emitRound(builder, last, false, values, body);
}

//===-- passes -------------------------------------------------------------------------------===//

/// Does for each of the thread's rows what `body` does with the values that belong to it. LLVM
/// reads once what all of them read.
SmallVector<Value>
GpuRowEmitter::overOwnRows(OpBuilder &builder, ValueRange values,
                           function_ref<SmallVector<Value>(ValueRange own)> body) {
  if (ownRows() == 1)
    return body(values);
  SmallVector<Value> all;
  size_t each = values.size() / ownRows();
  for (int64_t row = 0; row < ownRows(); ++row) {
    bindOwnRow(builder, row);
    llvm::append_range(all, body(values.slice(row * each, each)));
  }
  return all;
}

void GpuRowEmitter::emitStage(OpBuilder &builder, int64_t stage) {
  SmallVector<Running> passes;
  SmallVector<Value> starts, carried;
  for (const PlannedRowOp &row : plan.rowOps) {
    ElementLoweringOpInterface op = row.op;
    int64_t pass = stage - row.firstStage;
    if (pass < 0 || pass >= op.getRowPassCount())
      continue;
    if (isOfMark(op)) {
      sumMarked(builder, op);
      continue;
    }
    SmallVector<Value> start = op.emitRowStart(builder, pass);
    passes.push_back({op, pass, starts.size(), start.size()});
    llvm::append_range(starts, start);
  }
  if (passes.empty())
    return;
  for (int64_t row = 0; row < ownRows(); ++row)
    llvm::append_range(carried, starts);
  SmallVector<Value> sums =
      overRow(builder, carried, [&](OpBuilder &inner, Value inside, ValueRange values) {
        SmallVector<Value> next;
        for (Running &running : passes) {
          RowState &state = emitter.stateOf(running.op);
          Value element =
              emitter.emitRowElement(inner, running.op, running.pass, plan.domainIndex, state);
          ValueRange old = values.slice(running.firstCarried, running.carriedCount);
          SmallVector<Value> stepped = emitter.emitRowStep(inner, running.op, running.pass, element,
                                                           old, plan.domainIndex, state);
          for (auto [before, after] : llvm::zip(old, stepped))
            next.push_back(inside ? arith::SelectOp::create(inner, loc, inside, after, before)
                                  : after);
        }
        return next;
      });
  emitter.forget();
  SmallVector<Value> joined = overOwnRows(builder, sums, [&](ValueRange own) {
    SmallVector<Value> values;
    for (Running &running : passes)
      llvm::append_range(
          values, join(builder, running, own.slice(running.firstCarried, running.carriedCount)));
    return values;
  });
  if (throughMemory())
    emitBarrier(builder, loc);
  // Who alone stores what a row sums up to joins it alone, too.
  emitWhere(builder, loc, storesWhereJoined() ? storesRow(builder) : Value(),
            [&](OpBuilder &inner) {
              overOwnRows(inner, joined, [&](ValueRange own) {
                finish(inner, passes, own, sums);
                if (storesWhereJoined())
                  storeRowResults(inner);
                return SmallVector<Value>();
              });
            });
}

/// Makes the values of the row of what its members have joined.
void GpuRowEmitter::finish(OpBuilder &builder, ArrayRef<Running> passes, ValueRange joined,
                           ValueRange sums) {
  for (const Running &running : passes) {
    ElementLoweringOpInterface op = running.op;
    SmallVector<Value> values(joined.slice(running.firstCarried, running.carriedCount));
    if (throughMemory())
      values = readJoined(builder, running, values, sums);
    SmallVector<RowValue> finished;
    for (Value value : op.emitRowFinish(builder, running.pass, values))
      finished.push_back({value, {}});
    SmallVector<SmallVector<RowValue>> &known = emitter.stateOf(op).values;
    known.resize(running.pass);
    known.push_back(finished);
  }
}

/// The total of what each warp has put into the shared buffers; who reads reads all of it.
SmallVector<Value> GpuRowEmitter::readJoined(OpBuilder &builder, const Running &running,
                                             ValueRange buffers, ValueRange sums) {
  ElementLoweringOpInterface op = running.op;
  SmallVector<Value> total;
  for (int64_t part = 0; part < team.warps; ++part) {
    SmallVector<Value> one;
    for (auto [i, buffer] : llvm::enumerate(buffers)) {
      Value place = indexConstant(builder, loc, part);
      if (team.kind == RowTeam::Kind::Column)
        place = arith::AddIOp::create(builder, loc, lane,
                                      indexConstant(builder, loc, part * kWarpThreads));
      one.push_back(
          loadScalar(builder, loc, buffer, place, sums[running.firstCarried + i].getType()));
    }
    total = total.empty() ? one : op.emitRowCombine(builder, running.pass, total, one);
  }
  return total;
}

/// Joins the sums of the members: the totals, or, where several warps share a row, the shared
/// buffers into which each warp has put its own.
SmallVector<Value> GpuRowEmitter::join(OpBuilder &builder, Running &running, ValueRange sums) {
  SmallVector<Value> joined(sums);
  bool isColumn = team.kind == RowTeam::Kind::Column;
  if (isShared() && !isColumn)
    joined = emitLanesCombine(builder, loc, joined, team.lanes,
                              [&](OpBuilder &inner, ValueRange a, ValueRange b) {
                                return running.op.emitRowCombine(inner, running.pass, a, b);
                              });
  if (!throughMemory())
    return joined;
  SmallVector<Value> buffers;
  for (Value value : joined) {
    int64_t places = team.warps * (isColumn ? kWarpThreads : 1);
    buffers.push_back(emitSharedBuffer(kernel, loc, places, value.getType()));
    if (isColumn)
      storeScalar(builder, loc, value, buffers.back(), emitThreadIndex(builder, loc),
                  value.getType());
    else
      emitStoreOfWarp(builder, loc, value, buffers.back(), warp, team.warps, lane);
  }
  return buffers;
}

//===-- results ------------------------------------------------------------------------------===//

/// Whether the thread is the one of its team that stores results of rows.
Value GpuRowEmitter::storesRow(OpBuilder &builder) {
  return both(builder, isShared() ? compare(builder, member, 1) : Value(), hasColumn);
}

void GpuRowEmitter::storeRowResults(OpBuilder &builder) {
  for (const PlannedOutput &output : plan.outputs)
    if (output.isRowLevel)
      emitStore(builder, kernel, emitter, output);
}

void GpuRowEmitter::emitResults(OpBuilder &builder) {
  if (storesWhereJoined())
    return;
  auto isRowLevel = [](const PlannedOutput &output) { return output.isRowLevel; };
  if (llvm::any_of(plan.outputs, isRowLevel)) {
    emitWhere(builder, loc, storesRow(builder), [&](OpBuilder &inner) { storeRowResults(inner); });
    emitter.forget();
  }
  if (llvm::all_of(plan.outputs, isRowLevel))
    return;
  storesMarked() ? storeMarkedRow(builder) : storeRow(builder);
}

void GpuRowEmitter::storeRow(OpBuilder &builder) {
  overRow(builder, {}, [&](OpBuilder &inner, Value inside, ValueRange) {
    emitWhere(inner, loc, both(inner, inside, hasColumn), [&](OpBuilder &store) {
      for (const PlannedOutput &output : plan.outputs)
        if (!output.isRowLevel)
          emitStore(store, kernel, emitter, output);
    });
    return SmallVector<Value>();
  });
}

GpuGrid autopar::emitGpuRows(KernelFrame &kernel, ElementEmitter &emitter) {
  return GpuRowEmitter(kernel, emitter).emit();
}
