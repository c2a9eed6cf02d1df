// SPDX-License-Identifier: Apache-2.0
// What every search leans on: costs grow with size, and ranks per node matter.
#include "autopar/Cost/CostModel.h"

#include <gtest/gtest.h>

namespace autopar {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::AllReduce,     CollectiveKind::AllGather,
                                     CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                     CollectiveKind::Permute,       CollectiveKind::Broadcast};

TEST(CollectiveCost, GrowsWithBytes) {
  Cluster cluster = *Cluster::preset("h100x8x16");
  for (CollectiveKind kind : kKinds)
    for (int64_t ranks : {1, 2, 3, 4, 8})
      for (int64_t nodes : {1, 2, 5, 16}) {
        MeshGroup group = meshGroup(cluster, ranks, nodes);
        ASSERT_EQ(group.size(), ranks * nodes);
        double before = -1;
        for (double bytes = 1; bytes < 1e12; bytes *= 1.37) {
          double now = collectiveTimeUs(kind, bytes, group);
          EXPECT_GE(now, before) << name(kind);
          before = now;
        }
      }
}

TEST(CollectiveCost, OneRankIsFree) {
  MeshGroup group = meshGroup(*Cluster::preset("h100x8x16"), 1, 1);
  for (CollectiveKind kind : kKinds)
    EXPECT_EQ(collectiveTimeUs(kind, 1e9, group), 0);
}

TEST(CollectiveCost, FasterLinksAreNeverSlower) {
  Cluster slow = *Cluster::preset("h100x8x16"), fast = slow;
  fast.levels[1].link.bytesPerSecond *= 10;
  for (CollectiveKind kind : kKinds)
    for (double bytes : {1e3, 1e6, 1e9})
      EXPECT_LE(collectiveTimeUs(kind, bytes, meshGroup(fast, 8, 16)),
                collectiveTimeUs(kind, bytes, meshGroup(slow, 8, 16)));
}

TEST(CollectiveCost, RanksPerNodeMatter) {
  // 16 ranks: two full nodes move an eighth each over the network; 16 nodes move everything.
  Cluster cluster = *Cluster::preset("h100x8x16");
  EXPECT_LT(collectiveTimeUs(CollectiveKind::AllReduce, 1e9, meshGroup(cluster, 8, 2)),
            collectiveTimeUs(CollectiveKind::AllReduce, 1e9, meshGroup(cluster, 1, 16)));
  // An all-reduce is a reduce-scatter and an all-gather.
  MeshGroup group = meshGroup(cluster, 8, 2);
  EXPECT_NEAR(collectiveTimeUs(CollectiveKind::AllReduce, 1e9, group),
              collectiveTimeUs(CollectiveKind::ReduceScatter, 1e9, group) +
                  collectiveTimeUs(CollectiveKind::AllGather, 1e9, group),
              1e-6);
}

TEST(CollectiveCost, RingFormulaOnOneLevel) {
  Cluster cluster = *Cluster::preset("h100x8");
  MeshGroup group = meshGroup(cluster, 4, 1);
  double expected = 2 * 5 + 1e6 * 0.75 * 1e9 / 370e9;
  EXPECT_NEAR(collectiveTimeUs(CollectiveKind::AllGather, 1e9, group), expected, 1e-6);
}

TEST(Mesh, GroupsFollowTheAxes) {
  Cluster cluster = *Cluster::preset("h100x8x4");
  Mesh mesh = Mesh::over("m", {{"node", 4}, {"gpu", 8}});
  ASSERT_TRUE(mesh.verify(cluster).isOk());
  std::vector<std::string> gpu = {"gpu"}, node = {"node"}, both = {"node", "gpu"};
  EXPECT_EQ(meshGroup(cluster, mesh, gpu).extents, (std::vector<int64_t>{8, 1}));
  EXPECT_EQ(meshGroup(cluster, mesh, node).extents, (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(meshGroup(cluster, mesh, both).extents, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(meshGroup(cluster, mesh, {}).size(), 1);
}

TEST(Mesh, TheWorstGroupHasTheMostLatency) {
  Cluster cluster = *Cluster::preset("h100x2x2");
  cluster.nodes.front().count = 1;
  NodeGroup far = cluster.nodes.front();
  far.insideLink = cluster.levels.front().link;
  far.insideLink.latencyUs *= 100;
  cluster.nodes.push_back(far);
  const std::string inside[] = {"x"};
  MeshGroup group = meshGroup(cluster, Mesh::over("m", {{"y", 2}, {"x", 2}}), inside);
  EXPECT_EQ(group.links.front().latencyUs, far.insideLink.latencyUs);
}

TEST(Mesh, Refusals) {
  Cluster cluster = Cluster::cpuRanks(4);
  EXPECT_FALSE(Mesh::over("m", {{"a", 2}, {"a", 2}}).verify(cluster).isOk());
  EXPECT_FALSE(Mesh::over("m", {{"a", 8}}).verify(cluster).isOk());
  Mesh twice{"m", {{"a", 2}}, {1, 1}};
  EXPECT_FALSE(twice.verify(cluster).isOk());
}

TEST(OpCost, RooflineWithFloor) {
  DeviceType device = Cluster::preset("h100x1")->deviceTypes[0];
  EXPECT_DOUBLE_EQ(opTimeUs(0, 0, DataType::F32, device), device.launchUs);
  EXPECT_GT(opTimeUs(1e12, 1, DataType::F32, device), opTimeUs(1e12, 1, DataType::BF16, device));
  EXPECT_GT(opTimeUs(1, 1e9, DataType::F32, device), opTimeUs(1, 1e8, DataType::F32, device));
  EXPECT_DOUBLE_EQ(opTimeUs(1e12, 1, DataType::I32, device),
                   opTimeUs(1e12, 1, DataType::F32, device));
}

TEST(OpCost, AttentionReachesAShareOfThePeakOfItsOwn) {
  DeviceType device = Cluster::preset("h100x1")->deviceTypes[0];
  auto us = [&](Work work) {
    return opTimeUs(1e12, 1, DataType::BF16, device, work) - device.launchUs;
  };
  EXPECT_DOUBLE_EQ(us(Work::Attention) / us(Work::Product), 0.8 / 0.54);
  EXPECT_DOUBLE_EQ(us(Work::AttentionGradient) / us(Work::Product), 0.8 / 0.52);
  device.attentionEfficiency = device.attentionGradientEfficiency = 0;
  EXPECT_DOUBLE_EQ(us(Work::Attention), us(Work::Product)) << "nobody says";
  EXPECT_DOUBLE_EQ(us(Work::AttentionGradient), us(Work::Product));
}

} // namespace
} // namespace autopar
