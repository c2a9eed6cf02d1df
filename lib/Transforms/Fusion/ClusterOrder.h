// SPDX-License-Identifier: Apache-2.0
// An order in which clusters can run, kept while they are merged: an incremental topological order
// (as of Bender, Fineman, Gilbert, Tarjan: A New Approach to Incremental Cycle Detection and
// Related Problems, TALG 2015, with a search from both ends), for contracted edges instead of new
// ones.
#pragma once

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include <list>
#include <optional>
#include <vector>

namespace mlir::autopar {

struct Cluster;

/// The place of a cluster. Beside the order itself there is a spine: the longest chain of
/// operations that never join another cluster. What reaches a link of it, and what is reached from
/// one, proves most dependences between distant clusters without a walk.
struct ClusterPlace {
  std::list<Cluster *>::iterator at;
  uint64_t label = 0;       ///< grows along the order
  int64_t firstReached = 0; ///< the first link of the spine that depends on the cluster
  int64_t lastReaching = 0; ///< the last link that the cluster depends on
};

/// How clusters depend on each other, whatever they are.
class ClusterNeighbours {
public:
  using Visit = llvm::function_ref<void(Cluster &)>;
  virtual ~ClusterNeighbours() = default;
  /// Visits the clusters that read a result of the given one, some of them repeatedly.
  virtual void forEachUser(const Cluster &cluster, Visit visit) const = 0;
  /// Visits the clusters of which the given one reads a result, some of them repeatedly.
  virtual void forEachProducer(const Cluster &cluster, Visit visit) const = 0;
};

class ClusterOrder {
public:
  /// What has to move when a producer is merged into its consumer: all that stands between them
  /// and depends on the producer, or else all on which the consumer depends.
  struct Between {
    llvm::DenseSet<Cluster *> clusters;
    bool dependsOnProducer = true;
  };

  /// `isFixed` tells the operations that never join another cluster.
  ClusterOrder(Block &block, llvm::function_ref<bool(Operation *)> isFixed);

  /// Appends the cluster of `op`, which is not an earlier operation than that of the last cluster.
  void append(Cluster &cluster, Operation *op);

  /// Whether the spine proves that the consumer depends on the producer by way of a third cluster.
  bool isProvenBetween(const Cluster &producer, const Cluster &consumer) const;
  /// What a merge has to move; nothing if the consumer also depends on the producer by way of a
  /// third cluster. Takes time in the smaller of the two sets.
  std::optional<Between> findBetween(Cluster &producer, Cluster &consumer,
                                     const ClusterNeighbours &neighbours) const;
  /// Gives the place of both to the consumer.
  void contract(Cluster &producer, Cluster &consumer, const Between &between);

private:
  struct Links {
    int64_t firstReached, lastReaching;
  };
  void moveBefore(std::list<Cluster *>::iterator next, const llvm::DenseSet<Cluster *> &moved);
  void relabel();

  llvm::DenseMap<Operation *, uint32_t> numbers; ///< of the block's operations
  std::vector<Links> links;                      ///< by number
  std::list<Cluster *> line;
};

} // namespace mlir::autopar
