// SPDX-License-Identifier: Apache-2.0
// What a cluster would store only for others that could as well compute it from what it is made of.
// The normalized rows of a layer norm's derivatives: the kernel that sums over the samples reads
// the norm's input and the statistics of its rows, instead of a tensor that somebody has to write.
#include "FusionClusters.h"
#include "RepeatInUsers.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

/// Operations that are computed again for a reader.
static constexpr size_t mostOps = 16;
/// What must be saved of the bytes that were stored and read.
static constexpr int64_t leastPart = 8;

namespace {
/// What a cluster makes a value of by cheap arithmetic.
struct Making {
  llvm::function_ref<bool(Operation *)> isRepeated;
  llvm::SetVector<Value> sources;
  llvm::SetVector<Operation *> ops;

  void add(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !isRepeated(op))
      sources.insert(value);
    else if (ops.insert(op))
      llvm::for_each(op->getOperands(), [&](Value operand) { add(operand); });
  }
};
} // namespace

/// Whether all that reads the result outside of the cluster could compute it.
bool ClusterGraph::isComputedByReaders(Operation *op, const Cluster &cluster) const {
  Value result = op->getResult(0);
  if (!isCheapArithmetic(op) || !isExported(result, cluster))
    return false;
  auto cannotCompute = [&](Operation *user) {
    const Cluster *reader = clusterOf(user);
    return reader != &cluster &&
           (!reader || reader->isClosed || !readsOnce(user, result) ||
            user->getAttr("autopar.phase") != op->getAttr("autopar.phase") ||
            phases.phaseOf(user) != phases.phaseOf(op) || !isOnSameStage(cluster, *reader));
  };
  if (hasUser(result, cannotCompute))
    return false;
  auto isRepeated = [&](Operation *made) {
    return isFluid(made) || (clusterOf(made) == &cluster && isCheapArithmetic(made));
  };
  Making making{isRepeated, {}, {}};
  making.add(result);
  if (making.ops.size() > mostOps)
    return false;
  for (Value source : making.sources)
    if (Operation *from = source.getDefiningOp();
        from && clusterOf(from) == &cluster && !mayExport(from, cluster))
      return false;
  llvm::SetVector<const Cluster *> readers;
  hasUser(result, [&](Operation *user) {
    if (clusterOf(user) != &cluster)
      readers.insert(clusterOf(user));
    return false;
  });
  int64_t bytes = bytesOf(result) * static_cast<int64_t>(readers.size() + 1);
  int64_t left = bytes - bytes / leastPart;
  for (const Cluster *reader : readers)
    for (Value source : making.sources)
      if (!isReadBeside(source, *reader))
        left -= bytesOf(source);
  return left >= 0;
}

/// Whether the reader or a reduction that it may be joined with reads the value anyway.
bool ClusterGraph::isReadBeside(Value value, const Cluster &reader) const {
  return hasUser(value, [&](Operation *user) {
    const Cluster *other = clusterOf(user);
    return other && (other == &reader || (reader.rows && reader.rows.agrees(other->rows) &&
                                          isReduction(*other) && isReduction(reader)));
  });
}

/// A copy of `value`, which is made of `made` or what that is made of by operations that are
/// repeated.
static Value copyOf(Value value, llvm::function_ref<bool(Operation *)> isRepeated,
                    OpBuilder &builder, IRMapping &copies) {
  if (Value known = copies.lookupOrNull(value))
    return known;
  Operation *op = value.getDefiningOp();
  if (!op || !isRepeated(op))
    return value;
  for (Value operand : op->getOperands())
    copies.map(operand, copyOf(operand, isRepeated, builder, copies));
  Operation *copy = builder.clone(*op, copies);
  copy->removeAttr("autopar.id"); // which the original keeps
  copies.map(value, copy->getResult(0));
  return copy->getResult(0);
}

/// Copies for readers belong to no cluster, as fluid operations do.
void ClusterGraph::computeInReaders(Operation *op, const Cluster &cluster) {
  auto isRepeated = [&](Operation *made) {
    return isFluid(made) || (clusterOf(made) == &cluster && isCheapArithmetic(made));
  };
  llvm::SetVector<Operation *> readers;
  hasUser(op->getResult(0), [&](Operation *user) {
    if (clusterOf(user) != &cluster)
      readers.insert(user);
    return false;
  });
  for (Operation *reader : readers) {
    OpBuilder builder(reader);
    Operation *before = reader->getPrevNode();
    IRMapping copies;
    for (OpOperand &operand : reader->getOpOperands())
      if (definingOp(operand.get()) == op)
        operand.set(copyOf(operand.get(), isRepeated, builder, copies));
    for (Operation *copy = reader->getPrevNode(); copy != before; copy = copy->getPrevNode())
      positions[copy] = positionOf(reader);
  }
}

void ClusterGraph::storeLess() {
  for (std::unique_ptr<Cluster> &cluster : clusters) {
    if (cluster->isClosed)
      continue;
    for (Operation *op : cluster->ops)
      if (isComputedByReaders(op, *cluster))
        computeInReaders(op, *cluster);
  }
}
