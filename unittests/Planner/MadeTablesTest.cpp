// SPDX-License-Identifier: Apache-2.0
// Tables that are made of tables: what they hold, whoever asks from which end, and that the same
// question is not answered by a second table.
#include "MadeTables.h"

#include "gtest/gtest.h"

#include <random>

using namespace autopar;
using namespace autopar::planner;

namespace {

/// 2x3.
MatrixRef someMatrix() { return makeMatrix(2, 3, {1, 2, 3, 4, 5, 6}); }

TEST(MadeTables, PicksOwnStrategiesFromEitherEnd) {
  MadeTables tables;
  MatrixRef rows = tables.pick({someMatrix(), true}, {1, 0, 1}, true);
  EXPECT_EQ(rows->rows, 3);
  EXPECT_EQ(rows->byRow, (std::vector<double>{4, 5, 6, 1, 2, 3, 4, 5, 6}));
  MatrixRef columns = tables.pick({someMatrix(), false}, {2}, false);
  EXPECT_EQ(columns->columns, 1);
  EXPECT_EQ(columns->byColumn, (std::vector<double>{3, 6}));
  // Who was the second end becomes the first.
  MatrixRef turned = tables.pick({someMatrix(), false}, {2, 0}, true);
  EXPECT_EQ(turned->rows, 2);
  EXPECT_EQ(turned->byRow, (std::vector<double>{3, 6, 1, 4}));
  EXPECT_EQ(turned->byColumn, (std::vector<double>{3, 1, 6, 4}));
}

TEST(MadeTables, SumsStayForbidden) {
  MadeTables tables;
  MatrixRef a = makeMatrix(1, 2, {kForbidden, 1}), b = makeMatrix(1, 2, {kForbidden, 2});
  EXPECT_EQ(tables.sum(a, b)->byRow, (std::vector<double>{kForbidden, 3}));
}

TEST(MadeTables, OnlyPartnersAreThoseWithoutAnother) {
  MadeTables tables;
  MatrixRef matrix = makeMatrix(2, 2, {kForbidden, 1, kForbidden, kForbidden});
  IndexList only = tables.onlyPartners({matrix, true});
  ASSERT_TRUE(only);
  EXPECT_EQ(*only, (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(*tables.haveLegalPartners({matrix, true}), (std::vector<int32_t>{1, 0}));
  EXPECT_EQ(*tables.haveLegalPartners({matrix, false}), (std::vector<int32_t>{0, 1}));
  EXPECT_FALSE(tables.onlyPartners({someMatrix(), true}));
}

TEST(MadeTables, LeastIsOverOwnStrategiesForEveryChoiceOfTheOthers) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> draw(0, 10);
  auto drawn = [&](size_t count) {
    std::vector<double> values(count);
    for (double &value : values)
      value = draw(random);
    return values;
  };
  MadeTables tables;
  std::vector<double> cost = drawn(5);
  // 41 columns: blocks of 32 and 8 and one left.
  Side outer{makeMatrix(3, 5, drawn(15)), false}, inner{makeMatrix(5, 41, drawn(205)), true};
  MadeTables::Least least = tables.least(cost, {outer, inner});
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 41; ++j) {
      size_t best = 0;
      auto costOf = [&](size_t own) { return cost[own] + outer.row(own)[i] + inner.row(own)[j]; };
      for (size_t own = 1; own < cost.size(); ++own)
        if (costOf(own) < costOf(best))
          best = own;
      EXPECT_EQ((*least.best)[i * 41 + j], static_cast<int32_t>(best));
      EXPECT_EQ(least.costs->byRow[i * 41 + j], costOf(best));
    }
  EXPECT_EQ(tables.least({3, 2}, {}).costs->byRow, std::vector<double>{2});
}

TEST(MadeTables, DominatedStrategiesHoldMoreOrCostMore) {
  MadeTables tables;
  Side side{makeMatrix(3, 2, {1, 1, 2, 2, 1, 1}), true};
  EXPECT_EQ(*tables.undominated({0, 0, 0}, {}, {side}), std::vector<int32_t>{2});
  NodeMemory memory{{{0, 1}}, {5, 0, 6}};
  EXPECT_EQ(*tables.undominated({0, 0, 0}, memory, {side}), (std::vector<int32_t>{0, 1}));
}

TEST(MadeTables, TheSameQuestionHasOneAnswer) {
  MadeTables tables;
  MatrixRef matrix = someMatrix(), equal = someMatrix();
  MatrixRef first = tables.pick({matrix, true}, {1}, true);
  EXPECT_EQ(tables.pick({matrix, true}, {1}, true), first);
  EXPECT_NE(tables.pick({matrix, true}, {0}, true), first);
  EXPECT_NE(tables.pick({matrix, true}, {1}, false), first);
  EXPECT_NE(tables.pick({equal, true}, {1}, true), first); // by who it is
  EXPECT_EQ(tables.least({1, 2}, {{matrix, true}}).best,
            tables.least({1, 2}, {{matrix, true}}).best);
  EXPECT_NE(tables.least({1, 3}, {{matrix, true}}).best,
            tables.least({1, 2}, {{matrix, true}}).best);
}

TEST(MadeTables, WhatIsForgottenIsMadeAgain) {
  MadeTables tables;
  MatrixRef matrix = makeMatrix(1, 1 << 20, std::vector<double>(1 << 20, 1));
  MatrixRef first = tables.pick({matrix, true}, {0}, true);
  for (int32_t count = 2; count < 6; ++count)
    tables.pick({matrix, true}, std::vector<int32_t>(count, 0), true);
  MatrixRef again = tables.pick({matrix, true}, {0}, true);
  EXPECT_NE(again, first);
  EXPECT_EQ(again->byRow, first->byRow);
}

} // namespace
