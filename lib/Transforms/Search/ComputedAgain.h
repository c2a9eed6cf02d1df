// SPDX-License-Identifier: Apache-2.0
// What a search takes for granted to be computed again in the backward pass, before it knows how
// anything is sharded: so that it does not choose by memory that recomputation frees anyway.
#pragma once

#include "Cost/StepOutline.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Transforms/ComputesAgain.h"

namespace mlir::autopar {

/// Of one function, for all meshes.
class ComputedAgain {
public:
  /// `outline` outlives it. Times are those of whole tensors on `device`; each stage is looked at
  /// by itself.
  ComputedAgain(const StepOutline &outline, const ::autopar::DeviceType &device,
                ComputesAgain what);

  /// Whether it is of a micro-batch's forward pass and depends on the micro-batch.
  bool isForward(Operation *op) const;
  /// Whether the operation runs a second time.
  bool isAgain(size_t position) const { return secondRuns[position] >= 0; }
  /// When a result is held: what is computed again until the forward pass has read it, and from its
  /// second run on.
  SmallVector<::autopar::LiveInterval, 2> livesOf(OpResult result) const;
  /// Whether the backward pass itself reads what is held: what it gathers for that serves what is
  /// computed again.
  bool isGatheredAnyway(HoldOp hold) const;
  /// Whether a micro-batch's result of the forward pass is kept until its backward pass.
  bool waitsForBackward(OpResult result) const;

private:
  /// Positions at which a value is read.
  struct Reads {
    int64_t lastForward = -1;
    int64_t firstLater = std::numeric_limits<int64_t>::max(), lastLater = -1; ///< second runs too
  };
  void addStage(int64_t stage, const ::autopar::DeviceType &device, ComputesAgain what);
  bool runsInEach(Operation *op) const;
  Reads readsOf(Value value) const;

  const StepOutline &outline;
  int64_t forwardEnd = 0; ///< the first operation of the backward pass
  /// By position: the operation of the backward pass right before which it runs again; -1: never.
  std::vector<int64_t> secondRuns;
  DenseMap<Value, Reads> reads; ///< of results of the forward pass
};

} // namespace mlir::autopar
