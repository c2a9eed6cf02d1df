// SPDX-License-Identifier: Apache-2.0
// What the sharding problems of one function have in common on all meshes: names, what is alike,
// how long values live. Found once, since many meshes are tried.
#pragma once

#include "Sharding/DimensionRoles.h"
#include "Stages/StagePhases.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Planner/CostGraph.h"
#include "autopar/Transforms/MicroBatches.h"

#include <mutex>

namespace mlir::autopar {

/// Names of operations in plans: `autopar.id`, made unique by position where it is missing or given
/// twice.
SmallVector<std::pair<Operation *, std::string>> planIds(func::FuncOp function);
/// Names of arguments and results in plans: `autopar.name`, else "arg#i"; results with "output:" in
/// front.
std::string planNameOfArgument(func::FuncOp function, unsigned index);
std::string planNameOfResult(func::FuncOp function, unsigned index);

/// Whether the operand, which nobody else reads, is gone once it is held: held as it lies it is in
/// its bytes.
bool takesOver(HoldOp hold);

/// Does not change with the function; to be made anew when that changes.
class StepOutline {
public:
  explicit StepOutline(func::FuncOp function);

  func::FuncOp getFunction() const { return function; }
  /// In block order, without the terminator; positions count these.
  ArrayRef<std::pair<Operation *, std::string>> operations() const { return ids; }
  int64_t positionOf(Operation *op) const { return timeOf.lookup(op); }
  /// One per operation, and one for the results.
  int64_t timePoints() const { return static_cast<int64_t>(ids.size()) + 1; }

  const MicroBatches &microBatches() const { return batches; }
  const Stages &stages() const { return ownStages; }
  const StagePhases &phases() const { return ownPhases; }
  const DimensionRoles &roles() const; ///< found when they are first asked for, by any thread

  /// Operations that differ only in their id and operands share one kind; a layer's copies do.
  size_t kindOf(size_t position) const { return kinds[position]; }
  size_t kindCount() const { return differentKinds; }
  /// When a value is held.
  ::autopar::LiveInterval liveOf(OpResult result) const { return lives[indexOf(result)]; }
  ::autopar::LiveInterval liveOf(BlockArgument argument) const { return liveOf(argument, 0); }
  /// Whether a micro-batch's result of the forward pass is held until its backward pass.
  bool waitsForBackward(OpResult result) const { return waits[indexOf(result)]; }
  /// The argument whose next value a result is; null: none's.
  BlockArgument donorOf(unsigned result) const { return donors[result]; }

private:
  void numberKinds();
  bool isHeldForBackward(OpResult result) const;
  size_t indexOf(OpResult result) const {
    return firstResult[positionOf(result.getOwner())] + result.getResultNumber();
  }
  ::autopar::LiveInterval liveOf(ValueRange values, int64_t defined) const;

  mutable func::FuncOp function; ///< a handle; only read
  SmallVector<std::pair<Operation *, std::string>> ids;
  MicroBatches batches;
  Stages ownStages;
  StagePhases ownPhases;
  mutable std::once_flag knowsRoles;
  mutable std::optional<DimensionRoles> ownRoles;
  DenseMap<Operation *, int64_t> timeOf;
  SmallVector<BlockArgument> donors;            ///< by result
  int64_t firstRepeated = 0, lastRepeated = -1; ///< positions of what runs in every micro-batch
  int64_t firstBackward = -1;                   ///< of these; -1: none
  std::vector<char> areInUsers;                 ///< livesInUsers of each operation
  std::vector<size_t> kinds;
  size_t differentKinds = 0;
  std::vector<size_t> firstResult;            ///< per operation: the place of its first result in
  std::vector<::autopar::LiveInterval> lives; ///< these: per result of all operations
  std::vector<char> waits;
};

} // namespace mlir::autopar
