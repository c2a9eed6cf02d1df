// SPDX-License-Identifier: Apache-2.0
// Which operations of a block run once per micro-batch: those between the operations that take the
// current micro-batch and those that put all of them together (MicroBatchOps.td).
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::autopar {

/// When an operation runs.
enum class MicroBatchPhase {
  Before, ///< once, needs no micro-batch
  Each,   ///< in every micro-batch
  After,  ///< once, needs what all micro-batches give
};

class MicroBatches {
public:
  /// Looks at the operations of a block in order; regions count with the operation that holds them.
  explicit MicroBatches(Block &block);

  /// Number of micro-batches; 1 where nothing is split.
  int64_t count() const { return microBatches; }
  MicroBatchPhase phaseOf(Operation *op) const {
    auto it = phases.find(op);
    return it == phases.end() ? MicroBatchPhase::Before : it->second;
  }
  /// How often an operation runs.
  int64_t runsOf(Operation *op) const {
    return phaseOf(op) == MicroBatchPhase::Each ? microBatches : 1;
  }
  /// Marks an operation that runs in every micro-batch although its operands would let it run once.
  static constexpr llvm::StringLiteral everyTime = "autopar.each_micro_batch";
  /// Whether the operation runs in every micro-batch and gives one value for all of them.
  static bool joins(Operation *op);

private:
  int64_t microBatches = 1;
  DenseMap<Operation *, MicroBatchPhase> phases; ///< all but Before
};

} // namespace mlir::autopar
