// SPDX-License-Identifier: Apache-2.0
#include "SideBySide.h"

#include <gtest/gtest.h>

using namespace mlir::autopar;

namespace {

TEST(Meeting, OfTwoWhoAreBothThere) {
  Meeting meeting;
  EXPECT_TRUE(meeting.offer());
  EXPECT_TRUE(meeting.join());
}

TEST(Meeting, WhoLeftDoesNotCome) {
  Meeting meeting;
  EXPECT_FALSE(meeting.join());
  EXPECT_FALSE(meeting.offer());
}

} // namespace
