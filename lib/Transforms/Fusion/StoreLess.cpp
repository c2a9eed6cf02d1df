// SPDX-License-Identifier: Apache-2.0
// What a cluster would store only for others that could as well compute it from what it is made of.
// The normalized rows of a layer norm's derivatives: the kernel that sums over the samples reads
// the norm's input and the statistics of its rows, instead of a tensor that somebody has to write.
#include "CheapArithmetic.h"
#include "FusionClusters.h"

#include "autopar/Transforms/Sharding.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

/// Operations that are computed again for a reader.
static constexpr size_t kMostRepeated = 24;
/// What must be saved of the bytes that were stored and read: one of so many.
static constexpr int64_t kLeastSaved = 8;
/// By what a value is smaller than what its cluster walks over where it is stored rather than
/// computed again for every element that is made of it.
static constexpr int64_t kSmaller = 8;

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
    else if (ops.insert(op) && ops.size() <= kMostRepeated)
      llvm::for_each(op->getOperands(), [&](Value operand) { add(operand); });
  }
};
} // namespace

static int64_t bytesOf(Value value) { return tensorBytes(tensorTypeOf(value)); }

static StringRef phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>("autopar.phase");
  return phase ? phase.getValue() : StringRef();
}

/// Whether arithmetic of the backward pass got into a cluster of the forward pass, which has what
/// it reads: it is moved, not repeated, if its readers do it.
static bool isEarly(Operation *op, const Cluster &cluster) {
  return isa<UnaryOp, BinaryOp>(op) && phaseOf(op) == "backward" &&
         phaseOf(cluster.ops.front()).empty();
}

/// Whether a reader would compute what the operation of the cluster does.
bool ClusterGraph::isRepeatedFor(Operation *op, const Cluster &cluster) const {
  if (isFluid(op))
    return true;
  if (clusterOf(op) != &cluster || !(isCheapArithmetic(op) || isEarly(op, cluster)))
    return false;
  int64_t elements = cast<RankedTensorType>(op->getResult(0).getType()).getNumElements();
  return elements * kSmaller > llvm::product_of(cluster.shape) || !mayExport(op, cluster);
}

/// The bytes of the forward pass that the backward pass waits for only if it makes a value of
/// `sources`.
int64_t ClusterGraph::keptFor(ArrayRef<Value> sources) const {
  int64_t bytes = 0;
  for (Value source : sources)
    if (source.getDefiningOp() &&
        !hasUser(source, [](Operation *user) { return phaseOf(user) == "backward"; }))
      bytes += bytesOf(source);
  return bytes;
}

/// Whether all that reads the result outside of the cluster could compute it.
bool ClusterGraph::isComputedByReaders(Operation *op, const Cluster &cluster) const {
  Value result = op->getResult(0);
  if (!isRepeatedFor(op, cluster) || !isExported(result, cluster))
    return false;
  bool isKept = false;
  auto cannotCompute = [&](Operation *user) {
    const Cluster *reader = clusterOf(user);
    bool isLater = phaseOf(op).empty() && phaseOf(user) == "backward";
    isKept |= isLater;
    return reader != &cluster &&
           (!reader || reader->isClosed || !readsOnce(user, result) ||
            (!isLater && phaseOf(user) != phaseOf(op)) ||
            phases.phaseOf(user) != phases.phaseOf(op) || !isOnSameStage(cluster, *reader));
  };
  if (hasUser(result, cannotCompute))
    return false;
  auto isRepeated = [&](Operation *made) { return isRepeatedFor(made, cluster); };
  Making making{isRepeated, {}, {}};
  making.add(result);
  // Hardly more bytes may wait for the backward pass than the result has; where it computes more,
  // fewer.
  bool isCheap = llvm::all_of(
      making.ops, [](Operation *made) { return isFluid(made) || isCheapArithmetic(made); });
  int64_t most = bytesOf(result) + (isCheap ? 1 : -1) * bytesOf(result) / kSmaller;
  if (making.ops.size() > kMostRepeated ||
      ((isKept || !isCheap) && keptFor(making.sources.getArrayRef()) > most))
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
  for (const Cluster *reader : readers)
    if (reader->ops.size() + making.ops.size() > kMostClusterOps)
      return false;
  int64_t bytes = bytesOf(result) * static_cast<int64_t>(readers.size() + 1);
  int64_t left = bytes - bytes / kLeastSaved;
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

/// `value` for one reader, which reads it at `index` over its cluster's iteration space: a copy
/// where the maker's cheap arithmetic makes it. Copies are operations of the reader's cluster.
Value ClusterGraph::copyFor(Operation *reader, Value value, const Index &index,
                            const Cluster &maker) {
  Operation *op = value.getDefiningOp();
  if (!op || !isRepeatedFor(op, maker))
    return value;
  auto lowering = cast<ElementLoweringOpInterface>(op);
  IRMapping operands;
  for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
    AffineMap map = lowering.getOperandMap(number);
    Index at = index && map ? Index(applyMap(map, *index)) : std::nullopt;
    operands.map(operand, copyFor(reader, operand, at, maker));
  }
  Operation *copy = OpBuilder(reader).clone(*op, operands);
  copy->removeAttr("autopar.id"); // which the original keeps
  if (Attribute phase = reader->getAttr("autopar.phase"))
    copy->setAttr("autopar.phase", phase);
  bool isOfFixed = isOfFixedParameters(value);
  Place &place = places[copy];
  place.position = positionOf(reader);
  place.isOfFixedParameters = isOfFixed;
  if (!isFluid(copy)) {
    Cluster &cluster = *clusterOf(reader);
    place.cluster = &cluster;
    cluster.ops.insert(llvm::find(cluster.ops, reader), copy);
    cluster.at.push_back({copy, index});
    cluster.cost += lowering.getElementCost();
    cluster.reducesAcross |= reducesAcross(copy);
  }
  return copy->getResult(0);
}

void ClusterGraph::computeInReaders(Operation *op, const Cluster &cluster) {
  llvm::SetVector<Operation *> readers;
  hasUser(op->getResult(0), [&](Operation *user) {
    if (clusterOf(user) != &cluster)
      readers.insert(user);
    return false;
  });
  for (Operation *reader : readers) {
    auto lowering = cast<ElementLoweringOpInterface>(reader);
    Index at = clusterOf(reader)->indexOf(reader);
    for (auto [number, operand] : llvm::enumerate(reader->getOpOperands())) {
      if (definingOp(operand.get()) != op)
        continue;
      AffineMap map = lowering.getOperandMap(number);
      operand.set(copyFor(reader, operand.get(),
                          at && map ? Index(applyMap(map, *at)) : std::nullopt, cluster));
    }
  }
}

void ClusterGraph::storeLess() {
  for (std::unique_ptr<Cluster> &cluster : clusters) {
    if (cluster->isClosed)
      continue;
    for (Operation *op : SmallVector<Operation *>(cluster->ops))
      if (isComputedByReaders(op, *cluster))
        computeInReaders(op, *cluster);
  }
}
