// SPDX-License-Identifier: Apache-2.0
// Measured times of collectives give back the link that they came from.
#include "autopar/Cost/LinkFit.h"

#include <gtest/gtest.h>

#include <vector>

namespace autopar {
namespace {

/// Times by the cost model, off by up to `noise` in turn up and down.
std::vector<TimedCollective> timesOn(const Link &link, int64_t ranks, double noise) {
  std::vector<TimedCollective> timed;
  for (CollectiveKind kind : {CollectiveKind::Permute, CollectiveKind::AllReduce})
    for (double bytes = 1024; bytes <= 64 << 20; bytes *= 4) {
      TimedCollective one{kind, bytes, ranks, 0};
      one.us = predictedUs(one, link) * (1 + (timed.size() % 2 ? noise : -noise));
      timed.push_back(one);
    }
  return timed;
}

TEST(LinkFit, ExactTimesGiveTheLinkBack) {
  for (int64_t ranks : {2, 3, 8}) {
    auto fit = fitLink(timesOn({7.5, 3e9}, ranks, 0));
    ASSERT_TRUE(fit.isOk()) << fit.status().message();
    EXPECT_NEAR(fit->link.latencyUs, 7.5, 1e-6);
    EXPECT_NEAR(fit->link.bytesPerSecond, 3e9, 1);
    EXPECT_LT(fit->meanError, 1e-9);
  }
}

TEST(LinkFit, SmallAndLargeSizesCountAlike) {
  // The largest time is 2000 times the smallest; the latency is found all the same.
  auto fit = fitLink(timesOn({10, 4e9}, 2, 0.1));
  ASSERT_TRUE(fit.isOk()) << fit.status().message();
  EXPECT_NEAR(fit->link.latencyUs, 10, 1);
  EXPECT_NEAR(fit->link.bytesPerSecond, 4e9, 4e8);
  EXPECT_GT(fit->meanError, 0.05);
  EXPECT_LT(fit->meanError, 0.15);
}

TEST(LinkFit, LatencyIsNeverNegative) {
  // Small messages faster than bandwidth alone would have them.
  std::vector<TimedCollective> timed = {{CollectiveKind::Permute, 1e3, 2, 0.1},
                                        {CollectiveKind::Permute, 1e6, 2, 1000},
                                        {CollectiveKind::Permute, 1e7, 2, 10000}};
  auto fit = fitLink(timed);
  ASSERT_TRUE(fit.isOk()) << fit.status().message();
  EXPECT_EQ(fit->link.latencyUs, 0);
  EXPECT_GT(fit->link.bytesPerSecond, 0);
}

TEST(LinkFit, Refusals) {
  auto why = [](std::vector<TimedCollective> timed) {
    auto fit = fitLink(timed);
    return fit.isOk() ? std::string() : fit.status().message();
  };
  using enum CollectiveKind;
  const char *unclear =
      "the sizes do not tell latency from bandwidth; time at least two that differ";
  EXPECT_EQ(why({}), unclear);
  EXPECT_EQ(why({{Permute, 1e3, 2, 5}, {Permute, 1e3, 2, 6}}), unclear);
  EXPECT_EQ(why({{Permute, 1e3, 2, 5}, {Permute, 1e6, 2, 0}}),
            "permute of 1000000 bytes among 2 ranks took 0.000000 us, expected above 0");
  EXPECT_EQ(why({{Permute, 1e3, 1, 5}, {Permute, 1e6, 1, 9}}),
            "permute of 1000 bytes among 1 ranks: expected at least 2 ranks and 0 bytes");
  EXPECT_EQ(why({{AllToAll, 1e3, 2, 5}, {AllToAll, 1e6, 2, 9}}),
            "all_to_all of 1000 bytes among 2 ranks is the cheaper of two ways; fit all_reduce, "
            "all_gather, reduce_scatter or permute");
  EXPECT_EQ(why({{Permute, 1e3, 2, 900}, {Permute, 1e6, 2, 1}}),
            "the times do not grow with the bytes");
}

} // namespace
} // namespace autopar
