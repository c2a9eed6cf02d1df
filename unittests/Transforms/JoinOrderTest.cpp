// SPDX-License-Identifier: Apache-2.0
#include "autopar/Transforms/JoinOrder.h"

#include <gtest/gtest.h>

using namespace mlir::autopar;

namespace {

int64_t asked = 0; ///< how often a group was asked whether a launch fits

/// Launches that are never joined.
struct Unlike {
  struct Candidate {
    bool isUpdate = false;
  };
  explicit Unlike(const Candidate &) {}
  bool fits(const Candidate &) const {
    ++asked;
    return false;
  }
  void add(const Candidate &) {}
  static bool mayRunAt(const Candidate &, int64_t) { return true; }
  bool mayWaitUntil(int64_t) const { return true; }
  llvm::SmallDenseSet<const void *> reads() const { return {}; }
  llvm::SmallDenseSet<const void *> writes() const { return {}; }
};

TEST(JoinOrder, ProgramsOfManyUnlikeLaunchesTakeNoTimePerPair) {
  constexpr int64_t kLaunches = 5000;
  JoinOrder<Unlike> order;
  Unlike::Candidate candidate;
  for (int64_t i = 0; i < kLaunches; ++i)
    order.visit({}, {}, /*isOnOtherQueue=*/false, &candidate);
  EXPECT_EQ(order.take().size(), static_cast<size_t>(kLaunches));
  EXPECT_LE(asked, kLaunches * kMostHeldAgainst);
}

} // namespace
