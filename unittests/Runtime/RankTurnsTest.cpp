// SPDX-License-Identifier: Apache-2.0
// Which rank a worker drives next.
#include "../../lib/Runtime/core/RankTurns.h"

#include <gtest/gtest.h>

using namespace autopar::runtime;

namespace {

TEST(RankTurns, AWorkerBeginsWithTheRankOfItsNumber) {
  RankTurns turns(4, 2);
  EXPECT_EQ(turns.first(0).rank, 0);
  EXPECT_EQ(turns.first(1).rank, 1);
  EXPECT_FALSE(turns.first(1).hasBegun);
  EXPECT_EQ(turns.waiting(), 2);
}

TEST(RankTurns, ARankThatWaitsMakesRoomForTheOneThatWaitedLongest) {
  RankTurns turns(3, 1);
  RankTurns::Turn turn = turns.first(0);
  for (int32_t expected : {1, 2, 0, 1}) {
    turn.hasBegun = true;
    turn = turns.next(turn);
    EXPECT_EQ(turn.rank, expected);
  }
  EXPECT_TRUE(turn.hasBegun);
}

TEST(RankTurns, WithAWorkerForEveryRankNobodyChanges) {
  RankTurns turns(2, 2);
  EXPECT_EQ(turns.next({0, true}).rank, 0);
  EXPECT_EQ(turns.next({1, true}).rank, 1);
}

TEST(RankTurns, AWorkerIsDoneWhenOthersHaveAllThatAreLeft) {
  RankTurns turns(3, 2);
  EXPECT_EQ(turns.nextAfterEnd().rank, 2);
  EXPECT_EQ(turns.nextAfterEnd().rank, RankTurns::kNone);
}

} // namespace
