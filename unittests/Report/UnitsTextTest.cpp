// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/UnitsText.h"

#include <gtest/gtest.h>

namespace autopar {
namespace {

TEST(UnitsText, NumbersHaveThreeDigits) {
  EXPECT_EQ(timeText(1156028.3), "1.16 s");
  EXPECT_EQ(timeText(32123), "32.1 ms");
  EXPECT_EQ(timeText(840.4), "840 us");
  EXPECT_EQ(bytesText(512), "512 B");
  EXPECT_EQ(bytesText(1536), "1.50 KiB");
  EXPECT_EQ(exactBytesText(81711752806), "76.1 GiB (81711752806 bytes)");
  EXPECT_EQ(percentText(0.0041), "0.4 %");
  EXPECT_EQ(percentText(0.123), "12 %");
}

} // namespace
} // namespace autopar
