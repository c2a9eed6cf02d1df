// SPDX-License-Identifier: Apache-2.0
// Random graphs are contracted edge by edge; a walk through the whole graph says which contractions
// would close a cycle.
#include "Fusion/ClusterOrder.h"
#include "Fusion/FusionClusters.h"

#include "mlir/IR/BuiltinOps.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A block of operations that each read some earlier ones, and clusters of them.
class Contraction : public ClusterNeighbours {
public:
  explicit Contraction(unsigned seed) : random(seed) {
    context.allowUnregisteredDialects();
    module = ModuleOp::create(UnknownLoc::get(&context));
    OpBuilder builder(module->getBodyRegion());
    // Long chains with few links between them make clusters that span far.
    size_t reach = 1 + random() % 12;
    for (size_t i = 0; i < 40; ++i) {
      SmallVector<Value> operands;
      for (size_t reads = i == 0 ? 0 : random() % 3; reads > 0; --reads)
        operands.push_back(results[results.size() - 1 - random() % std::min(reach, i)]);
      OperationState state(builder.getUnknownLoc(), "test.op");
      state.addOperands(operands);
      state.addTypes(builder.getI32Type());
      results.push_back(builder.create(state)->getResult(0));
    }
    auto isFixed = [&](Operation *op) { return fixed.contains(op); };
    for (Value result : results)
      if (random() % 4 == 0)
        fixed.insert(result.getDefiningOp());
    order.emplace(*module->getBody(), isFixed);
    for (Value result : results) {
      Cluster &cluster = *clusters.emplace_back(std::make_unique<Cluster>());
      cluster.ops.push_back(result.getDefiningOp());
      cluster.isClosed = isFixed(result.getDefiningOp());
      owner[result.getDefiningOp()] = &cluster;
      order->append(cluster, result.getDefiningOp());
    }
  }

  void forEachUser(const Cluster &cluster, Visit visit) const override {
    for (Operation *op : cluster.ops)
      for (Operation *user : op->getUsers())
        visit(*owner.at(user));
  }
  void forEachProducer(const Cluster &cluster, Visit visit) const override {
    for (Operation *op : cluster.ops)
      for (Value operand : op->getOperands())
        visit(*owner.at(operand.getDefiningOp()));
  }

  /// Whether a path leads from one to the other over at least one cluster between them.
  bool isBetween(const Cluster &producer, const Cluster &consumer) const {
    std::set<const Cluster *> visited;
    std::vector<const Cluster *> worklist;
    auto add = [&](Cluster &next) {
      if (visited.insert(&next).second)
        worklist.push_back(&next);
    };
    forEachUser(producer, [&](Cluster &next) {
      if (&next != &consumer && &next != &producer)
        add(next);
    });
    for (; !worklist.empty() && !visited.count(&consumer);) {
      const Cluster *next = worklist.back();
      worklist.pop_back();
      forEachUser(*next, add);
    }
    return visited.count(&consumer);
  }

  void expectInOrder() const {
    for (auto &[op, cluster] : owner)
      forEachUser(*cluster, [&, from = cluster](Cluster &next) {
        if (&next != from) {
          EXPECT_LT(from->place.label, next.place.label);
        }
      });
  }

  /// Contracts a random edge, or says why not; returns whether it did.
  bool contractOne() {
    Operation *op = results[random() % results.size()].getDefiningOp();
    if (op->getNumOperands() == 0)
      return false;
    Operation *source = op->getOperand(random() % op->getNumOperands()).getDefiningOp();
    Cluster &producer = *owner.at(source), &consumer = *owner.at(op);
    if (&producer == &consumer || producer.isClosed || consumer.isClosed)
      return false;
    std::optional<ClusterOrder::Between> between = order->findBetween(producer, consumer, *this);
    EXPECT_EQ(between.has_value(), !isBetween(producer, consumer));
    if (order->isProvenBetween(producer, consumer)) {
      EXPECT_TRUE(isBetween(producer, consumer));
    }
    if (!between)
      return false;
    for (Operation *moved : producer.ops)
      owner[moved] = &consumer;
    consumer.ops.append(producer.ops);
    producer.ops.clear();
    order->contract(producer, consumer, *between);
    return true;
  }

private:
  std::mt19937 random;
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::vector<Value> results;
  DenseSet<Operation *> fixed;
  std::map<Operation *, Cluster *> owner;
  std::vector<std::unique_ptr<Cluster>> clusters;
  std::optional<ClusterOrder> order;
};

TEST(ClusterOrder, ContractsWhatClosesNoCycleAndStaysInOrder) {
  size_t contracted = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    Contraction graph(seed);
    for (int attempt = 0; attempt < 100; ++attempt) {
      contracted += graph.contractOne();
      graph.expectInOrder();
      if (testing::Test::HasFailure())
        FAIL() << "graph " << seed << ", attempt " << attempt;
    }
  }
  EXPECT_GT(contracted, 1000u);
}

} // namespace
