// SPDX-License-Identifier: Apache-2.0
// Device, network and driver of a simulation, on times that can be worked out by hand.
#include "autopar/Runtime/Simulation.h"
#include "SampleArtifact.h"
#include "SimulatedDevice.h"
#include "SimulatedNetwork.h"
#include "autopar/Artifact/Reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <unistd.h>

using namespace autopar;
using namespace autopar::runtime;
using Kind = artifact::CollectiveKind;

namespace {

/// Two nodes of two devices: 1 us and 1 byte/ns inside, 10 us and a tenth of it between.
Cluster twoNodes() {
  Cluster cluster;
  cluster.name = "two nodes";
  DeviceType type;
  type.name = "d";
  type.peakFlopsPerSecond = {{DataType::F32, 1e9}, {DataType::BF16, 4e9}};
  type.memoryBytesPerSecond = 1e9;
  type.memoryBytes = 1 << 30;
  type.launchUs = 2;
  cluster.deviceTypes = {type};
  cluster.nodes = {{2, 2, "d", {}}};
  cluster.levels = {{"inside", {1, 1e9}, 1}, {"network", {10, 1e8}, 0}};
  EXPECT_TRUE(cluster.verify().isOk());
  return cluster;
}

artifact::Instruction instruction(int64_t flops, int64_t bytes, DataType type) {
  artifact::Instruction result;
  result.flops = flops;
  result.bytes = bytes;
  result.arithmetic = type;
  return result;
}

/// Ranks of a network, and when their operations are complete.
class SimulatedNetworkTest : public ::testing::Test {
protected:
  Cluster cluster = twoNodes();
  VirtualClock clock;
  SimulatedThreads threads{{0, 0, 0, 0}};
  SimulatedNetwork network{cluster, 4, threads, clock};
  std::vector<std::unique_ptr<Communicator>> ranks;
  std::vector<int32_t> all{0, 1, 2, 3}, pair{1, 0};

  void SetUp() override {
    for (int32_t rank = 0; rank < 4; ++rank)
      ranks.push_back(network.connect(rank));
  }
  Result<Token> collective(int32_t rank, const std::vector<int32_t> &members, Kind kind,
                           int64_t count) {
    return ranks[size_t(rank)]->collective(
        {kind, artifact::Reduction::Sum, DataType::F32, count, nullptr, nullptr, &members});
  }
  /// To the next time at which anybody wakes; false where nobody will.
  bool advance(std::vector<int32_t> &awake) {
    if (!clock.advance(awake))
      return false;
    if (awake.back() == network.sleeper())
      network.advance();
    return true;
  }
  /// Lets time go on until the rank knows that the operation is complete.
  int64_t end(int32_t rank, Result<Token> token) {
    EXPECT_TRUE(token.isOk()) << token.status().message();
    std::vector<int32_t> awake{rank};
    while (true) {
      auto done = ranks[size_t(rank)]->test(*token);
      EXPECT_TRUE(done.isOk()) << done.status().message();
      if (*done)
        return clock.nowNs();
      do
        if (!advance(awake))
          return -1;
      while (std::find(awake.begin(), awake.end(), rank) == awake.end());
    }
  }
  void passTime(int64_t ns) {
    std::vector<int32_t> awake;
    int64_t until = clock.nowNs() + ns;
    clock.wake(until, 0);
    while (clock.nowNs() < until)
      advance(awake);
  }
};

} // namespace

TEST(SimulatedDevice, TakesWhatTheCostModelSays) {
  Cluster cluster = twoNodes();
  VirtualClock clock;
  InstructionTimes times(cluster.deviceTypes[0]);
  SimulatedDevice device(3, times, nullptr, clock);
  // 2 us to start; 4000 FLOPs at 1 or 4 per ns; 1000 bytes at 1 per ns.
  auto inF32 = device.issue(instruction(4000, 1000, DataType::F32), 0, {});
  auto inBf16 = device.issue(instruction(4000, 1000, DataType::BF16), 0, {});
  EXPECT_EQ(*inF32, 6000u);
  EXPECT_EQ(*inBf16, 3000u);
  EXPECT_EQ(device.busyNs(artifact::Queue::Compute), 9000);
  std::vector<int32_t> awake;
  ASSERT_TRUE(clock.advance(awake));
  EXPECT_EQ(awake, (std::vector<int32_t>{3}));
  EXPECT_TRUE(*device.test(*inBf16));
  EXPECT_FALSE(*device.test(*inF32));
  // Guards are read: nothing is not finite.
  double value = 1;
  EXPECT_TRUE(device.read(0, 0, &value, sizeof(value)).isOk());
  EXPECT_EQ(value, 0);
}

TEST(SimulatedDevice, TakesWhatWasMeasured) {
  Cluster cluster = twoNodes();
  cluster.deviceTypes[0].measured.list = {{"product", {{"rows", {1, 4}, 1}}, {3, 9}}};
  VirtualClock clock;
  SimulatedThreads threads{{0}};
  InstructionTimes times(cluster.deviceTypes[0]);
  SimulatedDevice device(0, times, &threads, clock);
  artifact::Instruction product = instruction(4000, 1000, DataType::F32);
  product.profileKey = "product:4";
  EXPECT_EQ(*device.issue(product, 0, {}), 9000u);
  EXPECT_EQ(*device.issue(product, 0, {}), 18000u) << "one after the other";
  artifact::Instruction unknown = product;
  unknown.profileKey = "product:5";
  EXPECT_EQ(device.issue(unknown, 0, {}).status().code(), StatusCode::BadInput);
}

TEST_F(SimulatedNetworkTest, WhereRanksDoOneThingAtATimeTheyTakePartWhenTheyAreFree) {
  cluster.deviceTypes[0].communicatesWhileIdle = true;
  threads.occupy(1, 5000, clock); // computes
  auto first = collective(0, pair, Kind::AllGather, 500);
  auto last = collective(1, pair, Kind::AllGather, 500);
  EXPECT_EQ(threads.freeNs[0], 3000);
  EXPECT_EQ(threads.freeNs[1], 5000 + 3000);
  EXPECT_EQ(end(0, first), 8000);
  EXPECT_EQ(end(1, last), 8000);
}

TEST_F(SimulatedNetworkTest, WhereRanksDoOneThingAtATimeTheLaterSideMovesAMessage) {
  cluster.deviceTypes[0].communicatesWhileIdle = true;
  auto received = ranks[0]->receive(1, 7, nullptr, 4000);
  auto sent = ranks[1]->send(0, 7, nullptr, 4000);
  EXPECT_EQ(threads.freeNs[0], 0);
  EXPECT_EQ(threads.freeNs[1], 1000 + 4000);
  EXPECT_EQ(end(0, received), 5000);
  EXPECT_EQ(end(1, sent), 5000);
}

TEST_F(SimulatedNetworkTest, ANetworkMovesBytesBesideWhatComputes) {
  cluster.deviceTypes[0].communicatesWhileIdle = true;
  const std::vector<int32_t> far{0, 2}; // of two nodes
  auto first = collective(0, far, Kind::AllGather, 500);
  auto last = collective(2, far, Kind::AllGather, 500);
  auto sent = ranks[0]->send(2, 7, nullptr, 4000);
  auto received = ranks[2]->receive(0, 7, nullptr, 4000);
  ASSERT_TRUE(first.isOk() && last.isOk() && sent.isOk() && received.isOk());
  EXPECT_EQ(threads.freeNs[0], 0);
  EXPECT_EQ(threads.freeNs[2], 0);
}

TEST_F(SimulatedNetworkTest, WhatComputesLosesTimeToTheBytesOfANetwork) {
  cluster.deviceTypes[0].communicatesWhileIdle = true;
  cluster.levels[1].link.computeLoss = 0.5;
  autopar::MessageTime time = messageTime(4000, meshGroup(cluster, 1, 2));
  ASSERT_DOUBLE_EQ(time.lossUs, time.bytesUs / 2);
  threads.occupy(0, 9000, clock); // computes
  auto sent = ranks[0]->send(2, 7, nullptr, 4000);
  auto received = ranks[2]->receive(0, 7, nullptr, 4000);
  EXPECT_NEAR(double(threads.freeNs[0]), 9000 + 1e3 * time.lossUs, 1);
  EXPECT_NEAR(double(threads.freeNs[2]), 1e3 * time.lossUs, 1);
  EXPECT_NEAR(double(end(2, received)), 1e3 * (time.latencyUs + time.bytesUs), 1);
  ASSERT_TRUE(sent.isOk());
  // Nor does a device that communicates beside what it computes lose any.
  cluster.deviceTypes[0].communicatesWhileIdle = false;
  int64_t before = threads.freeNs[0];
  auto again = ranks[0]->send(2, 7, nullptr, 4000), last = ranks[2]->receive(0, 7, nullptr, 4000);
  ASSERT_TRUE(again.isOk() && last.isOk());
  EXPECT_EQ(threads.freeNs[0], before);
}

TEST_F(SimulatedNetworkTest, ACollectiveBeginsWithItsLastMember) {
  auto first = collective(0, pair, Kind::AllGather, 500);
  passTime(7000);
  auto last = collective(1, pair, Kind::AllGather, 500);
  // 1 us and half of 4000 bytes.
  EXPECT_EQ(end(0, first), 7000 + 1000 + 2000);
  EXPECT_EQ(end(1, last), 7000 + 1000 + 2000);
  EXPECT_EQ(ranks[1]->test(*last).status().code(), StatusCode::Internal) << "forgotten";
}

TEST_F(SimulatedNetworkTest, CollectivesTakeWhatTheCostModelSaysOfTheirPlaces) {
  for (auto kind :
       {Kind::AllReduce, Kind::AllGather, Kind::ReduceScatter, Kind::AllToAll, Kind::Broadcast}) {
    int64_t begin = clock.nowNs();
    std::vector<Result<Token>> tokens;
    for (int32_t rank = 0; rank < 4; ++rank)
      tokens.push_back(collective(rank, all, kind, 1000));
    double bytes = kind == Kind::AllGather ? 16000 : 4000;
    autopar::CollectiveKind asked = kind == Kind::AllReduce   ? autopar::CollectiveKind::AllReduce
                                    : kind == Kind::AllGather ? autopar::CollectiveKind::AllGather
                                    : kind == Kind::ReduceScatter
                                        ? autopar::CollectiveKind::ReduceScatter
                                    : kind == Kind::AllToAll ? autopar::CollectiveKind::AllToAll
                                                             : autopar::CollectiveKind::Broadcast;
    EXPECT_NEAR(double(end(2, tokens[2]) - begin),
                1e3 * collectiveTimeUs(asked, bytes, meshGroup(cluster, 2, 2)), 1);
  }
}

TEST_F(SimulatedNetworkTest, CollectivesOfAGroupMeetInOrder) {
  auto a0 = collective(0, pair, Kind::AllReduce, 10);
  auto b0 = collective(0, pair, Kind::AllGather, 10);
  auto a1 = collective(1, pair, Kind::AllReduce, 10);
  EXPECT_GE(end(1, a1), 0);
  EXPECT_GE(end(0, a0), 0);
  EXPECT_EQ(end(0, b0), -1) << "the other one did not begin it";
}

TEST_F(SimulatedNetworkTest, RanksThatDisagreeAreNamed) {
  ASSERT_TRUE(collective(0, pair, Kind::AllReduce, 10).isOk());
  auto other = collective(1, pair, Kind::AllGather, 10);
  EXPECT_EQ(other.status().message(), "rank 1 begins all_gather of 80 bytes where rank 0 of the "
                                      "same group began all_reduce of 40 bytes");
  ASSERT_TRUE(ranks[0]->send(2, 5, nullptr, 8).isOk());
  EXPECT_EQ(ranks[2]->receive(0, 5, nullptr, 4).status().message(),
            "message 5 from rank 0 to rank 2 has 4 bytes on rank 2, 8 on the other side");
}

TEST_F(SimulatedNetworkTest, AMessageWaitsForBothSidesAndForItsLink) {
  auto sendA = ranks[0]->send(2, 1, nullptr, 100), sendB = ranks[0]->send(2, 2, nullptr, 100);
  auto receiveB = ranks[2]->receive(0, 2, nullptr, 100);
  passTime(500);
  auto receiveA = ranks[2]->receive(0, 1, nullptr, 100);
  // 10 us and 100 bytes at 0.1 per ns each; A comes after B, which both sides asked for first, but
  // only after its bytes.
  EXPECT_EQ(end(2, receiveB), 11000);
  EXPECT_EQ(end(0, sendB), 11000);
  EXPECT_EQ(end(2, receiveA), 12000);
  EXPECT_EQ(end(0, sendA), 12000);
  // Another pair is another link.
  auto send = ranks[1]->send(3, 1, nullptr, 100), receive = ranks[3]->receive(1, 1, nullptr, 100);
  EXPECT_EQ(end(3, receive), 12000 + 11000);
  EXPECT_EQ(end(1, send), 12000 + 11000);
}

TEST_F(SimulatedNetworkTest, MessagesOfSeveralPairsShareTheLinksOfTheirEnds) {
  std::vector<Result<Token>> tokens;
  auto message = [&](int32_t from, int32_t to, int64_t bytes) {
    tokens.push_back(ranks[size_t(from)]->send(to, 7, nullptr, bytes));
    tokens.push_back(ranks[size_t(to)]->receive(from, 7, nullptr, bytes));
  };
  message(0, 2, 100);
  message(0, 3, 100);
  message(0, 1, 100); // inside the node: another link
  message(3, 0, 100); // the other direction
  // A later one has its link alone when the two before it are through.
  passTime(500);
  message(1, 3, 200);
  EXPECT_EQ(end(1, tokens[5]), 1000 + 100);
  EXPECT_EQ(end(0, tokens[7]), 10000 + 1000);
  EXPECT_EQ(end(2, tokens[1]), 10000 + 2000);
  EXPECT_EQ(end(0, tokens[2]), 10000 + 2000);
  EXPECT_EQ(end(3, tokens[9]), 10000 + 500 + 2000 + 750);
}

TEST_F(SimulatedNetworkTest, APermuteEndsWithBothOfItsMessages) {
  std::vector<Result<Token>> tokens;
  tokens.push_back(ranks[0]->permute(nullptr, nullptr, 1000, 1, -1)); // inside
  tokens.push_back(ranks[1]->permute(nullptr, nullptr, 1000, 2, 0));  // both
  tokens.push_back(ranks[2]->permute(nullptr, nullptr, 1000, -1, 1)); // between
  tokens.push_back(ranks[3]->permute(nullptr, nullptr, 1000, 3, 3));  // itself
  EXPECT_EQ(end(3, tokens[3]), 0);
  EXPECT_EQ(end(0, tokens[0]), 2000);
  EXPECT_EQ(end(1, tokens[1]), 20000);
  EXPECT_EQ(end(2, tokens[2]), 20000);
}

TEST_F(SimulatedNetworkTest, AnAbortReachesEverybody) {
  auto token = collective(0, pair, Kind::AllReduce, 10);
  ranks[1]->abort(Status::internal("no more"));
  EXPECT_EQ(ranks[0]->test(*token).status().code(), StatusCode::PeerLost);
}

namespace {

class SimulationTest : public ::testing::Test {
protected:
  std::filesystem::path folder;
  void SetUp() override {
    folder = std::filesystem::temp_directory_path() / ("simulation-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// The sample program; its weights do not exist.
  artifact::Reader sample(int32_t ranks, void (*change)(artifact::Contents &) = nullptr) {
    artifact::Contents contents = autopar::testing::sampleContents(
        ranks, autopar::testing::readBytes(SAMPLE_KERNELS), "nowhere.weights");
    if (change)
      change(contents);
    std::string path = (folder / "sample.bin").string();
    Status written = artifact::writeArtifact(contents, path);
    EXPECT_TRUE(written.isOk()) << written.message();
    auto reader = artifact::Reader::open(path);
    EXPECT_TRUE(reader.isOk()) << reader.status().message();
    return reader.take();
  }

  /// What is said of a step of the sample on this cluster.
  std::string refusal(const Cluster &cluster) {
    auto simulation = Simulation::open(sample(4), cluster, false);
    return simulation ? (*simulation)->runStep(0).status().message()
                      : simulation.status().message();
  }
};

} // namespace

TEST_F(SimulationTest, RunsTheSameStepInTheSameTimeAgain) {
  int64_t known = 0;
  for (int run = 0; run < 2; ++run) {
    auto simulation = Simulation::open(sample(4), twoNodes(), true);
    ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
    auto first = (*simulation)->runStep(0), second = (*simulation)->runStep(1);
    ASSERT_TRUE(first.isOk()) << first.status().message();
    EXPECT_EQ(*first, *second);
    EXPECT_TRUE(run == 0 || *first == known);
    known = *first;
    std::vector<SimulatedRank> ranks = (*simulation)->ranks();
    ASSERT_EQ(ranks.size(), 4u);
    for (const SimulatedRank &rank : ranks) {
      EXPECT_GT(rank.computeNs, 0);
      EXPECT_LT(rank.computeNs, 2 * *first) << "the all-reduce takes time too";
    }
    size_t recorded = 0;
    for (const RankEvents &rank : (*simulation)->events())
      recorded += rank.events->size();
    // Reads of parameters are executed by the executor itself.
    EXPECT_GE(int64_t(recorded), (*simulation)->instructions());
  }
}

TEST_F(SimulationTest, ARowBeginsWhileTheOneBeforeCommunicates) {
  // The first instruction of a step computes, the last one is an all-reduce.
  auto once = Simulation::open(sample(4), twoNodes(), false);
  auto thrice = Simulation::open(sample(4,
                                        [](artifact::Contents &contents) {
                                          for (artifact::RankClass &each : contents.classes)
                                            each.program.timetable.assign(3, {1, 0});
                                        }),
                                 twoNodes(), false);
  auto waiting =
      Simulation::open(sample(4,
                              [](artifact::Contents &contents) {
                                for (artifact::RankClass &each : contents.classes) {
                                  each.program.timetable.assign(3, {1, 0});
                                  each.program.entries[1].instructions[0].awaits = {{1, 3}};
                                }
                              }),
                       twoNodes(), false);
  ASSERT_TRUE(once.isOk() && thrice.isOk() && waiting.isOk());
  int64_t one = *(*once)->runStep(0), three = *(*thrice)->runStep(0);
  int64_t computeNs = (*once)->ranks()[0].computeNs;
  EXPECT_EQ((*thrice)->ranks()[0].computeNs, 3 * computeNs);
  EXPECT_EQ(three, computeNs + 3 * (one - computeNs)) << "all-reduces are what the step waits for";
  EXPECT_EQ(*(*waiting)->runStep(0), 3 * one) << "each row awaits the one before";
}

TEST_F(SimulationTest, ASlowDeviceHoldsUpAll) {
  Cluster slow = twoNodes();
  DeviceType other = slow.deviceTypes[0];
  other.name = "slow";
  other.launchUs = 100;
  slow.deviceTypes.push_back(other);
  slow.nodes = {{1, 2, "d", {}}, {1, 2, "slow", {}}};
  auto even = Simulation::open(sample(4), twoNodes(), false);
  auto uneven = Simulation::open(sample(4), slow, false);
  ASSERT_TRUE(even.isOk() && uneven.isOk());
  EXPECT_GT(*(*uneven)->runStep(0), *(*even)->runStep(0));
  EXPECT_EQ((*uneven)->ranks()[0].computeNs, (*even)->ranks()[0].computeNs);
  EXPECT_GT((*uneven)->ranks()[3].computeNs, (*even)->ranks()[3].computeNs);
}

TEST_F(SimulationTest, RefusesTimesThatNobodyWaitsFor) {
  for (double us : {1e15, 9.2e18, 1e30}) {
    Cluster slow = twoNodes();
    slow.levels[0].link.latencyUs = slow.levels[1].link.latencyUs = us;
    EXPECT_EQ(refusal(slow), "cluster \"two nodes\": a step takes longer than three years; check "
                             "the rates, which are per second, and the latencies, which are in "
                             "microseconds");
    slow = twoNodes();
    slow.deviceTypes[0].launchUs = us;
    EXPECT_NE(refusal(slow).find("three years"), std::string::npos) << us;
  }
}

TEST_F(SimulationTest, RefusesMoreRanksThanDevices) {
  auto simulation = Simulation::open(sample(8), twoNodes(), false);
  EXPECT_EQ(simulation.status().code(), StatusCode::Mismatch);
  EXPECT_NE(simulation.status().message().find("was compiled for 8 ranks, the cluster has 4 "
                                               "devices; simulate a larger cluster"),
            std::string::npos)
      << simulation.status().message();
}

TEST_F(SimulationTest, RanksThatWaitForEachOtherForeverAreNamed) {
  // Each receives what nobody sends.
  artifact::Reader reader = sample(2, [](artifact::Contents &contents) {
    for (artifact::RankClass &rankClass : contents.classes)
      for (artifact::Entry &entry : rankClass.program.entries)
        for (artifact::Instruction &instruction : entry.instructions)
          if (auto *collective = std::get_if<artifact::Collective>(&instruction.payload)) {
            instruction.id = "never";
            instruction.payload = artifact::Recv{collective->output, 0, collective->count * 4, 7};
          }
    for (size_t rank = 0; rank < contents.ranks.size(); ++rank)
      contents.ranks[rank].peers = {int32_t(1 - rank)};
  });
  auto simulation = Simulation::open(std::move(reader), twoNodes(), false);
  ASSERT_TRUE(simulation.isOk()) << simulation.status().message();
  auto step = (*simulation)->runStep(0);
  EXPECT_EQ(step.status().code(), StatusCode::BadInput);
  EXPECT_NE(step.status().message().find("ranks wait for each other forever: rank 0 after "),
            std::string::npos)
      << step.status().message();
  EXPECT_NE(step.status().message().find("never"), std::string::npos);
}
