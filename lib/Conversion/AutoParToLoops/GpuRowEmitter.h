// SPDX-License-Identifier: Apache-2.0
// How a kernel over rows is emitted for a GPU; EmitGpuRows.cpp says what threads do, and
// EmitGpuMarkedRows.cpp what is done about an element at a position that is data.
#pragma once

#include "GpuThreads.h"
#include "RowMark.h"
#include "RowTeam.h"
#include "ScalarArithmetic.h"

namespace mlir::autopar {

class GpuRowEmitter {
public:
  GpuRowEmitter(KernelFrame &kernel, ElementEmitter &emitter)
      : kernel(kernel), emitter(emitter), plan(emitter.plan), loc(emitter.loc) {}

  GpuGrid emit();

private:
  struct Running {
    ElementLoweringOpInterface op;
    int64_t pass;
    size_t firstCarried, carriedCount;
  };
  /// An input of which each point reads its own element.
  struct RowInput {
    Value input;
    KeptElements shared; ///< where its elements wait once they have been read
    bool isRead = false; ///< by this pass
  };
  using EmitElement =
      function_ref<SmallVector<Value>(OpBuilder &, Value inside, ValueRange carried)>;

  void divide();
  int64_t chooseVector();
  void bindElement(OpBuilder &builder, ValueRange indices, int64_t number);
  /// Of the loops that lie within no vector, how many positions of the last one a vector takes.
  int64_t stepsOfVector() const {
    int64_t whole = 1;
    for (unsigned loop : ArrayRef(innerLoops).drop_front(steppedLoops))
      whole *= plan.loops[loop].extent;
    return team.width / whole;
  }
  /// Whether the kernel sums up rows in one pass and stores nothing else.
  bool reducesOnly() const {
    return plan.stageCount == 1 && llvm::all_of(plan.outputs, [](const PlannedOutput &output) {
             return output.isRowLevel;
           });
  }
  /// Static shared memory through which the warps of a block hand their sums to each other, at
  /// most: a pass has up to two.
  int64_t sumBytes() const {
    int64_t bytes = 0;
    for (const PlannedRowOp &row : plan.rowOps)
      bytes += 2 * ElementLoweringOpInterface(row.op).getRowPassCount() * team.warps * 8;
    return bytes;
  }
  int64_t columnBlocks() const {
    return llvm::divideCeil(plan.loops[plan.columnLoop].extent, kWarpThreads * team.columns);
  }
  /// How many rows a thread, or its team, has: neighbouring columns, the plan's parts of each.
  int64_t ownRows() const { return team.columns * parts; }
  /// Says which of them is meant from here on.
  void bindOwnRow(OpBuilder &builder, int64_t number);
  Value locate(OpBuilder &builder);
  void findRowInputs();
  void keepRowInputs(OpBuilder &builder);
  void readKeptRowInputs();
  void emitRow(OpBuilder &builder);
  void emitStage(OpBuilder &builder, int64_t stage);
  SmallVector<Value> overRow(OpBuilder &builder, ValueRange carried, EmitElement body);
  SmallVector<Value> emitRound(OpBuilder &builder, Value round, bool isWhole, ValueRange carried,
                               EmitElement body);
  SmallVector<Value> overOwnRows(OpBuilder &builder, ValueRange values,
                                 function_ref<SmallVector<Value>(ValueRange own)> body);
  SmallVector<Value> join(OpBuilder &builder, Running &running, ValueRange sums);
  SmallVector<Value> readJoined(OpBuilder &builder, const Running &running, ValueRange buffers,
                                ValueRange sums);
  void finish(OpBuilder &builder, ArrayRef<Running> passes, ValueRange joined, ValueRange sums);
  Value storesRow(OpBuilder &builder);
  void storeRowResults(OpBuilder &builder);
  void emitResults(OpBuilder &builder);
  void storeRow(OpBuilder &builder);

  // EmitGpuMarkedRows.cpp
  void findMark(OpBuilder &builder);
  bool isOfMark(ElementLoweringOpInterface op) const { return mark && mark->isOnlyTermOf(op); }
  void bindMarked(OpBuilder &builder);
  void sumMarked(OpBuilder &builder, ElementLoweringOpInterface op);
  bool storesMarked() const;
  void storeMarkedRow(OpBuilder &builder);
  bool storesWhereJoined() const {
    return (team.kind == RowTeam::Kind::Column || parts > 1) && reducesOnly();
  }
  Value both(OpBuilder &builder, Value a, Value b) {
    return a && b ? arith::AndIOp::create(builder, loc, a, b).getResult() : a ? a : b;
  }
  Value compare(OpBuilder &builder, Value index, int64_t limit) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index,
                                 indexConstant(builder, loc, limit));
  }
  bool isShared() const { return team.members() > 1; }
  bool throughMemory() const { return team.warps > 1 && isShared(); }

  KernelFrame &kernel;
  ElementEmitter &emitter;
  const KernelPlan &plan;
  Location loc;
  SmallVector<unsigned> outerLoops, innerLoops;
  size_t steppedLoops = 0;             ///< how many of the inner ones lie within no vector
  int64_t rowLength = 1, rowCount = 1; ///< rows: parts of one count once
  int64_t parts = 1;
  RowTeam team;
  SmallVector<RowInput> rowInputs; ///< that are still read from where they came
  int64_t sharedBytes = 0;         ///< that rows wait in
  Value lane, warp;                ///< of the thread: in its warp, and of the warp in its team
  Value member;                    ///< position of the thread in its team
  Value firstColumn;               ///< of the thread, in column teams
  Value hasColumn;                 ///< whether it exists; null: always
  std::optional<RowMark> mark;     ///< where threads share rows
  Value marked;                    ///< its position; the last one where it is outside of the row
  Value ownsMarked;                ///< whether it is in the row, among the thread's elements
};

} // namespace mlir::autopar
