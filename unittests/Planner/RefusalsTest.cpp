// SPDX-License-Identifier: Apache-2.0
// Problems that planners do not take: each refusal, whole.
#include "autopar/Planner/CostGraph.h"
#include "autopar/Planner/Recompute.h"
#include "autopar/Planner/SearchEngine.h"
#include "autopar/Planner/StageCut.h"

#include <functional>
#include <gtest/gtest.h>

namespace autopar {
namespace {

/// Two nodes of two strategies with an edge.
CostGraph pair() {
  CostGraph graph;
  graph.addNode({"a", {{1, 5, 0}, {2, 4, 0}}, {{0, 2}}});
  graph.addNode({"b", {{1, 5, 0}, {2, 4, 0}}, {{1, 3}}});
  graph.addEdge(0, 1, {0, 1, 1, 0});
  return graph;
}

TEST(Refusals, CostGraphs) {
  auto errorOf = [](const std::function<void(CostGraph &)> &change) {
    CostGraph graph = pair();
    change(graph);
    return graph.verify().message();
  };
  using G = CostGraph;
  EXPECT_EQ(errorOf([](G &) {}), "");
  EXPECT_EQ(errorOf([](G &g) { g.nodes[0].strategies.clear(); }),
            "node 0 'a': has no strategy, expected at least one");
  EXPECT_EQ(errorOf([](G &g) { g.nodes[0].strategies[1].timeUs = -1; }),
            "node 0 'a': strategy 1 has a negative or infinite time");
  EXPECT_EQ(errorOf([](G &g) { g.nodes[0].strategies[1].liveBytes = -1; }),
            "node 0 'a': strategy 1 has negative bytes");
  EXPECT_EQ(errorOf([](G &g) {
              g.nodes[0].live = {{2, 1}};
            }),
            "node 0 'a': live interval [2, 1) is not one");
  EXPECT_EQ(errorOf([](G &g) {
              g.nodes[0].live = {{1, 4}, {3, 5}};
            }),
            "node 0 'a': live intervals overlap at 3");
  EXPECT_EQ(errorOf([](G &g) { g.matrices[0][2] = -1; }),
            "matrix 0: has a negative or infinite cost");
  EXPECT_EQ(errorOf([](G &g) { g.edges[0].b = 2; }),
            "edge 0: joins nodes 0 and 2, but there are 2");
  EXPECT_EQ(errorOf([](G &g) { g.edges[0].b = 0; }), "edge 0: joins node 0 'a' to itself");
  EXPECT_EQ(errorOf([](G &g) { g.edges[0].matrix = 1; }), "edge 0: matrix 1 does not exist");
  EXPECT_EQ(errorOf([](G &g) { g.matrices[0].pop_back(); }),
            "edge 0 between node 0 'a' and node 1 'b': matrix has 3 entries, expected 2 x 2");
  EXPECT_EQ(errorOf([](G &g) { g.blocks.resize(1); }),
            "blocks: has 1 entries, expected none or one per node (2)");
  EXPECT_EQ(errorOf([](G &g) { g.constantBytes = -1; }), "constantBytes: is negative");
}

TEST(Refusals, Choices) {
  auto whyNot = [](std::vector<int32_t> choice, const std::function<void(CostGraph &)> &change) {
    CostGraph graph = pair();
    change(graph);
    return evaluate(graph, choice).whyNot;
  };
  auto nothing = [](CostGraph &) {};
  EXPECT_EQ(whyNot({0, 0}, nothing), "");
  EXPECT_EQ(whyNot({0}, nothing), "choice has 1 entries, expected 2");
  EXPECT_EQ(whyNot({0, 2}, nothing), "node 1 'b' has no strategy 2");
  EXPECT_EQ(whyNot({0, 1}, [](CostGraph &g) { g.nodes[1].strategies[1].timeUs = kForbidden; }),
            "node 1 'b' takes forbidden strategy 1");
  EXPECT_EQ(whyNot({0, 1}, [](CostGraph &g) { g.matrices[0][1] = kForbidden; }),
            "node 0 'a' and node 1 'b' take a forbidden pair of strategies");
}

TEST(Refusals, Searches) {
  EXPECT_EQ(findSearchEngine("magic").status().message().rfind(
                "unknown search engine 'magic'; engines here: ", 0),
            0u);
  CostGraph graph = pair();
  graph.matrices[0] = {kForbidden, kForbidden, 0, 0};
  graph.nodes[0].strategies[1].timeUs = kForbidden;
  auto found = (*findSearchEngine("own"))->search(graph, {});
  EXPECT_EQ(found.status().message(),
            "node 0 'a': no strategy is left that is legal with its neighbours");
  // Seven nodes that all want to differ, three strategies each.
  auto wired = [](int32_t nodes, int32_t strategies, double whenEqual) {
    CostGraph all;
    std::vector<double> matrix;
    for (int32_t i = 0; i < strategies; ++i)
      for (int32_t j = 0; j < strategies; ++j)
        matrix.push_back(i == j ? whenEqual : 1 + (i * 7 + j * 13) % 101);
    for (int32_t node = 0; node < nodes; ++node)
      all.addNode({std::to_string(node), std::vector<Strategy>(strategies, {1, 0, 0}), {{0, 1}}});
    for (int32_t b = 0; b < nodes; ++b)
      for (int32_t a = 0; a < b; ++a)
        all.addEdge(a, b, matrix);
    return all;
  };
  found = (*findSearchEngine("own"))->search(wired(7, 3, kForbidden), {});
  EXPECT_EQ(found.status().message().rfind("no legal choice was found: node ", 0), 0u)
      << found.status().message();
  found = (*findSearchEngine("exact"))->search(wired(4, 600, 1), {});
  EXPECT_EQ(found.status().message(),
            "the exact engine takes up to 2000000 legal pairs of strategies after reduction, this "
            "graph has 2160000; use the engine 'own' or 'auto'");
}

class Twin final : public SearchEngine {
public:
  std::string_view name() const override { return "own"; }
  Result<Solution> search(const CostGraph &, const SearchOptions &) const override {
    return Solution();
  }
};

TEST(Refusals, EnginesOfOneName) {
  EXPECT_EQ(registerSearchEngine(std::make_unique<Twin>()).message(),
            "search engine 'own' is already registered");
}

TEST(Refusals, StageCuts) {
  auto errorOf = [](const std::function<void(StageCutProblem &)> &change) {
    StageCutProblem problem;
    problem.layers = 2;
    problem.devices = {2};
    problem.subMeshes = {{"one", {1}, 0}};
    problem.cost = [](int32_t, int32_t, int32_t) { return StageCost{1, 0, 0, 0}; };
    problem.inFlight = [](int32_t) { return 1; };
    change(problem);
    return cutStages(problem).status().message();
  };
  using P = StageCutProblem;
  EXPECT_EQ(errorOf([](P &) {}), "");
  EXPECT_EQ(errorOf([](P &p) { p.subMeshes.clear(); }),
            "stage cut: expected at least one device type and one sub-mesh");
  EXPECT_EQ(errorOf([](P &p) {
              p.subMeshes[0].devices = {1, 1};
            }),
            "sub-mesh 'one': counts 2 device types, expected 1");
  EXPECT_EQ(errorOf([](P &p) { p.subMeshes[0].stagesAfter = 1; }),
            "sub-mesh 'one': is for a stage with 1 behind it; expected mostStages to allow that "
            "many");
  EXPECT_EQ(errorOf([](P &p) { p.subMeshes[0].devices[0] = 0; }),
            "sub-mesh 'one': expected counts of devices, not negative and not all 0");
  EXPECT_EQ(errorOf([](P &p) { p.devices[0] = -1; }), "stage cut: a number of devices is negative");
  EXPECT_EQ(errorOf([](P &p) { p.layers = 0; }),
            "stage cut: expected at least one layer and one micro-batch");
  EXPECT_EQ(errorOf([](P &p) { p.cost = nullptr; }), "stage cut: cost or inFlight is not set");
  EXPECT_EQ(errorOf([](P &p) {
              p.leastStages = 2;
              p.mostStages = 1;
            }),
            "stage cut: between 2 and 1 stages is no range");
  EXPECT_EQ(
      errorOf([](P &p) { p.inFlight = [](int32_t after) { return 3 - after; }; }),
      "stage cut: with 1 stages behind, fewer micro-batches are in flight than with one stage "
      "less; expected at least as many");
  EXPECT_EQ(errorOf([](P &p) {
              p.devices.assign(8, 1 << 20);
              p.subMeshes[0].devices.assign(8, 1);
            }),
            "stage cut: too many device types with too many devices each");
  EXPECT_EQ(errorOf([](P &p) {
              p.devices = {16384};
              p.layers = p.mostStages = 1000;
            }),
            "stage cut: 1000 layers, 1000 stages and 16385 numbers of devices are too many "
            "together; merge layers, or use larger sub-meshes");
}

TEST(Refusals, Recomputation) {
  auto errorOf = [](const std::function<void(RecomputeProblem &)> &change) {
    RecomputeProblem problem;
    problem.values = {{8, false, false}, {8, false, false}};
    problem.ops.resize(2);
    problem.ops[0].id = "f";
    problem.ops[0].writes = {0};
    problem.ops[1].id = "b";
    problem.ops[1].reads = {0};
    problem.ops[1].writes = {1};
    problem.ops[1].isBackward = true;
    problem.memoryLimitBytes = 100;
    change(problem);
    return chooseRecomputation(problem).status().message();
  };
  using P = RecomputeProblem;
  EXPECT_EQ(errorOf([](P &) {}), "");
  EXPECT_EQ(errorOf([](P &p) { p.ops[0].timeUs = -1; }),
            "operation 0 'f': time and scratch must be finite and not negative");
  EXPECT_EQ(errorOf([](P &p) { p.ops[0].row = 7; }),
            "operation 0 'f': is of row 7, which the schedule does not have, or not behind the row "
            "before");
  EXPECT_EQ(errorOf([](P &p) { p.ops[1].mayRecompute = true; }),
            "operation 1 'b': is of the backward pass and cannot be computed again");
  EXPECT_EQ(errorOf([](P &p) { p.ops[1].reads = {1}; }),
            "operation 1 'b': reads value 1, which nothing before it writes");
  EXPECT_EQ(errorOf([](P &p) { p.ops[1].writes = {0}; }),
            "operation 1 'b': writes value 0, which does not exist or is written already");
  EXPECT_EQ(errorOf([](P &p) { p.values[1].bytes = -1; }), "value 1: bytes are negative");
  EXPECT_EQ(errorOf([](P &p) { p.memoryLimitBytes = 9; }),
            "recomputation reaches 16 bytes at best, the limit is 9");
}

} // namespace
} // namespace autopar
