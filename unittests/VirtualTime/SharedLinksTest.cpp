// SPDX-License-Identifier: Apache-2.0
// Messages that are under way at the same time, on times that can be worked out by hand.
#include "autopar/VirtualTime/SharedLinks.h"
#include "autopar/VirtualTime/EventEngine.h"

#include <gtest/gtest.h>

#include <cmath>

namespace autopar {
namespace {

using Flows = std::vector<int32_t>;

/// From one of four devices to another: ports 0 to 3 lead out, 4 to 7 in.
SharedLinks::Path path(int32_t from, int32_t to, double sends = 1, double receives = 1) {
  return {{{from, sends}, {4 + to, receives}}};
}

TEST(SharedLinks, AMessageAloneHasAllOfItsLink) {
  SharedLinks links(8);
  EXPECT_TRUE(std::isinf(links.nextEnd()));
  int32_t flow = links.begin(10, 5, path(0, 1));
  EXPECT_EQ(links.nextEnd(), 15);
  EXPECT_EQ(links.finish(14), Flows{});
  EXPECT_EQ(links.finish(15), Flows{flow});
  EXPECT_TRUE(std::isinf(links.nextEnd()));
  // One behind the other is nothing shared.
  links.begin(15, 5, path(0, 2));
  EXPECT_EQ(links.nextEnd(), 20);
}

TEST(SharedLinks, ThoseOfASenderShareIt) {
  SharedLinks links(8);
  int32_t first = links.begin(0, 10, path(0, 1));
  int32_t second = links.begin(4, 10, path(0, 2)); // 6 of the first are left: they take 12
  EXPECT_EQ(links.nextEnd(), 16);
  EXPECT_EQ(links.finish(16), Flows{first});
  EXPECT_EQ(links.nextEnd(), 20); // the other 4 of the second at full rate
  EXPECT_EQ(links.finish(100), Flows{second});
}

TEST(SharedLinks, ThoseOfAReceiverShareItAndDirectionsAreApart) {
  SharedLinks links(8);
  int32_t from0 = links.begin(0, 10, path(0, 3)), from1 = links.begin(0, 10, path(1, 3)),
          back = links.begin(0, 10, path(3, 0));
  EXPECT_EQ(links.nextEnd(), 10);
  EXPECT_EQ(links.finish(10), Flows{back});
  EXPECT_EQ(links.nextEnd(), 20);
  EXPECT_EQ(links.finish(20), (Flows{from0, from1}));
}

TEST(SharedLinks, SeveralKnownAsOneTakeAsLongAsEachByItself) {
  SharedLinks each(8), all(8);
  for (int32_t to : {1, 2, 3})
    each.begin(0, 7, path(0, to));
  all.begin(0, 7, path(0, 1, 3));
  EXPECT_EQ(each.nextEnd(), 21);
  EXPECT_EQ(all.nextEnd(), 21);
  // A fourth beside them.
  each.begin(3, 7, path(0, 1));
  all.begin(3, 7, path(0, 2));
  EXPECT_EQ(each.nextEnd(), 3 + 4 * 6);
  EXPECT_EQ(all.nextEnd(), 3 + 4 * 6);
}

TEST(SharedLinks, WhatEndsBetweenTwoLooksIsSeenInOrder) {
  SharedLinks links(8);
  int32_t longer = links.begin(0, 10, path(0, 1)), shorter = links.begin(0, 2, path(0, 2));
  EXPECT_EQ(links.finish(100), (Flows{shorter, longer}));
  EXPECT_TRUE(std::isinf(links.nextEnd()));
}

VirtualTask message(std::string name, int32_t queue, double latency, double alone,
                    const SharedLinks::Path &path, std::vector<int32_t> after = {}) {
  return {std::move(name), {queue}, latency, std::move(after), alone, path};
}

TEST(EventEngine, MessagesShareLinksOnlyWhileTheyAreUnderWay) {
  VirtualProgram program;
  program.queues = {"0 to 1", "0 to 2", "compute"};
  program.ports = 8;
  program.tasks = {message("a", 0, 1, 10, path(0, 1)),
                   message("b", 1, 1, 10, path(0, 2)),
                   message("c", 0, 1, 10, path(0, 1)),
                   {"computes", {2}, 5, {2}},
                   message("d", 1, 1, 10, path(0, 2), {3})};
  Result<VirtualRun> run = runVirtualTime(program);
  ASSERT_TRUE(run.isOk()) << run.status().message();
  EXPECT_DOUBLE_EQ(run->tasks[0].endUs, 21); // latency is not shared
  EXPECT_DOUBLE_EQ(run->tasks[1].endUs, 21);
  EXPECT_DOUBLE_EQ(run->tasks[2].endUs, 32);
  EXPECT_DOUBLE_EQ(run->tasks[4].startUs, 37);
  EXPECT_DOUBLE_EQ(run->makespanUs, 48);
  program.ports = 5;
  EXPECT_EQ(runVirtualTime(program).status().message(), "task 0 'a': port 5 does not exist");
}

} // namespace
} // namespace autopar
