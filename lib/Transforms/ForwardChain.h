// SPDX-License-Identifier: Apache-2.0
// The forward pass as a chain that is cut into pipeline stages.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"
#include "mlir/IR/Operation.h"

namespace mlir::autopar {

struct ChainCut {
  std::vector<int32_t> places; ///< the first operation of each stage but the first
  double slowestShare = 1;     ///< of the time of all stages
  double messagesUs = 0;       ///< one micro-batch's way through all cuts
};

class ForwardChain {
public:
  /// `ops` in order, without those that are on no stage; `ranksPerStage` share an operation's work.
  /// With `trains`, the backward pass takes twice the time of the forward pass, and gradients cross
  /// where values do.
  ForwardChain(ArrayRef<Operation *> ops, const ::autopar::Cluster &cluster, int64_t ranksPerStage,
               bool trains);

  /// The cut by which a step of `microBatches` is fastest (StageCut.h), whatever its memory.
  ::autopar::Result<ChainCut> cut(int32_t stages, int64_t microBatches) const;

private:
  void findCrossings(bool trains);
  std::vector<int32_t> placesToCut(int32_t stages) const;

  ArrayRef<Operation *> ops;
  std::vector<double> times;     ///< of the operations before each place
  std::vector<int64_t> crossing; ///< bytes at each place
  std::vector<double> transfers; ///< microseconds at each place
};

} // namespace mlir::autopar
