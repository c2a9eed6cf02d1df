// SPDX-License-Identifier: Apache-2.0
// Reductions of one value that do not need each other are one kernel, which reads the value once:
// the gradients of a layer norm's scale and bias.
#include "FusionClusters.h"

using namespace mlir;
using namespace mlir::autopar;

/// By what all that a reduction stores is smaller than what it reads.
static constexpr int64_t kShrinkage = 8;
/// Reductions of one kernel: warps hand each of their sums to each other through shared memory.
static constexpr int64_t kMostReductions = 8;

bool ClusterGraph::isReduction(const Cluster &cluster) const {
  if (cluster.isClosed || cluster.ops.empty() || !cluster.rows)
    return false;
  int64_t stored = 0;
  for (Operation *op : cluster.ops)
    if (Value result = op->getResult(0); isExported(result, cluster))
      stored += cast<RankedTensorType>(result.getType()).getNumElements();
  return stored * kShrinkage <= llvm::product_of(cluster.shape);
}

static int64_t reductionsOf(const Cluster &cluster) {
  return llvm::count_if(cluster.ops, [](Operation *op) {
    return static_cast<bool>(cast<ElementLoweringOpInterface>(op).getRowDomain());
  });
}

/// Neither reads what the other makes.
bool ClusterGraph::mayJoin(Cluster &first, Cluster &second) const {
  return reductionsOf(first) + reductionsOf(second) <= kMostReductions &&
         edgesBetween(first, second).empty() && edgesBetween(second, first).empty();
}

/// What a cluster reads as often as it has points.
llvm::SetVector<Value> ClusterGraph::readWhole(const Cluster &cluster) const {
  llvm::SetVector<Value> values;
  SmallVector<Value> worklist;
  for (Operation *op : cluster.ops)
    llvm::append_range(worklist, op->getOperands());
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (op && isFluidHere(op))
      llvm::append_range(worklist, op->getOperands());
    else if (cast<RankedTensorType>(value.getType()).getNumElements() ==
             llvm::product_of(cluster.shape))
      values.insert(value);
  }
  return values;
}

void ClusterGraph::joinReductions() {
  DenseMap<Value, Cluster *> reducers;
  for (std::unique_ptr<Cluster> &own : clusters) {
    if (!isReduction(*own))
      continue;
    Cluster *cluster = own.get();
    for (Value value : readWhole(*own)) {
      Cluster *&other = reducers[value];
      if (other && other != cluster && !other->ops.empty()) {
        bool isFirst = other->place.label < cluster->place.label;
        Cluster &first = isFirst ? *other : *cluster, &second = isFirst ? *cluster : *other;
        if (mayJoin(first, second) && tryMerge(first, second))
          cluster = &second;
      }
      other = cluster;
    }
  }
}
