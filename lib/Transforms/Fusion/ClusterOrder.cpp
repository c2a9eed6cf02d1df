// SPDX-License-Identifier: Apache-2.0
#include "ClusterOrder.h"
#include "FusionClusters.h"

using namespace mlir;
using namespace mlir::autopar;

ClusterOrder::ClusterOrder(Block &block, llvm::function_ref<bool(Operation *)> isFixed) {
  constexpr int64_t none = std::numeric_limits<int64_t>::max();
  constexpr uint32_t nobody = std::numeric_limits<uint32_t>::max();
  size_t count = block.getOperations().size();
  numbers.reserve(count);
  std::vector<uint32_t> sources, firstSource; // operations that each reads, one behind the other
  firstSource.reserve(count + 1);
  // The longest chain of fixed operations that ends at an operation; a chain's n-th is link n.
  std::vector<int64_t> chain(count);
  std::vector<uint32_t> longest(count, nobody); // through which source it goes
  std::vector<char> fixed(count);
  uint32_t last = nobody, number = 0;
  for (Operation &op : block) {
    firstSource.push_back(sources.size());
    for (Value operand : op.getOperands())
      if (Operation *source = operand.getDefiningOp()) {
        uint32_t from = numbers.lookup(source);
        sources.push_back(from);
        if (longest[number] == nobody || chain[from] > chain[longest[number]])
          longest[number] = from;
      }
    fixed[number] = isFixed(&op);
    chain[number] = (longest[number] == nobody ? 0 : chain[longest[number]]) + fixed[number];
    if (last == nobody || chain[number] > chain[last])
      last = number;
    numbers[&op] = number++;
  }
  firstSource.push_back(sources.size());
  links.assign(count, Links{none, 0});
  for (uint32_t op = last; op != nobody; op = longest[op])
    if (fixed[op])
      links[op] = {chain[op], chain[op]};
  auto sourcesOf = [&](size_t op) {
    return llvm::ArrayRef(sources).slice(firstSource[op], firstSource[op + 1] - firstSource[op]);
  };
  for (size_t op = 0; op < count; ++op)
    for (uint32_t source : sourcesOf(op))
      links[op].lastReaching = std::max(links[op].lastReaching, links[source].lastReaching);
  for (size_t op = count; op-- > 0;)
    for (uint32_t source : sourcesOf(op))
      links[source].firstReached = std::min(links[source].firstReached, links[op].firstReached);
}

/// Labels in steps that leave room for clusters that move.
static constexpr uint64_t labelStep = uint64_t(1) << 40;

void ClusterOrder::append(Cluster &cluster, Operation *op) {
  auto [firstReached, lastReaching] = links[numbers.lookup(op)];
  uint64_t label = (line.empty() ? 0 : line.back()->place.label) + labelStep;
  auto at = line.insert(line.end(), &cluster);
  cluster.place = {at, label, firstReached, lastReaching};
}

bool ClusterOrder::isProvenBetween(const Cluster &producer, const Cluster &consumer) const {
  return producer.place.firstReached <= consumer.place.lastReaching;
}

namespace {
/// One direction of a search, which stays between two clusters of the order.
struct Side {
  DenseSet<Cluster *> visited;
  SmallVector<Cluster *> worklist;
  void add(Cluster &cluster) {
    if (visited.insert(&cluster).second)
      worklist.push_back(&cluster);
  }
};
} // namespace

std::optional<ClusterOrder::Between>
ClusterOrder::findBetween(Cluster &producer, Cluster &consumer,
                          const ClusterNeighbours &neighbours) const {
  Side below, above;
  bool isFound = isProvenBetween(producer, consumer);
  auto goDown = [&](Cluster &next) {
    isFound |=
        &next == &consumer || isProvenBetween(next, consumer) || above.visited.contains(&next);
    if (next.place.label < consumer.place.label)
      below.add(next);
  };
  auto goUp = [&](Cluster &next) {
    isFound |=
        &next == &producer || isProvenBetween(producer, next) || below.visited.contains(&next);
    if (next.place.label > producer.place.label)
      above.add(next);
  };
  // Direct edges are what a merge removes.
  auto isThird = [&](Cluster &next) { return &next != &producer && &next != &consumer; };
  neighbours.forEachUser(producer, [&](Cluster &next) {
    if (isThird(next))
      goDown(next);
  });
  neighbours.forEachProducer(consumer, [&](Cluster &next) {
    if (isThird(next))
      goUp(next);
  });
  while (!isFound && !below.worklist.empty() && !above.worklist.empty())
    if (below.visited.size() <= above.visited.size())
      neighbours.forEachUser(*below.worklist.pop_back_val(), goDown);
    else
      neighbours.forEachProducer(*above.worklist.pop_back_val(), goUp);
  if (isFound)
    return std::nullopt;
  if (below.worklist.empty())
    return Between{std::move(below.visited), true};
  return Between{std::move(above.visited), false};
}

void ClusterOrder::relabel() {
  uint64_t label = 0;
  for (Cluster *cluster : line)
    cluster->place.label = label += labelStep;
}

/// Moves clusters to a place before `next`, in the order that they have.
void ClusterOrder::moveBefore(std::list<Cluster *>::iterator next,
                              const DenseSet<Cluster *> &moved) {
  SmallVector<Cluster *> sorted(moved.begin(), moved.end());
  llvm::sort(sorted, [](Cluster *a, Cluster *b) { return a->place.label < b->place.label; });
  for (Cluster *cluster : sorted)
    line.splice(next, line, cluster->place.at);
  if (sorted.empty())
    return;
  auto first = sorted.front()->place.at;
  uint64_t low = first == line.begin() ? 0 : (*std::prev(first))->place.label;
  uint64_t high = next == line.end() ? low + labelStep : (*next)->place.label;
  uint64_t step = (high - low) / (sorted.size() + 1);
  if (step == 0)
    return relabel();
  for (Cluster *cluster : sorted)
    cluster->place.label = low += step;
}

void ClusterOrder::contract(Cluster &producer, Cluster &consumer, const Between &between) {
  ClusterPlace &from = producer.place, &to = consumer.place;
  to.firstReached = std::min(to.firstReached, from.firstReached);
  to.lastReaching = std::max(to.lastReaching, from.lastReaching);
  if (between.dependsOnProducer) {
    moveBefore(std::next(to.at), between.clusters);
    line.erase(from.at);
    return;
  }
  moveBefore(from.at, between.clusters);
  line.erase(to.at);
  to.at = from.at;
  to.label = from.label;
  *to.at = &consumer;
}
