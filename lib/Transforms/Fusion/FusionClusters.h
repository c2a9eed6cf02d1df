// SPDX-License-Identifier: Apache-2.0
// Which operations become one kernel: clusters that grow along producer-consumer edges as long as
// one iteration space serves all of their operations. Works on operand maps and row domains only.
#pragma once

#include "ClusterOrder.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/IndexExpressions.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Stages.h"

namespace mlir::autopar {

/// An index over the dimensions of a cluster's iteration space; nothing where it is not one
/// function of them (it depends on data, or several functions are asked for).
using Index = std::optional<SmallVector<AffineExpr>>;

/// Operations that costs nothing to repeat in every consumer: splat constants, positions,
/// repetition (broadcast), views (reshape) and casts to wider floats. They belong to no cluster;
/// groups clone what they read.
bool isFluid(Operation *op);
/// Whether an operation never joins another cluster. Matrix products and convolutions are lowered
/// on their own.
bool isFixed(Operation *op);
/// Follows fluid operations upwards. Returns the value where they end, and its index given the
/// index of `value`.
std::pair<Value, Index> traceFluids(Value value, Index index);

/// Operations per kernel: beyond this, registers and compile time suffer.
constexpr size_t kMostClusterOps = 80;

struct Cluster {
  /// A cluster with a fixed content: a library call and its epilogue, or an operation that stays
  /// alone.
  bool isClosed = false;
  SmallVector<Operation *> ops; ///< in program order
  SmallVector<int64_t> shape;   ///< iteration space
  RowDomain rows;               ///< false for pointwise clusters
  /// Index of each operation's result, or of its row domain, over the iteration space.
  SmallVector<std::pair<Operation *, Index>, 1> at;
  int64_t cost = 0;           ///< of one point
  bool reducesAcross = false; ///< one of the operations sums up rows whose neighbours are others'
  ClusterPlace place;

  const Index &indexOf(Operation *op) const {
    return llvm::find_if(at, [&](const auto &entry) { return entry.first == op; })->second;
  }
};

class ClusterGraph : private ClusterNeighbours {
public:
  /// Numbers the operations of a block; every operation but fluid ones gets a cluster of its own.
  explicit ClusterGraph(Block &block);

  /// Makes one closed cluster of `ops` (in program order), each of which but the last is read by
  /// the next, and by others behind the last alone.
  void close(ArrayRef<Operation *> ops);
  /// Makes one closed cluster of two of which neither reads what the other makes, if nothing has to
  /// run between them; its operations are first those of `one`.
  void closeBoth(Operation *one, Operation *other);
  /// Merges clusters until nothing more fits.
  void grow();
  /// Then lets clusters compute, element by element, what others would store for them, where
  /// reading what it is made of takes fewer bytes than storing and reading it.
  void storeLess();
  /// And has reductions of one value read it together.
  void joinReductions();

  /// The cluster of an operation; null for fluid operations and the terminator.
  Cluster *clusterOf(Operation *op) const { return places.lookup(op).cluster; }
  int64_t positionOf(Operation *op) const { return places.lookup(op).position; }
  /// Whether an operation of the block is fluid.
  bool isFluidHere(Operation *op) const {
    auto place = places.find(op);
    return place != places.end() && !place->second.cluster;
  }
  /// The cluster that can store what the operation makes beside its own: that of a value which the
  /// operation casts to a wider float for a result of the function. Null for other operations.
  Cluster *clusterThatWidens(Operation *op) const;
  /// Whether the value has uses, seen through fluid operations, outside of `cluster`.
  bool isExported(Value value, const Cluster &cluster) const;

private:
  static bool reducesAcross(Operation *op);
  struct Edge {
    Operation *consumer;
    Value source;
    Index index; ///< of the source, over the consumer's iteration space
  };

  void growAt(Cluster &cluster);
  bool tryMerge(Cluster &producer, Cluster &consumer);
  std::optional<Cluster> mergeAtSamePoint(Cluster &producer, Cluster &consumer,
                                          ArrayRef<Edge> edges) const;
  std::optional<Cluster> substitute(Cluster &producer, Cluster &consumer,
                                    ArrayRef<Edge> edges) const;
  /// Whether others may read the result of one of the cluster's operations.
  bool mayExport(Operation *op, const Cluster &cluster) const;
  bool exportsFit(const Cluster &merged, const Cluster &producer, const Cluster &consumer) const;
  bool isExportedFromBoth(Value value, const Cluster &a, const Cluster &b) const;
  SmallVector<Edge> edgesBetween(Cluster &producer, Cluster &consumer) const;
  bool isOnSameStage(const Cluster &producer, const Cluster &consumer) const;
  /// Whether a value is made of parameters that keep their values, and so once.
  bool isOfFixedParameters(Value value) const;
  bool isMadeOfFixed(Operation *op) const;
  Operation *definingOp(Value value) const;
  bool hasUser(Value value, function_ref<bool(Operation *)> isIt) const;
  /// Whether all that others read of a cluster is much smaller than what it reads.
  bool isReduction(const Cluster &cluster) const;
  bool mayJoin(Cluster &first, Cluster &second) const;
  llvm::SetVector<Value> readWhole(const Cluster &cluster) const;
  bool isReadBeside(Value value, const Cluster &reader) const;
  bool isComputedByReaders(Operation *op, const Cluster &cluster) const;
  bool isRepeatedFor(Operation *op, const Cluster &cluster) const;
  int64_t keptFor(ArrayRef<Value> sources) const;
  void computeInReaders(Operation *op, const Cluster &cluster);
  Value copyFor(Operation *reader, Value value, const Index &index, const Cluster &maker);
  void forEachUser(const Cluster &cluster, Visit visit) const override;
  void forEachProducer(const Cluster &cluster, Visit visit) const override;

  SmallVector<std::unique_ptr<Cluster>> clusters;
  struct Place {
    int64_t position = 0;
    Cluster *cluster = nullptr; ///< null: fluid
    bool isOfFixedParameters = false;
  };
  DenseMap<Operation *, Place> places;
  ClusterOrder order;
  MicroBatches phases;
  StagePlaces stages;
  MLIRContext *context;
};

} // namespace mlir::autopar
