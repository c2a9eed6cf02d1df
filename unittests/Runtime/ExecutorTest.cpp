// SPDX-License-Identifier: Apache-2.0
// When instructions start, on a device and a communicator that complete what a test says.
#include "autopar/Runtime/Executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;

namespace {

using Names = std::vector<std::string>;

/// What was started, by its name in its row ("fc@3" is fc with slot 3), and what is complete of it.
/// Tokens count from 1.
struct Started {
  Names names;
  std::map<std::string, Names> after; ///< of what the device was to put in order
  std::map<std::string, bool> isComplete;

  Token add(const std::string &name, std::span<const Token> tokens) {
    for (Token token : tokens)
      after[name].push_back(names[token - 1]);
    names.push_back(name);
    return names.size();
  }
  bool has(const std::string &name) const {
    return std::find(names.begin(), names.end(), name) != names.end();
  }
};

class TestDevice : public Device, public Capture {
public:
  explicit TestDevice(Started &started, bool orders) : started(started), orders(orders) {}

  using Device::prepare;
  Status prepare(const Program &given, BufferPlaces, std::span<const int64_t>) override {
    program = &given;
    return Status::ok();
  }
  void *address(int32_t buffer, int32_t slot) override {
    const Buffer &b = program->buffers[size_t(buffer)];
    return reinterpret_cast<void *>(uintptr_t(b.offset + (b.slots > 1 ? slot * b.slotStride : 0)));
  }
  bool ordersInstructions() const override { return orders; }
  Result<Token> issue(const Instruction &instruction, int32_t slot,
                      std::span<const Token> after) override {
    if (instruction.id == fails && slot == failsIn)
      return Status::internal("it broke");
    return started.add(instruction.id + "@" + std::to_string(slot), after);
  }
  Result<bool> test(Token token) override {
    return isCaptured || started.isComplete[started.names[token - 1]];
  }
  Status write(int32_t, int64_t, const void *, int64_t) override { return Status::ok(); }
  Status read(int32_t, int64_t, void *data, int64_t bytes) override {
    std::fill_n(static_cast<uint8_t *>(data), bytes, uint8_t{0});
    return Status::ok();
  }
  int64_t unplannedBytes() const override { return 0; }

  Capture *capture() override { return this; }
  Status begin() override {
    isCaptured = true;
    started = {};
    return Status::ok();
  }
  Status mark(Queue, int32_t, std::span<const Token>) override { return Status::ok(); }
  Result<int32_t> end() override { return 0; }
  void abandon() override {}
  Result<Token> launch(int32_t) override { return Token{1}; }
  int32_t reached(Queue) const override { return 0; }

  std::string fails;
  int32_t failsIn = 0;

private:
  Started &started;
  bool orders, isCaptured = false;
  const Program *program = nullptr;
};

/// "receive@<tag> at <address>".
class TestCommunicator : public Communicator {
public:
  explicit TestCommunicator(Started &started) : started(started) {}
  int32_t rank() const override { return 0; }
  int32_t worldSize() const override { return 2; }
  Result<Token> collective(const CollectiveCall &) override { return started.add("sum", {}); }
  Result<Token> permute(const void *, void *, int64_t, int32_t, int32_t) override {
    return started.add("permute", {});
  }
  Result<Token> send(int32_t, int32_t tag, const void *data, int64_t) override {
    return started.add("send@" + at(tag, data), {});
  }
  Result<Token> receive(int32_t, int32_t tag, void *data, int64_t) override {
    return started.add("receive@" + at(tag, data), {});
  }
  Result<bool> test(Token token) override { return started.isComplete[started.names[token - 1]]; }
  void wait(std::chrono::microseconds) override {}
  void abort(const Status &) override {}

private:
  Started &started;
  static std::string at(int32_t tag, const void *data) {
    return std::to_string(tag) + " at " + std::to_string(reinterpret_cast<uintptr_t>(data));
  }
};

class NoParameters : public ParameterSource {
public:
  Status read(const Port &, const PortShard &, void *, const std::vector<int64_t> &) override {
    return Status::internal("no");
  }
};

Instruction instruction(const std::string &id, Queue queue, std::vector<int32_t> after = {},
                        std::vector<Await> awaits = {}) {
  Instruction result;
  result.id = id;
  result.queue = queue;
  result.after = std::move(after);
  result.awaits = std::move(awaits);
  result.payload = Copy{0, 0, 0, 0, 1};
  return result;
}

/// Runs one step of a program of one rank.
class ExecutorTest : public ::testing::Test {
protected:
  Program program;
  Started started;
  std::unique_ptr<TestDevice> device;
  std::unique_ptr<TestCommunicator> communicator;
  std::unique_ptr<SharedProgram> shared;
  std::unique_ptr<Executor> executor;
  RankTable table;
  NoParameters parameters;

  ExecutorTest() {
    program.buffers.resize(1);
    table.peers = {1};
  }

  void prepare(bool orders = false) {
    device = std::make_unique<TestDevice>(started, orders);
    ASSERT_TRUE(device->prepare(program, {}).isOk());
    communicator = std::make_unique<TestCommunicator>(started);
    shared = std::make_unique<SharedProgram>(program);
    executor = std::make_unique<Executor>(*shared, table, 0, *device, *communicator, parameters);
  }
  void begin(StepKind kind = StepKind::Whole, bool orders = false) {
    prepare(orders);
    executor->startStep(0, kind);
    advance();
  }
  /// As far as it goes: what is given to a device that orders instructions lets others follow, when
  /// their queue is looked at again.
  Progress advance() {
    Progress progress = Progress::Pending;
    for (size_t before = SIZE_MAX;
         progress == Progress::Pending && before != started.names.size();) {
      before = started.names.size();
      progress = executor->advance();
    }
    EXPECT_NE(progress, Progress::Error) << executor->status().message();
    return progress;
  }
  Progress complete(const Names &names) {
    for (const std::string &name : names) {
      EXPECT_TRUE(started.has(name)) << name;
      started.isComplete[name] = true;
    }
    return advance();
  }
};

TEST_F(ExecutorTest, AQueueGoesOnIntoTheNextRow) {
  program.entries = {
      {"step", {instruction("long", Queue::CopyIn), instruction("short", Queue::Compute)}}};
  program.timetable = {{0, 0}, {0, 1}};
  begin();
  EXPECT_EQ(started.names, (Names{"long@0", "short@0"}));
  complete({"short@0"});
  EXPECT_EQ(started.names, (Names{"long@0", "short@0", "short@1"}));
  EXPECT_EQ(complete({"short@1"}), Progress::Pending);
  EXPECT_EQ(complete({"long@0"}), Progress::Pending);
  EXPECT_EQ(complete({"long@1"}), Progress::Done);
}

TEST_F(ExecutorTest, QueuesPassRowsInWhichTheyHaveNothing) {
  program.entries = {{"head", {instruction("first", Queue::Compute)}},
                     {"nothing", {}},
                     {"round", {instruction("load", Queue::CopyIn)}},
                     {"tail", {instruction("last", Queue::Compute)}}};
  program.timetable = {{1, 0}, {0, 0}, {1, 0}, {2, 0}, {3, 0}, {1, 0}};
  begin();
  EXPECT_EQ(started.names, (Names{"load@0", "first@0"}));
  complete({"first@0"});
  EXPECT_TRUE(started.has("last@0"));
  EXPECT_EQ(complete({"last@0", "load@0"}), Progress::Done);
}

TEST_F(ExecutorTest, AnAwaitHoldsAnInstructionOfALaterRowBack) {
  program.entries = {
      {"head", {instruction("load", Queue::CopyIn)}},
      {"round",
       {instruction("free", Queue::CopyOut), instruction("use", Queue::Compute, {}, {{0, 0}})}}};
  program.timetable = {{0, 0}, {1, 0}};
  begin();
  EXPECT_EQ(started.names, (Names{"load@0", "free@0"}));
  complete({"free@0"});
  EXPECT_FALSE(started.has("use@0"));
  complete({"load@0"});
  EXPECT_TRUE(started.has("use@0"));
}

TEST_F(ExecutorTest, AnAwaitIsForTheLatestRunOfAnEntry) {
  program.entries = {
      {"round",
       {instruction("load", Queue::CopyIn, {}), instruction("use", Queue::Compute, {0}, {{0, 2}}),
        instruction("store", Queue::CopyOut)}}};
  program.timetable = {{0, 0}, {0, 1}, {0, 2}};
  begin();
  complete({"load@0"});
  // No row before the first ran the entry.
  EXPECT_TRUE(started.has("use@0"));
  complete({"use@0", "load@1"});
  EXPECT_FALSE(started.has("use@1")) << "store@0 is not complete";
  complete({"store@0"});
  EXPECT_TRUE(started.has("use@1"));
  complete({"load@2", "use@1"});
  EXPECT_FALSE(started.has("use@2")) << "store@1 is not complete";
  complete({"store@1"});
  EXPECT_TRUE(started.has("use@2"));
}

TEST_F(ExecutorTest, AfterIsWithinARow) {
  program.entries = {
      {"round", {instruction("load", Queue::CopyIn), instruction("use", Queue::Compute, {0})}}};
  program.timetable = {{0, 0}, {0, 1}};
  begin();
  complete({"load@0"});
  complete({"use@0"});
  EXPECT_FALSE(started.has("use@1"));
  complete({"load@1"});
  EXPECT_TRUE(started.has("use@1"));
}

TEST_F(ExecutorTest, MessagesOfSeveralRowsEndInAnyOrder) {
  program.buffers[0].slots = 3;
  program.buffers[0].slotStride = 64;
  Instruction receive = instruction("receive", Queue::Receive);
  receive.payload = Recv{0, 0, 4, 100};
  program.entries = {{"round", {receive, instruction("use", Queue::Compute, {0})}},
                     {"other", {instruction("see", Queue::CopyOut, {}, {{0, 0}})}}};
  program.timetable = {{0, 1}, {0, 2}, {1, 0}};
  begin();
  // Slots move tags and addresses.
  EXPECT_EQ(started.names, (Names{"receive@101 at 64", "receive@102 at 128"}));
  complete({"receive@102 at 128"});
  EXPECT_TRUE(started.has("see@0"));
  EXPECT_FALSE(started.has("use@1"));
  complete({"receive@101 at 64"});
  EXPECT_TRUE(started.has("use@1"));
}

TEST_F(ExecutorTest, ADeviceThatOrdersInstructionsIsToldWhatEarlierRowsRan) {
  program.entries = {{"head", {instruction("load", Queue::CopyIn)}},
                     {"round",
                      {instruction("use", Queue::Compute, {}, {{0, 0}, {1, 1}}),
                       instruction("store", Queue::CopyOut, {0})}}};
  program.timetable = {{0, 0}, {1, 0}, {1, 1}};
  begin(StepKind::Whole, /*orders=*/true);
  EXPECT_EQ(started.names.size(), 5u) << "all of the step is given to it";
  EXPECT_EQ(started.after["use@0"], (Names{"load@0"}));
  EXPECT_EQ(started.after["use@1"], (Names{"load@0", "store@0"}));
  EXPECT_EQ(started.after["store@1"], (Names{"use@1"}));
  EXPECT_EQ(complete(started.names), Progress::Done);
}

TEST_F(ExecutorTest, WhatLoadLeavesOutHandsOnWhatItWouldHaveComeAfter) {
  program.entries = {
      {"load",
       {instruction("read", Queue::CopyIn), instruction("left out", Queue::Compute, {0}),
        instruction("use", Queue::CopyOut, {1})}},
      {"step", {}}};
  program.timetable = {{1, 0}};
  prepare(/*orders=*/true);
  executor->leaveOut({false, true, false}, BufferPlaces(program));
  executor->startLoad();
  advance();
  EXPECT_EQ(started.names, (Names{"read@0"}));
  complete({"read@0"});
  EXPECT_EQ(started.names, (Names{"read@0", "use@0"}));
}

TEST_F(ExecutorTest, AnEvaluationLeavesOutOfEveryRowWhatItDoesNotNeed) {
  Instruction needed = instruction("loss", Queue::Compute, {0}, {{0, 0}});
  needed.evaluated = true;
  program.entries = {{"round", {instruction("gradient", Queue::CopyOut), needed}}};
  program.timetable = {{0, 0}, {0, 1}};
  begin(StepKind::Evaluation);
  complete({"loss@0"});
  EXPECT_EQ(complete({"loss@1"}), Progress::Done);
  EXPECT_EQ(started.names, (Names{"loss@0", "loss@1"}));
}

TEST_F(ExecutorTest, FailuresNameTheMicroBatch) {
  program.entries = {{"round", {instruction("fc@2", Queue::Compute)}}};
  program.timetable = {{0, 0}, {0, 4}};
  prepare();
  device->fails = "fc@2";
  device->failsIn = 4;
  executor->startStep(7);
  executor->advance();
  EXPECT_EQ(executor->lastInstruction(), "round[0] fc@2");
  started.isComplete["fc@2@0"] = true;
  EXPECT_EQ(executor->advance(), Progress::Error);
  EXPECT_EQ(executor->status().message(), "rank 0, step 7, round[0] fc@6: it broke");
}

TEST_F(ExecutorTest, EventsHaveTheSlotsOfTheirRows) {
  program.entries = {{"round", {instruction("fc", Queue::Compute)}}};
  program.timetable = {{0, 3}, {0, 5}};
  prepare();
  executor->record(true);
  executor->startStep(0);
  executor->advance();
  complete({"fc@3"});
  EXPECT_EQ(complete({"fc@5"}), Progress::Done);
  ASSERT_EQ(executor->events().size(), 2u);
  EXPECT_EQ(executor->events()[0].slot, 3);
  EXPECT_EQ(executor->events()[1].slot, 5);
}

TEST_F(ExecutorTest, AStepBehindAnotherWaitsForNothingOfIt) {
  program.entries = {{"round",
                      {instruction("use", Queue::Compute, {}, {{0, 1}}),
                       instruction("store", Queue::CopyOut, {0})}}};
  program.timetable = {{0, 0}, {0, 1}};
  begin();
  complete({"use@0"});
  complete({"store@0"});
  complete({"use@1"});
  ASSERT_EQ(complete({"store@1"}), Progress::Done);
  started = {};
  executor->startStep(1);
  executor->advance();
  EXPECT_EQ(started.names, (Names{"use@0"}));
}

/// Runs steps until the second, which is recorded, is complete.
TEST_F(ExecutorTest, RowsOfACapturedStepWaitForWhatTheyAwaitOnly) {
  program.entries = {{"head", {instruction("load", Queue::CopyIn)}},
                     {"round",
                      {instruction("use", Queue::Compute, {}, {{0, 0}, {1, 1}}),
                       instruction("store", Queue::CopyOut, {0})}}};
  program.timetable = {{0, 0}, {1, 0}, {1, 1}};
  prepare(/*orders=*/true);
  ASSERT_TRUE(executor->captureSteps().isOk());
  executor->startStep(0);
  advance();
  ASSERT_EQ(complete({"load@0", "use@0", "store@0", "use@1", "store@1"}), Progress::Done);
  executor->startStep(1);
  ASSERT_EQ(executor->advance(), Progress::Done) << executor->status().message();
  EXPECT_EQ(started.names, (Names{"load@0", "use@0", "store@0", "use@1", "store@1"}));
  EXPECT_EQ(started.after["use@0"], (Names{"load@0"}));
  EXPECT_EQ(started.after["store@0"], (Names{"use@0"}));
  // Of its own queue the one before, of the head and of its entry's last run what it awaits.
  EXPECT_EQ(started.after["use@1"], (Names{"load@0", "use@0", "store@0"}));
  EXPECT_EQ(started.after["store@1"], (Names{"store@0", "use@1"}));
}

TEST_F(ExecutorTest, WhatAnEvaluationLeavesOutHandsOnWhatItWouldHaveComeAfter) {
  Instruction load = instruction("load", Queue::CopyIn), use = instruction("use", Queue::Compute);
  load.evaluated = use.evaluated = true;
  use.awaits = {{1, 0}};
  program.entries = {{"head", {load}},
                     {"round", {instruction("left out", Queue::CopyOut, {}, {{0, 0}})}},
                     {"tail", {use}}};
  program.timetable = {{0, 0}, {1, 0}, {2, 0}};
  prepare(/*orders=*/true);
  ASSERT_TRUE(executor->captureSteps().isOk());
  executor->startStep(0, StepKind::Evaluation);
  executor->advance();
  complete({"load@0"});
  ASSERT_EQ(complete({"use@0"}), Progress::Done);
  executor->startStep(1, StepKind::Evaluation);
  ASSERT_EQ(executor->advance(), Progress::Done) << executor->status().message();
  EXPECT_EQ(started.after["use@0"], (Names{"load@0"}));
}

} // namespace
