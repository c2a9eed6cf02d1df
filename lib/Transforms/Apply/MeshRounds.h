// SPDX-License-Identifier: Apache-2.0
// The rounds of a mesh's function: what stands before, in and behind them, and what one leaves for
// the next.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Plan/ScheduleRounds.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/SaveAndRestore.h"

namespace mlir::autopar {

/// Keeps for which operation and micro-batch of the source each operation is made: what a round
/// finds of micro-batch i it leaves as that of micro-batch i + the micro-batches of a round.
class MeshRounds : public OpBuilder::Listener {
public:
  enum class Part { Before, Within, Behind };

  /// The builder outlives it. Operations are added at the end of the block of `builder`.
  MeshRounds(const ::autopar::ScheduleRounds &rounds, OpBuilder &builder);
  ~MeshRounds() override;

  Part part() const { return current; }
  size_t firstRow() const { return rounds.first; }
  size_t rows() const { return rounds.rows; }
  /// The number of a micro-batch that the schedule of one round calls `microBatch`; within it, that
  /// in the first round.
  int64_t numberOf(int64_t microBatch) const {
    return microBatch + (current == Part::Behind ? rounds.repeated() : 0);
  }
  void begin(Location loc);
  void end(Location loc);
  /// Lets one round hand on to the next what it needs, and the last one what stands behind them.
  LogicalResult handOn();

  /// While it lives, operations are made for `op` in a micro-batch; negative: for none.
  class Scope {
  public:
    Scope(MeshRounds *rounds, Operation *op, int64_t microBatch);

  private:
    std::optional<llvm::SaveAndRestore<std::pair<Operation *, int64_t>>> source;
  };

private:
  struct Source {
    Operation *op;
    int64_t number; ///< among those that are made for it in a micro-batch
    int64_t microBatch;
  };
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override;
  Part partOf(Operation *op) const;
  /// What a value of before the rounds is at the end of the first one; null after an error.
  Value leftFor(OpResult value) const;

  ::autopar::ScheduleRounds rounds;
  OpBuilder &builder;
  Block *block;
  Part current = Part::Before;
  RoundBeginOp first;
  RoundEndOp last;
  std::pair<Operation *, int64_t> source{nullptr, -1};
  DenseMap<Operation *, Source> sources;
  /// By source and number, the operation of each micro-batch.
  DenseMap<std::pair<Operation *, int64_t>, DenseMap<int64_t, Operation *>> made;
  DenseMap<std::pair<Operation *, int64_t>, int64_t> counts; ///< by source and micro-batch
};

} // namespace mlir::autopar
