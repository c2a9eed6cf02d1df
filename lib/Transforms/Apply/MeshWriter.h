// SPDX-License-Identifier: Apache-2.0
// Writes what one mesh does in a step: its stages' operations in the order of the schedule, with
// messages to and from the other meshes.
#pragma once

#include "Cost/OverlappedCollectives.h"
#include "Cost/RowsTogether.h"
#include "MeshRounds.h"
#include "StagedFunction.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::autopar {

class MeshWriter {
public:
  /// Adds the function of the mesh, empty, to the module: @main where there is one mesh, else
  /// @main.0, ... `rounds`: those of the mesh that are to be written once. `overlapped`, which
  /// outlives it: what goes on while the first or the last micro-batch computes.
  MeshWriter(const StagedFunction &source, const ::autopar::Schedule &schedule,
             const std::optional<::autopar::ScheduleRounds> &rounds,
             const OverlappedCollectives &overlapped, int32_t mesh);
  /// Fills it. Changes nothing else, so that all meshes' may be filled at the same time. `together`
  /// puts rows in order that run together; without it they stand one behind the other.
  LogicalResult write(RowsTogether *together);

private:
  static constexpr int64_t kOnce = -1; ///< in place of a micro-batch

  bool isHere(Operation *op) const;
  /// Operations of this mesh's rows.
  void collect();
  void writeOnce(MicroBatchPhase phase);
  void writeRows(RowsTogether *together);
  /// The number of the current micro-batch, a constant where it is the same in all rounds.
  Value indexOf(MicroBatchIndexOp op, int64_t microBatch);
  /// Position `microBatch` of a value's first dimension, as a slice of it.
  Value partAt(Value all, int64_t microBatch, Location loc);
  /// What is taken from whole values is taken anew behind this: it lies elsewhere.
  void forgetParts();
  void passOn(Value value, int64_t stage);
  void writeRow(const ::autopar::ScheduleRow &row);
  /// Puts together what all micro-batches gave and `op`, which runs behind them, reads: the last
  /// one has made its part.
  void handOnFor(Operation *op, int64_t microBatch);
  void writeTogether(ArrayRef<::autopar::ScheduleRow> pair, RowsTogether &together);
  /// Receives what the operations of a row read, so that it is under way before they run.
  void receiveFor(const ::autopar::ScheduleRow &row);
  void writeReturn();
  void tell(unsigned result, Value value, int64_t other, bool isTowardsLoss);
  Value hear(unsigned result, Value value, int64_t other);
  void dropArguments();

  void write(Operation *op, int64_t microBatch);
  bool writeFirst(Operation *op, int64_t microBatch, IRMapping &mapping);
  void join(StackMicroBatchesOp op, Value part, int64_t microBatch);
  void handOn(CarryOp op, Value value);
  /// What the micro-batch before has handed on; made where that is on no stage.
  Value handedOnTo(int64_t microBatch, int64_t number);
  /// What a value is here; made or received if it is not there yet.
  Value resolve(Value value, int64_t microBatch);
  Value make(Operation *op, Value result, int64_t microBatch);
  Value takePart(MicroBatchOp op, int64_t microBatch);
  Value receive(TransferOp op, int64_t microBatch);
  /// Lets the parts of a transfer come; they are put together when somebody reads them.
  void startReceiving(TransferOp op, int64_t microBatch);
  Value putTogether(TransferOp op, int64_t microBatch, ArrayRef<Value> parts);
  /// Sends a value to the other meshes that it is transferred to.
  void sendOn(Value value, int64_t microBatch);
  Value partOf(Value value, ArrayRef<int64_t> start, ArrayRef<int64_t> shape, TransferOp op,
               int64_t number);
  Operation *clone(Operation *op, int64_t microBatch, IRMapping &operands);
  int64_t numberOf(int64_t microBatch) const;
  /// What is made while it lives is made for an operation and, unless negative, a micro-batch.
  MeshRounds::Scope madeFor(Operation *op, int64_t microBatch) {
    return MeshRounds::Scope(rounds ? &*rounds : nullptr, op, microBatch);
  }
  void name(Operation *made, Operation *original, int64_t microBatch);
  /// Where the results of an operation are kept: per micro-batch, or once.
  IRMapping &mappingFor(Operation *op, int64_t microBatch);
  bool isEach(Operation *op) const {
    return source.microBatches.phaseOf(op) == MicroBatchPhase::Each;
  }

  const StagedFunction &source;
  ::autopar::Schedule schedule; ///< with one round of the mesh
  const OverlappedCollectives &overlapped;
  int32_t mesh;
  func::FuncOp target;
  OpBuilder builder;
  IRMapping once;
  SmallVector<IRMapping> perMicroBatch;
  std::map<std::pair<int32_t, ::autopar::StagePhase>, SmallVector<Operation *>> rows;
  DenseMap<int64_t, CarryOp> carryOps;    ///< by number
  DenseMap<int64_t, Value> handedOn;      ///< by number, of the last micro-batch
  DenseMap<Operation *, int64_t> carries; ///< micro-batches that handed on
  DenseMap<Operation *, Value> wholes;    ///< with what micro-batches gave so far
  DenseMap<std::pair<Operation *, int64_t>, SmallVector<Value>> coming; ///< parts under way
  llvm::DenseSet<std::pair<Operation *, int64_t>> sentParts; ///< of whole values, by micro-batch
  std::optional<MeshRounds> rounds;
};

} // namespace mlir::autopar
