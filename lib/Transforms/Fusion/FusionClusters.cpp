// SPDX-License-Identifier: Apache-2.0
// Growing clusters. A producer joins a consumer in one of two ways: at the same point, when both
// work on one iteration space and the consumer reads just the point (or row) that the producer
// computes; or by substitution, when nobody else needs the producer and it is not computed more
// often than before.
#include "FusionClusters.h"

#include "autopar/Transforms/AtLoad.h"
#include "autopar/Transforms/ByteSums.h"
#include "autopar/Transforms/FewRows.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

/// A formula that may be computed again for every read.
static constexpr int64_t cheapCost = 2;
/// A formula that may run under a mask, for elements that are then not used.
static constexpr int64_t maskedCost = 3;

/// So many numbers at most are chosen by position rather than read from memory: by how much parts
/// of a byte are shifted, one per channel of an image.
static constexpr int64_t kFewNumbers = 4;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static SmallVector<AffineExpr> identityIndex(ArrayRef<int64_t> shape, MLIRContext *context) {
  return llvm::map_to_vector(llvm::seq<unsigned>(0, shape.size()),
                             [&](unsigned dim) { return getAffineDimExpr(dim, context); });
}

static SmallVector<int64_t> keptShape(const RowDomain &rows) {
  SmallVector<int64_t> shape;
  for (auto [dim, size] : llvm::enumerate(rows.shape))
    if (!rows.isRowDim(dim))
      shape.push_back(size);
  return shape;
}

static SmallVector<AffineExpr> keptIndex(const RowDomain &rows, ArrayRef<AffineExpr> index) {
  SmallVector<AffineExpr> kept;
  for (auto [dim, expr] : llvm::enumerate(index))
    if (!rows.isRowDim(dim))
      kept.push_back(expr);
  return kept;
}

/// Whether neighbouring elements belong to different rows.
static bool runsAcrossRows(const RowDomain &rows) {
  for (int64_t dim = static_cast<int64_t>(rows.shape.size()) - 1; dim >= 0; --dim)
    if (rows.shape[dim] != 1)
      return !rows.isRowDim(dim);
  return false;
}

/// The index over the row domain of a sum that is one element of whoever reads it: what is summed
/// has dimensions that no iteration space has.
static SmallVector<AffineExpr> elementIndex(const RowDomain &rows, MLIRContext *context) {
  constexpr unsigned beyondAll = 1 << 20;
  unsigned kept = 0, summed = beyondAll;
  return llvm::map_to_vector(llvm::seq<int64_t>(0, rows.shape.size()), [&](int64_t dim) {
    return getAffineDimExpr(rows.isRowDim(dim) ? summed++ : kept++, context);
  });
}

//===-- fluid operations ---------------------------------------------------------------------===//

/// A float that widens is read in its narrow form wherever it is needed.
static bool isWidening(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  return cast && cast.isWidening();
}

bool autopar::isFluid(Operation *op) {
  if (isa<ReshapeOp>(op) || isWidening(op))
    return true;
  if (op->getNumOperands() > 1 || op->getNumResults() != 1)
    return false;
  auto lowering = dyn_cast<ElementLoweringOpInterface>(op);
  if (!lowering || lowering.getRowDomain())
    return false;
  if (op->getNumOperands() == 0) {
    DenseElementsAttr value;
    if (matchPattern(op, m_Constant(&value)))
      return value.isSplat() || value.getNumElements() <= kFewNumbers;
    return !op->hasTrait<OpTrait::ConstantLike>() && lowering.getElementCost() <= 1;
  }
  return typeOf(op->getResult(0)).getNumElements() > typeOf(op->getOperand(0)).getNumElements() &&
         lowering.getElementCost() == 0 && lowering.getOperandMap(0) &&
         lowering.getPositionDimensions().empty();
}

std::pair<Value, Index> autopar::traceFluids(Value value, Index index) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isFluid(op) || op->getNumOperands() == 0)
      break;
    if (index)
      index = applyMap(cast<ElementLoweringOpInterface>(op).getOperandMap(0), *index);
    value = op->getOperand(0);
  }
  return {value, index};
}

//===-- the graph ----------------------------------------------------------------------------===//

static bool isFixedUnlessFluid(Operation *op) {
  return isa<DotGeneralOp, ConvolutionOp>(op) || op->getNumResults() != 1 ||
         op->hasTrait<OpTrait::ConstantLike>() || !isa<ElementLoweringOpInterface>(op);
}

bool autopar::isFixed(Operation *op) { return !isFluid(op) && isFixedUnlessFluid(op); }

ClusterGraph::ClusterGraph(Block &block)
    : order(block, isFixed), phases(block), stages(cast<func::FuncOp>(block.getParentOp())),
      context(block.getParentOp()->getContext()) {
  places.reserve(block.getOperations().size());
  int64_t position = 0;
  for (Operation &op : block.without_terminator()) {
    Place &place = places[&op];
    place.position = position++;
    place.isOfFixedParameters = isMadeOfFixed(&op);
    if (isFluid(&op))
      continue;
    Cluster &cluster = *clusters.emplace_back(std::make_unique<Cluster>());
    cluster.ops.push_back(&op);
    cluster.isClosed = isFixedUnlessFluid(&op);
    place.cluster = &cluster;
    order.append(cluster, &op);
    if (cluster.isClosed)
      continue;
    auto lowering = cast<ElementLoweringOpInterface>(op);
    RowDomain rows = lowering.getRowDomain();
    bool isElement = op.hasAttr(kByteSum);
    cluster.rows = isElement ? RowDomain() : rows;
    cluster.shape = cluster.rows ? rows.shape : llvm::to_vector(typeOf(op.getResult(0)).getShape());
    cluster.at.push_back(
        {&op, isElement ? elementIndex(rows, context) : identityIndex(cluster.shape, context)});
    cluster.cost = lowering.getElementCost();
    cluster.reducesAcross = rows && rows.reduces && runsAcrossRows(rows);
  }
}

void ClusterGraph::close(ArrayRef<Operation *> ops) {
  Cluster &cluster = *clusterOf(ops.back());
  cluster.isClosed = true;
  for (Operation *op : ops.drop_back()) {
    Cluster &own = *clusterOf(op);
    order.contract(own, cluster, {});
    own.ops.clear();
    places[op].cluster = &cluster;
  }
  cluster.ops = llvm::to_vector(ops);
}

void ClusterGraph::closeBoth(Operation *one, Operation *other) {
  SmallVector<Operation *> ops = clusterOf(one)->ops;
  llvm::append_range(ops, clusterOf(other)->ops);
  bool isFirst = clusterOf(one)->place.label < clusterOf(other)->place.label;
  Cluster &first = *clusterOf(isFirst ? one : other), &second = *clusterOf(isFirst ? other : one);
  auto between = order.findBetween(first, second, *this);
  if (!between || phases.phaseOf(one) != phases.phaseOf(other) || !stages.areTogether(one, other))
    return;
  for (Operation *op : first.ops)
    places[op].cluster = &second;
  first.ops.clear();
  first.at.clear();
  order.contract(first, second, *between);
  second.ops = std::move(ops);
  second.isClosed = true;
}

/// What is on no stage may join a stage if nobody else needs it.
bool ClusterGraph::isOnSameStage(const Cluster &producer, const Cluster &consumer) const {
  auto stageOf = [&](const Cluster &cluster) {
    int64_t stage = Stages::kNone;
    for (Operation *op : cluster.ops)
      stage = std::max(stage, stages.of(op));
    return stage;
  };
  int64_t from = stageOf(producer), to = stageOf(consumer);
  if (from == Stages::kNone && to == Stages::kNone)
    return stages.areTogether(producer.ops.front(), consumer.ops.front());
  if (from != Stages::kNone)
    return from == to;
  return llvm::none_of(producer.ops, [&](Operation *op) {
    return isExportedFromBoth(op->getResult(0), producer, consumer);
  });
}

/// The operation outside of fluid ones from which a value comes; null if it comes from none.
Operation *ClusterGraph::definingOp(Value value) const {
  Operation *op = value.getDefiningOp();
  while (op && isFluidHere(op))
    op = op->getNumOperands() == 0 ? nullptr : op->getOperand(0).getDefiningOp();
  return op;
}

/// Whether the predicate holds for one of the users, seen through fluid operations.
bool ClusterGraph::hasUser(Value value, function_ref<bool(Operation *)> isIt) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return isFluidHere(user) ? hasUser(user->getResult(0), isIt) : isIt(user);
  });
}

void ClusterGraph::forEachUser(const Cluster &cluster, Visit visit) const {
  for (Operation *op : cluster.ops)
    for (Value result : op->getResults())
      hasUser(result, [&](Operation *user) {
        if (Cluster *next = clusterOf(user))
          visit(*next);
        return false;
      });
}

void ClusterGraph::forEachProducer(const Cluster &cluster, Visit visit) const {
  for (Operation *op : cluster.ops)
    for (Value operand : op->getOperands())
      if (Operation *source = definingOp(operand))
        if (Cluster *next = clusterOf(source))
          visit(*next);
}

bool ClusterGraph::isExported(Value value, const Cluster &cluster) const {
  return hasUser(value, [&](Operation *user) { return clusterOf(user) != &cluster; });
}

/// Whether it is a result of the function, or becomes one by reshapes alone.
static bool isResult(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>() ||
           (isa<ReshapeOp>(user) && isResult(user->getResult(0)));
  });
}

Cluster *ClusterGraph::clusterThatWidens(Operation *op) const {
  if (!isWidening(op) || !isFluidHere(op) || !isResult(op->getResult(0)))
    return nullptr;
  Value narrow = op->getOperand(0);
  while (auto reshape = narrow.getDefiningOp<ReshapeOp>())
    narrow = reshape.getInput();
  Operation *made = narrow.getDefiningOp();
  Cluster *cluster = made ? clusterOf(made) : nullptr;
  bool isBeside = cluster && !cluster->isClosed && mayExport(made, *cluster) &&
                  phases.phaseOf(op) == phases.phaseOf(made) && stages.areTogether(op, made);
  return isBeside ? cluster : nullptr;
}

bool ClusterGraph::isExportedFromBoth(Value value, const Cluster &a, const Cluster &b) const {
  return hasUser(value, [&](Operation *user) {
    Cluster *cluster = clusterOf(user);
    return cluster != &a && cluster != &b;
  });
}

SmallVector<ClusterGraph::Edge> ClusterGraph::edgesBetween(Cluster &producer,
                                                           Cluster &consumer) const {
  SmallVector<Edge> edges;
  for (Operation *op : consumer.ops) {
    auto lowering = cast<ElementLoweringOpInterface>(op);
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      Operation *defining = definingOp(operand);
      if (!defining || clusterOf(defining) != &producer)
        continue;
      const Index &at = consumer.indexOf(op);
      AffineMap map = lowering.getOperandMap(i);
      Index index = at && map ? Index(applyMap(map, *at)) : std::nullopt;
      auto [source, sourceIndex] = traceFluids(operand, index);
      edges.push_back({op, source, sourceIndex});
    }
  }
  return edges;
}

//===-- merging ------------------------------------------------------------------------------===//

/// Index of an operation's result where `at` is the index of its iteration space.
static Index resultIndex(Operation *op, const Index &at) {
  if (!at)
    return at;
  RowDomain rows = cast<ElementLoweringOpInterface>(op).getRowDomain();
  return rows && rows.reduces ? Index(keptIndex(rows, *at)) : at;
}

/// The index of a cluster of iteration space `shape` at the current point of a merged iteration
/// space: the same point, or the same row for a cluster with one point per row.
static Index embed(ArrayRef<int64_t> shape, const RowDomain &rows, ArrayRef<int64_t> merged,
                   MLIRContext *context) {
  SmallVector<AffineExpr> here = identityIndex(merged, context);
  if (llvm::product_of(shape) == llvm::product_of(merged))
    return applyMap(reshapeMap(shape, merged, context), here);
  if (!rows || llvm::product_of(shape) != llvm::product_of(keptShape(rows)))
    return std::nullopt;
  return applyMap(reshapeMap(shape, keptShape(rows), context), keptIndex(rows, here));
}

static Index compose(const Index &index, const Index &dims) {
  if (!index || !dims)
    return std::nullopt;
  return llvm::map_to_vector(*index, [&](AffineExpr expr) { return expr.replaceDims(*dims); });
}

static Cluster combine(const Cluster &producer, const Cluster &consumer) {
  Cluster merged;
  merged.ops = producer.ops;
  llvm::append_range(merged.ops, consumer.ops);
  merged.cost = producer.cost + consumer.cost;
  merged.reducesAcross = producer.reducesAcross || consumer.reducesAcross;
  return merged;
}

bool ClusterGraph::reducesAcross(Operation *op) {
  RowDomain rows = cast<ElementLoweringOpInterface>(op).getRowDomain();
  return rows && rows.reduces && runsAcrossRows(rows);
}

/// What others need must be computed at the current point or row, or it would need loops of its
/// own; and a reduction across rows walks its column tile once, so that it may not store the rows
/// it reads.
bool ClusterGraph::mayExport(Operation *op, const Cluster &cluster) const {
  SmallVector<AffineExpr> here = identityIndex(cluster.shape, context);
  Index index = resultIndex(op, cluster.indexOf(op));
  if (!index)
    return false;
  ArrayRef<int64_t> shape = typeOf(op->getResult(0)).getShape();
  if (llvm::product_of(shape) == llvm::product_of(cluster.shape))
    return !cluster.reducesAcross &&
           isSamePosition(*index, shape, here, cluster.shape, cluster.shape);
  return cluster.rows && llvm::product_of(shape) == llvm::product_of(keptShape(cluster.rows)) &&
         isSamePosition(*index, shape, keptIndex(cluster.rows, here), keptShape(cluster.rows),
                        cluster.shape);
}

bool ClusterGraph::exportsFit(const Cluster &merged, const Cluster &producer,
                              const Cluster &consumer) const {
  return llvm::all_of(merged.ops, [&](Operation *op) {
    return !isExportedFromBoth(op->getResult(0), producer, consumer) || mayExport(op, merged);
  });
}

std::optional<Cluster> ClusterGraph::mergeAtSamePoint(Cluster &producer, Cluster &consumer,
                                                      ArrayRef<Edge> edges) const {
  if (producer.rows && consumer.rows && !producer.rows.agrees(consumer.rows))
    return std::nullopt;
  const Cluster &leading = producer.rows ? producer : consumer;
  Index fromProducer = embed(producer.shape, leading.rows, leading.shape, context);
  Index fromConsumer = embed(consumer.shape, leading.rows, leading.shape, context);
  if (!fromProducer || !fromConsumer)
    return std::nullopt;
  for (const Edge &edge : edges) {
    Operation *op = edge.source.getDefiningOp();
    Index read = compose(edge.index, fromConsumer);
    Index made = compose(resultIndex(op, producer.indexOf(op)), fromProducer);
    ArrayRef<int64_t> shape = typeOf(edge.source).getShape();
    if (!read || !made || !isSamePosition(*read, shape, *made, shape, leading.shape))
      return std::nullopt;
  }
  Cluster merged = combine(producer, consumer);
  merged.rows = leading.rows;
  merged.shape = leading.shape;
  for (auto &[op, index] : producer.at)
    merged.at.push_back({op, compose(index, fromProducer)});
  for (auto &[op, index] : consumer.at)
    merged.at.push_back({op, compose(index, fromConsumer)});
  if (!exportsFit(merged, producer, consumer))
    return std::nullopt;
  return merged;
}

std::optional<Cluster> ClusterGraph::substitute(Cluster &producer, Cluster &consumer,
                                                ArrayRef<Edge> edges) const {
  if (producer.rows)
    return std::nullopt;
  for (Operation *op : producer.ops)
    if (isExportedFromBoth(op->getResult(0), producer, consumer))
      return std::nullopt;
  Index read;
  Value source = edges.front().source;
  bool isUniform = true, sharesRows = llvm::any_of(consumer.ops, [](Operation *op) {
                           return op->hasAttr(kFewRows) || op->hasAttr(kByteSum);
                         });
  for (const Edge &edge : edges) {
    if (!edge.index)
      return std::nullopt;
    auto lowering = cast<ElementLoweringOpInterface>(edge.consumer);
    RowDomain rows = lowering.getRowDomain();
    int64_t reads =
        rows ? llvm::product_of(rows.shape) : typeOf(edge.consumer->getResult(0)).getNumElements();
    bool isRepeated = reads > typeOf(edge.source).getNumElements();
    if (isRepeated && producer.cost > cheapCost && !sharesRows)
      return std::nullopt;
    if (!lowering.getPositionDimensions().empty() && producer.cost > maskedCost)
      return std::nullopt;
    isUniform &= edge.source == source && (!read || *read == *edge.index);
    read = edge.index;
  }
  if (!isUniform && producer.cost > cheapCost)
    return std::nullopt;
  Cluster merged = combine(producer, consumer);
  merged.rows = consumer.rows;
  merged.shape = consumer.shape;
  merged.at = consumer.at;
  ArrayRef<int64_t> shape = typeOf(source).getShape();
  Index base;
  if (isUniform && llvm::product_of(shape) == llvm::product_of(producer.shape))
    base = applyMap(reshapeMap(producer.shape, shape, context), *read);
  Operation *last = source.getDefiningOp();
  Index made = producer.indexOf(last);
  SmallVector<AffineExpr> here = identityIndex(producer.shape, context);
  if (!made || !isSamePosition(*made, shape, here, producer.shape, producer.shape))
    base = std::nullopt;
  for (auto &[op, index] : producer.at)
    merged.at.push_back({op, compose(index, base)});
  if (!exportsFit(merged, producer, consumer))
    return std::nullopt;
  return merged;
}

static bool isUpdate(const Cluster &cluster) {
  auto phase = cluster.ops.back()->getAttrOfType<StringAttr>("autopar.phase");
  return phase && phase.getValue() == "update";
}

bool ClusterGraph::isOfFixedParameters(Value value) const {
  Operation *op = value.getDefiningOp();
  if (!op)
    return isFixedParameter(value);
  auto place = places.find(op);
  return place == places.end() ? isMadeOfFixed(op) : place->second.isOfFixedParameters;
}

bool ClusterGraph::isMadeOfFixed(Operation *op) const {
  return isa<ViewOpInterface, ElementLoweringOpInterface>(op) && !isa<RandomOp>(op) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return isOfFixedParameters(operand); });
}

bool ClusterGraph::tryMerge(Cluster &producer, Cluster &consumer) {
  if (producer.isClosed || consumer.isClosed ||
      producer.ops.size() + consumer.ops.size() > kMostClusterOps)
    return false;
  // What runs once stays outside of what runs in every micro-batch. The last operations: those
  // before them may be copies, of which nobody knows when they run.
  if (phases.phaseOf(producer.ops.back()) != phases.phaseOf(consumer.ops.back()) ||
      !isOnSameStage(producer, consumer) || order.isProvenBetween(producer, consumer))
    return false;
  // What sums up much for the update runs before it: the update stands at the end of the step, and
  // what is summed up would have to wait there.
  if (producer.rows && isUpdate(consumer) && !isUpdate(producer))
    return false;
  // What sums up weights runs at load: it stays outside of what runs in every step.
  if (producer.rows && isOfFixedParameters(producer.ops.back()->getResult(0)) &&
      !isOfFixedParameters(consumer.ops.back()->getResult(0)))
    return false;
  SmallVector<Edge> edges = edgesBetween(producer, consumer);
  std::optional<Cluster> merged = mergeAtSamePoint(producer, consumer, edges);
  if (!merged && !edges.empty())
    merged = substitute(producer, consumer, edges);
  if (!merged)
    return false;
  auto between = order.findBetween(producer, consumer, *this);
  if (!between)
    return false;
  // Copies have the position of their reader, and stay in front of it.
  merged->ops.resize(producer.ops.size() + consumer.ops.size());
  std::merge(producer.ops.begin(), producer.ops.end(), consumer.ops.begin(), consumer.ops.end(),
             merged->ops.begin(),
             [&](Operation *a, Operation *b) { return positionOf(a) < positionOf(b); });
  for (Operation *op : producer.ops)
    places[op].cluster = &consumer;
  producer.ops.clear();
  producer.at.clear();
  order.contract(producer, consumer, *between);
  merged->place = consumer.place;
  consumer = std::move(*merged);
  return true;
}

void ClusterGraph::growAt(Cluster &cluster) {
  llvm::SmallPtrSet<Cluster *, 8> refused; // by the cluster as it is
  for (bool changed = true; changed;) {
    changed = false;
    llvm::SetVector<Cluster *> producers;
    forEachProducer(cluster, [&](Cluster &producer) {
      if (&producer != &cluster)
        producers.insert(&producer);
    });
    for (Cluster *producer : producers) {
      if (refused.contains(producer))
        continue;
      if (tryMerge(*producer, cluster)) {
        changed = true;
        refused.clear();
      } else {
        refused.insert(producer);
      }
    }
  }
}

void ClusterGraph::grow() {
  for (std::unique_ptr<Cluster> &cluster : clusters)
    if (!cluster->isClosed && !cluster->ops.empty())
      growAt(*cluster);
}
