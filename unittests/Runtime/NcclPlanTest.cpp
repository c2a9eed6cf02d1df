// SPDX-License-Identifier: Apache-2.0
// Which communicators NCCL needs for a program, and programs that it cannot run as they are.
#include "../../lib/Runtime/comm/nccl/NcclPlan.h"
#include "../../lib/Runtime/comm/nccl/NcclTypes.h"

#include <gtest/gtest.h>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;

namespace {

/// Two ranks with programs of their own: "step" runs once for each of two slots.
struct Pair {
  Program programs[2];
  RankTable tables[2];

  Pair() {
    for (int r = 0; r < 2; ++r) {
      programs[r].entries = {{"step", {}}};
      programs[r].timetable = {{0, 0}, {0, 1}};
      tables[r].peers = {1 - r};
      tables[r].groups = {{{0, 1}}, {{1, 0}}};
      tables[r].permutations = {{1 - r, 1 - r}, {-1, -1}};
    }
  }
  void add(int rank, Queue queue, const std::string &id, Payload payload) {
    Instruction instruction;
    instruction.queue = queue;
    instruction.id = id;
    instruction.payload = std::move(payload);
    programs[rank].entries[0].instructions.push_back(instruction);
  }
  Result<NcclPlan> plan(int32_t rank) const {
    return planNccl([this](int32_t r) { return RankProgram{&programs[r], &tables[r]}; }, rank);
  }
  void refuses(const std::vector<std::string> &words) const {
    for (int32_t rank : {0, 1}) {
      auto refused = plan(rank);
      ASSERT_FALSE(refused.isOk());
      for (const std::string &word : words)
        EXPECT_NE(refused.status().message().find(word), std::string::npos)
            << "'" << word << "' is not in: " << refused.status().message();
    }
  }
};

TEST(NcclPlan, ACommunicatorForEveryGroupAndDirection) {
  Pair pair;
  for (int r = 0; r < 2; ++r) {
    pair.add(r, Queue::Communication, "sum",
             Collective{CollectiveKind::AllReduce, 0, 0, 0, Reduction::Sum, DataType::F32, 8});
    pair.add(r, Queue::Communication, "other",
             Collective{CollectiveKind::AllToAll, 0, 0, 1, Reduction::Sum, DataType::F32, 6});
    pair.add(r, Queue::Communication, "swap", Permute{0, 0, 0, 16});
    pair.add(r, Queue::Communication, "nobody", Permute{0, 0, 1, 16});
  }
  pair.add(0, Queue::Send, "send", Send{0, 0, 4, 7});
  pair.add(1, Queue::Receive, "receive", Recv{0, 0, 4, 7});
  for (int32_t rank : {0, 1}) {
    auto plan = pair.plan(rank);
    ASSERT_TRUE(plan.isOk()) << plan.status().message();
    using Kind = NcclUse::Kind;
    std::vector<NcclUse> expected = {{Kind::Group, {0, 1}, 0},
                                     {Kind::Group, {1, 0}, 0},
                                     {Kind::Messages, {0, 1}, 0},
                                     {Kind::Moves, {0, 1}, 0},
                                     {Kind::Moves, {1, 0}, 0}};
    EXPECT_EQ(plan->uses, expected);
    EXPECT_EQ(plan->scratchBytes, 24);
  }
  EXPECT_TRUE(communicates(pair.programs[0]));
  EXPECT_FALSE(communicates(Program()));
}

TEST(NcclPlan, MessagesThatCrossHaveCommunicatorsOfTheirOwn) {
  Pair pair;
  for (int32_t tag : {10, 20, 30, 40})
    pair.add(0, Queue::Send, "s" + std::to_string(tag), Send{0, 0, 4, tag});
  for (int32_t tag : {20, 10, 30, 40})
    pair.add(1, Queue::Receive, "r" + std::to_string(tag), Recv{0, 0, 4, tag});
  for (int32_t rank : {0, 1}) {
    auto plan = pair.plan(rank);
    ASSERT_TRUE(plan.isOk()) << plan.status().message();
    using Kind = NcclUse::Kind;
    EXPECT_EQ(plan->uses,
              (std::vector<NcclUse>{{Kind::Messages, {0, 1}, 0}, {Kind::Messages, {0, 1}, 1}}));
    // Of either slot.
    for (int32_t slot : {0, 1}) {
      EXPECT_EQ(plan->numbers.at({0, 1, 10 + slot}), 0);
      EXPECT_EQ(plan->numbers.at({0, 1, 20 + slot}), 1);
      EXPECT_EQ(plan->numbers.at({0, 1, 30 + slot}), 0);
    }
  }
}

TEST(NcclPlan, BothSidesHaveAsManyMessagesOfTheSameSize) {
  Pair pair;
  pair.add(0, Queue::Send, "first", Send{0, 0, 4, 10});
  pair.add(0, Queue::Send, "second", Send{0, 0, 4, 20});
  pair.add(1, Queue::Receive, "only", Recv{0, 0, 4, 10});
  pair.refuses({"ranks 0 and 1 disagree", "rank 0, step[1] second (tag 20, 4 bytes) is sent",
                "nothing is received"});
  Pair sizes;
  for (int r = 0; r < 2; ++r)
    sizes.add(r, Queue::Communication, "swap" + std::to_string(r), Permute{0, 0, 0, 16 + r});
  sizes.refuses({"disagree", "swap0 (tag 0, 16 bytes)", "swap1 (tag 0, 17 bytes)"});
}

TEST(NcclPlan, OneQueuePerKindAndTypesThatNcclHas) {
  Pair queues;
  Pair types;
  for (int r = 0; r < 2; ++r) {
    Collective sum{CollectiveKind::AllReduce, 0, 0, 0, Reduction::Sum, DataType::F32, 8};
    queues.add(r, Queue::Compute, "sum", sum);
    sum.dtype = DataType::I16;
    types.add(r, Queue::Communication, "short", sum);
  }
  queues.refuses({"step[0] sum does not run on the queue for communication"});
  types.refuses({"step[0] short: NCCL does not reduce i16"});
}

TEST(NcclPlan, KnowsWhatHasMessages) {
  Pair pair;
  EXPECT_FALSE(communicates(pair.programs[0]));
  pair.add(0, Queue::Communication, "sum",
           Collective{CollectiveKind::AllReduce, 0, 0, 0, Reduction::Sum, DataType::F32, 8});
  EXPECT_TRUE(communicates(pair.programs[0]));
  EXPECT_FALSE(sendsMessages(pair.programs[0]));
  pair.add(0, Queue::Send, "send", Send{0, 0, 4, 7});
  EXPECT_TRUE(sendsMessages(pair.programs[0]));
}

TEST(NcclConfig, MessagesLeaveMultiprocessorsWhereTheLibraryCan) {
  cuda::NcclConfig sums = cuda::ncclConfig(NcclUse::Kind::Group, 22809),
                   messages = cuda::ncclConfig(NcclUse::Kind::Messages, 21701),
                   before = cuda::ncclConfig(NcclUse::Kind::Messages, 21602);
  EXPECT_EQ(sums.maxCtas, cuda::kNcclUndefined);
  EXPECT_EQ(messages.maxCtas, 8);
  EXPECT_EQ(messages.size, 40u);
  EXPECT_EQ(messages.version, 21700u);
  EXPECT_EQ(before.size, 24u);
  EXPECT_EQ(before.version, 21400u);
}

} // namespace
