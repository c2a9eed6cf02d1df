// SPDX-License-Identifier: Apache-2.0
// Queues, dependencies and deadlocks in virtual time.
#include "autopar/VirtualTime/EventEngine.h"

#include <gtest/gtest.h>

namespace autopar {
namespace {

VirtualTask task(std::string name, std::vector<int32_t> queues, double us,
                 std::vector<int32_t> after = {}) {
  return {std::move(name), std::move(queues), us, std::move(after)};
}

TEST(EventEngine, QueuesRunInOrderAndSideBySide) {
  VirtualProgram program;
  program.queues = {"compute", "link"};
  program.tasks = {task("a", {0}, 10), task("b", {0}, 5), task("send", {1}, 20, {0}),
                   task("c", {0}, 1, {2})};
  Result<VirtualRun> run = runVirtualTime(program);
  ASSERT_TRUE(run.isOk());
  EXPECT_DOUBLE_EQ(run->makespanUs, 31);
  EXPECT_DOUBLE_EQ(run->tasks[1].startUs, 10);
  EXPECT_DOUBLE_EQ(run->tasks[2].startUs, 10);
  EXPECT_DOUBLE_EQ(run->tasks[3].startUs, 30);
  EXPECT_EQ(run->timelines[0], (std::vector<int32_t>{0, 1, 3}));
}

TEST(EventEngine, OneForwardOneBackwardPipeline) {
  // Two stages, three micro-batches, forward 1 and backward 2: bubble of one traversal.
  VirtualProgram program;
  program.queues = {"s0", "s1"};
  // The stages' orders differ; a later-listed task may be waited for.
  program.tasks = {task("f00", {0}, 1),      task("f01", {0}, 1),      task("b00", {0}, 2, {6}),
                   task("f02", {0}, 1),      task("b01", {0}, 2, {8}), task("f10", {1}, 1, {0}),
                   task("b10", {1}, 2, {}),  task("f11", {1}, 1, {1}), task("b11", {1}, 2, {}),
                   task("f12", {1}, 1, {3}), task("b12", {1}, 2, {}),  task("b02", {0}, 2, {10})};
  Result<VirtualRun> run = runVirtualTime(program);
  ASSERT_TRUE(run.isOk());
  EXPECT_DOUBLE_EQ(run->makespanUs, 3 * 3 + 1 + 2);
}

TEST(EventEngine, SharedQueuesBlockBoth) {
  VirtualProgram program;
  program.queues = {"a", "b"};
  program.tasks = {task("x", {0}, 3), task("both", {0, 1}, 2), task("y", {1}, 1)};
  Result<VirtualRun> run = runVirtualTime(program);
  ASSERT_TRUE(run.isOk());
  EXPECT_DOUBLE_EQ(run->tasks[1].startUs, 3);
  EXPECT_DOUBLE_EQ(run->tasks[2].startUs, 5);
}

TEST(EventEngine, AMessageInterruptsWhatFollowsOnAQueue) {
  VirtualProgram program;
  program.queues = {"compute", "link", "other"};
  program.ports = 1;
  // The message begins at 0; what computes goes on at once and the next task is late.
  program.tasks = {task("message", {1}, 1), task("a", {0}, 5), task("b", {0}, 5), task("c", {2}, 4),
                   task("d", {2}, 1)};
  program.tasks[0].aloneUs = 10;
  program.tasks[0].path = {{{0, 1}, {0, 0}}};
  program.tasks[0].interrupts = {{0, 3}, {2, 3}};
  program.tasks[3].after = {0};
  Result<VirtualRun> run = runVirtualTime(program);
  ASSERT_TRUE(run.isOk()) << run.status().message();
  EXPECT_DOUBLE_EQ(run->tasks[0].endUs, 11) << "a message waits for nobody";
  EXPECT_DOUBLE_EQ(run->tasks[1].startUs, 3);
  EXPECT_DOUBLE_EQ(run->tasks[2].endUs, 13);
  EXPECT_DOUBLE_EQ(run->tasks[3].startUs, 11) << "a queue that is idle anyway loses nothing";
  program.tasks[0].interrupts = {{7, 3}};
  EXPECT_NE(runVirtualTime(program).status().message().find("an interruption of queue 7"),
            std::string::npos);
}

TEST(EventEngine, DeadlockNamesTheTasks) {
  VirtualProgram program;
  program.queues = {"a", "b"};
  program.tasks = {task("recv", {0}, 1, {3}), task("send", {0}, 1), task("recv2", {1}, 1, {1}),
                   task("send2", {1}, 1)};
  Result<VirtualRun> run = runVirtualTime(program);
  ASSERT_FALSE(run.isOk());
  EXPECT_NE(run.status().message().find("deadlock"), std::string::npos);
  EXPECT_NE(run.status().message().find("'recv2'"), std::string::npos);
}

TEST(EventEngine, BadPrograms) {
  VirtualProgram program;
  program.queues = {"q"};
  auto errorOf = [&](VirtualTask one) {
    program.tasks = {std::move(one)};
    return runVirtualTime(program).status().message();
  };
  EXPECT_EQ(errorOf(task("a", {1}, 1)), "task 0 'a': queue 1 does not exist");
  EXPECT_EQ(errorOf(task("a", {0}, -1)), "task 0 'a': duration is negative or infinite");
  EXPECT_EQ(errorOf(task("a", {0}, 1, {5})), "task 0 'a': waits for task 5, which does not exist");
  EXPECT_EQ(errorOf(task("a", {}, 1)), "task 0 'a': is on no queue");
}

} // namespace
} // namespace autopar
