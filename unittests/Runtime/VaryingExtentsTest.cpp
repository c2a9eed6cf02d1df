// SPDX-License-Identifier: Apache-2.0
// Extents that what a step is given decides.
#include "VaryingExtents.h"

#include "gtest/gtest.h"

using namespace autopar;
using namespace autopar::runtime;

namespace {

TensorSpec tensor(const std::string &name, std::vector<int64_t> shape,
                  std::vector<artifact::VaryingDim> varying) {
  TensorSpec spec{name, DataType::F32, std::move(shape)};
  spec.varying = std::move(varying);
  return spec;
}

const TensorSpec kIds = tensor("ids", {4, 9}, {{0, "batch", 1}, {1, "seq", 2}});
const TensorSpec kMask = tensor("mask", {9, 9}, {{0, "seq", 2}, {1, "seq", 2}});

TEST(VaryingExtents, AShapeSaysWhatIsMissing) {
  EXPECT_EQ(missingIn(kIds, {4, 9}), (Missing{{"batch", 0}, {"seq", 0}}));
  EXPECT_EQ(missingIn(kIds, {1, 5}), (Missing{{"batch", 3}, {"seq", 4}}));
  EXPECT_EQ(leastShape(kIds), (std::vector<int64_t>{1, 2}));
}

TEST(VaryingExtents, ShapesOutsideOfTheRangesAreNone) {
  for (const std::vector<int64_t> &shape :
       {std::vector<int64_t>{5, 9}, {0, 9}, {4, 1}, {4, 10}, {4}, {4, 9, 1}})
    EXPECT_FALSE(missingIn(kIds, shape).has_value());
  EXPECT_TRUE(missingIn(kMask, {7, 7}).has_value());
  EXPECT_FALSE(missingIn(kMask, {7, 8}).has_value());
}

TEST(VaryingExtents, ShapesGoInSteps) {
  const TensorSpec image =
      tensor("image", {2, 640, 96}, {{1, "height", 64, 32}, {2, "height", 9, 3}});
  EXPECT_EQ(stepShape(image), (std::vector<int64_t>{1, 32, 3}));
  EXPECT_EQ(missingIn(image, {2, 576, 90}), (Missing{{"height", 2}}));
  EXPECT_FALSE(missingIn(image, {2, 600, 90}).has_value());
  EXPECT_FALSE(missingIn(image, {2, 576, 93}).has_value());
  MissingPositions missing;
  missing.set(image, *missingIn(image, {2, 576, 90}));
  ASSERT_TRUE(missing.agree({image}).isOk());
  EXPECT_EQ(missing.shapeOf(tensor("y", {20, 5}, {{0, "height", 2, 1}})),
            (std::vector<int64_t>{18, 5}));
}

TEST(VaryingExtents, InputsAgree) {
  MissingPositions missing;
  missing.set(kIds, *missingIn(kIds, {2, 6}));
  missing.set(kMask, *missingIn(kMask, {6, 6}));
  ASSERT_TRUE(missing.agree({kIds, kMask}).isOk());
  EXPECT_EQ(missing.of("seq"), 3);
  EXPECT_EQ(missing.shapeOf(tensor("y", {4, 11, 5}, {{0, "batch", 1}, {1, "seq", 4}})),
            (std::vector<int64_t>{2, 8, 5}));
}

TEST(VaryingExtents, InputsThatDisagreeAreNamed) {
  MissingPositions missing;
  missing.set(kIds, *missingIn(kIds, {2, 6}));
  missing.set(kMask, *missingIn(kMask, {7, 7}));
  EXPECT_EQ(missing.agree({kIds, kMask}).message(),
            "inputs disagree about 'seq': mask has 7 positions in dimension 0, where others ask "
            "for 6");
}

} // namespace
