// SPDX-License-Identifier: Apache-2.0
// What the operations of a step, grouped into kernels, do when it runs: which of them cost
// something, on which meshes each runs, and whether once or in every micro-batch.
#pragma once

#include "KernelTime.h"
#include "Stages/StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Stages.h"
#include "llvm/ADT/SmallBitVector.h"
#include <map>
#include <vector>

namespace mlir::autopar {

class StepWork {
public:
  /// The schedule, which is that of `order`, outlives it.
  StepWork(StepOrder order, const ::autopar::Schedule &schedule);

  /// What an operation takes by `times`; nothing if it is free.
  KernelTime::Parts partsOf(Operation *op, KernelTime &times) const {
    return free.contains(op) || isa<TransferOp>(op) ? KernelTime::Parts() : times.of(op);
  }
  /// Stages::kNone: it is on none.
  int64_t stageOf(Operation *op) const { return stages.of(op); }
  /// The mesh of an operation's stage; the first one where it is on none.
  int32_t meshOf(Operation *op) const;
  /// The mesh that sends what goes to another stage; -1 where nobody does.
  int32_t senderOf(TransferOp transfer) const;

  /// A state's next value that is made elsewhere: a copy makes it state, in host memory where the
  /// state lies there.
  struct CopiedState {
    Value value;
    bool isStored;
  };
  SmallVector<CopiedState> copiedStates() const;

  DenseSet<Operation *> free;    ///< read where it lies, or made when parameters are read
  DenseSet<Operation *> updates; ///< of state: they wait for `guards`
  DenseSet<Operation *> inPlace; ///< those of them that write it where it lies
  SmallVector<Value> guards;     ///< metrics that may forbid updates
  SmallVector<Value> metrics;    ///< what every mesh gets to know
  DenseMap<Operation *, llvm::SmallBitVector> places; ///< the meshes on which an operation runs
  /// What runs once before the micro-batches, in each of them, and once behind them.
  std::vector<Operation *> atStart, inEach, atEnd;
  /// What runs in each micro-batch and is sent, by stage and phase.
  using Part = std::pair<int64_t, ::autopar::StagePhase>;
  std::map<Part, std::vector<Operation *>> rows;
  std::map<Part, SmallVector<TransferOp>> sent;
  StagePhases phases;
  MicroBatches microBatches;

private:
  void findFree();
  void findUpdates();
  void findPlaces();
  bool isEach(Operation *op) const;
  int64_t rowStage(Operation *op, unsigned mesh) const;

  func::FuncOp function;
  Block &block;
  const ::autopar::Schedule &schedule;
  Stages stages;
};

} // namespace mlir::autopar
