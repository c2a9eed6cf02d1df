// SPDX-License-Identifier: Apache-2.0
// Layers are told once; what numbers something else keeps its number.
#include "autopar/Report/FoldedNames.h"

#include <gtest/gtest.h>

namespace autopar {
namespace {

TEST(FoldedNames, NumbersThatStandAlone) {
  EXPECT_EQ(foldedName("transformer.h.11.mlp.c_fc.weight"), "transformer.h.*.mlp.c_fc.weight");
  EXPECT_EQ(foldedName("/h.0/ln_1/Add_2"), "/h.*/ln_1/Add_2");
  EXPECT_EQ(foldedName("/h.0/Gemm/vjp.1/read"), "/h.*/Gemm/vjp.1/read");
  EXPECT_EQ(foldedName("w/update/binary.10"), "w/update/binary.10");
  EXPECT_EQ(foldedName("w/update/binary.10", true), "w/update/binary.*");
  EXPECT_EQ(foldedName("7"), "7");
}

TEST(FoldedNames, ShardingsInWords) {
  EXPECT_EQ(shardingWords({{{"a"}, {"b", "c"}}, {}, ""}), "rows over a, columns over b × c");
  EXPECT_EQ(shardingWords({{{}, {}, {"a"}}, {"b"}, "sum"}),
            "dimension 2 over a; a sum over b is left");
  EXPECT_EQ(shardingWords({{{"a"}}, {}, ""}), "split over a");
  EXPECT_EQ(shardingWords({{}, {}, ""}), "whole");
}

} // namespace
} // namespace autopar
