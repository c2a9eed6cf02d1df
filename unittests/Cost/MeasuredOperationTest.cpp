// SPDX-License-Identifier: Apache-2.0
// Times between the points of a grid, beyond it, and where nobody measured.
#include "autopar/Cost/MeasuredOperation.h"
#include "autopar/Cost/CostModel.h"
#include "autopar/Cost/ProfileDatabase.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace autopar {
namespace {

/// Microseconds of rows x columns: 1, 4, 10 for 16 columns and 2, 8, 20 for 64.
MeasuredOperation product() {
  return {"product", {{"rows", {8, 32, 128}, 4}, {"columns", {16, 64}, 2}}, {1, 2, 4, 8, 10, 20}};
}

TEST(MeasuredOperation, PointsOfTheGridAreWhatWasMeasured) {
  EXPECT_DOUBLE_EQ(*product().timeUs({8, 16}), 1);
  EXPECT_DOUBLE_EQ(*product().timeUs({32, 64}), 8);
  EXPECT_DOUBLE_EQ(*product().timeUs({128, 64}), 20);
}

TEST(MeasuredOperation, IsLinearBetweenPoints) {
  EXPECT_NEAR(*product().timeUs({16, 16}), 2, 1e-9);
  EXPECT_NEAR(*product().timeUs({16, 32}), 2 + 2.0 / 3, 1e-9);
}

TEST(MeasuredOperation, OverheadBytesAndFlopsAreExactBetweenPoints) {
  auto us = [](double rows, double columns) { return 5 + rows + 2 * columns + rows * columns; };
  MeasuredOperation sums{"product", {{"rows", {1, 100}, 1}, {"columns", {10, 1000}, 1}}, {}};
  for (double rows : sums.extents[0].values)
    for (double columns : sums.extents[1].values)
      sums.us.push_back(us(rows, columns));
  EXPECT_NEAR(*sums.timeUs({17, 300}), us(17, 300), 1e-6);
}

TEST(MeasuredOperation, BelowTheSmallestItsTimeHolds) {
  EXPECT_DOUBLE_EQ(*product().timeUs({1, 16}), 1);
}

TEST(MeasuredOperation, GrowsInProportionUpToItsReach) {
  EXPECT_NEAR(*product().timeUs({256, 16}), 20, 1e-9);
  EXPECT_NEAR(*product().timeUs({512, 128}), 20 * 4 * 2, 1e-9);
  EXPECT_FALSE(product().timeUs({513, 16}));
  EXPECT_FALSE(product().timeUs({8, 129}));
  EXPECT_FALSE(product().timeUs({8})) << "another number of extents";
}

TEST(MeasuredOperation, DipsAreRaised) {
  MeasuredOperation dipped = product();
  dipped.us = {3, 2, 1, 8, 10, 7};
  dipped.makeMonotone();
  EXPECT_EQ(dipped.us, (std::vector<double>{3, 3, 3, 8, 10, 10}));
}

TEST(ProfileKey, IsAClassAndExtents) {
  auto key = ProfileKey::parse("product/f32/packed:1x8x16");
  ASSERT_TRUE(key);
  EXPECT_EQ(key->kind, "product/f32/packed");
  EXPECT_EQ(key->extents, (std::vector<double>{1, 8, 16}));
  for (const char *wrong : {"", "product", "product:", "product:3x", "product:3y4"})
    EXPECT_FALSE(ProfileKey::parse(wrong)) << wrong;
}

class Device : public testing::Test {
protected:
  DeviceType device;
  Device() {
    device.peakFlopsPerSecond[DataType::F32] = 1e9;
    device.memoryBytesPerSecond = 1e9;
    device.measured.list = {product()};
  }
  Result<double> timeUs(const char *key) {
    return instructionTimeUs(key, 1e6, 0, DataType::F32, device, Work::Product);
  }
};

TEST_F(Device, TakesWhatWasMeasured) {
  EXPECT_DOUBLE_EQ(*timeUs("product:32x64"), 8);
  EXPECT_DOUBLE_EQ(*timeUs(""), 1000) << "what has no key is estimated";
}

TEST_F(Device, HolesAreNamed) {
  EXPECT_EQ(
      timeUs("softmax:3").status().message(),
      "the profile database has no time for \"softmax:3\": nobody measured operations of this "
      "kind; measure it, or allow formulas with --profile-fallback analytical");
  EXPECT_NE(timeUs("product:9999x16")
                .status()
                .message()
                .find("\"product:9999x16\": its sizes lie outside of what was measured"),
            std::string::npos);
}

TEST_F(Device, HolesAreEstimatedWhereThatIsAllowed) {
  device.measured.estimatesOthers = true;
  EXPECT_DOUBLE_EQ(*timeUs("softmax:3"), 1000);
  EXPECT_DOUBLE_EQ(*timeUs("product:9999x16"), 1000);
  EXPECT_DOUBLE_EQ(*timeUs("product:32x64"), 8);
}

std::string databaseWith(const nlohmann::json &instructions) {
  return nlohmann::json{{"kind", "autopar.profile"}, {"version", 1}, {"instructions", instructions}}
      .dump();
}

TEST(InstructionTimes, AreReadFromADatabaseWithoutOperations) {
  auto database = ProfileDatabase::fromJson(databaseWith(toJson(std::vector{product()})),
                                            ProfileFallback::None);
  ASSERT_TRUE(database) << database.status().message();
  EXPECT_EQ(database->instructions, std::vector{product()});
  Cluster cluster = Cluster::cpuRanks(2);
  ASSERT_TRUE(believeProfile(cluster, *database, ProfileFallback::None).isOk());
  EXPECT_FALSE(cluster.deviceTypes[0].measured.estimatesOthers);
  auto again = Cluster::fromJson(cluster.toJson());
  ASSERT_TRUE(again) << again.status().message();
  EXPECT_EQ(*again, cluster);
}

TEST(InstructionTimes, AreNotInAFileWithOperations) {
  nlohmann::json both = nlohmann::json::parse(databaseWith(toJson(std::vector{product()})));
  both["ops"] = nlohmann::json::array();
  EXPECT_EQ(ProfileDatabase::fromJson(both.dump(), ProfileFallback::None).status().message(),
            "instructions: a file holds operations (ops) or instructions, not both");
}

TEST(InstructionTimes, WrongFilesAreRefusedWithTheirPlace) {
  auto messageOf = [](auto change) {
    nlohmann::json one = toJson(std::vector{product()})[0];
    change(one);
    return ProfileDatabase::fromJson(databaseWith(nlohmann::json::array({one})),
                                     ProfileFallback::None)
        .status()
        .message();
  };
  EXPECT_EQ(messageOf([](auto &one) { one["us"].erase(5); }),
            "instructions[0].us: no time for \"product\" with rows 128, columns 64; the grid has 6 "
            "points");
  EXPECT_EQ(messageOf([](auto &one) { one["us"][4] = 3; }),
            "instructions[0].us[4] (rows 128, columns 16): is below that of fewer rows; a search "
            "would be misled by the dip: measure again");
  EXPECT_EQ(messageOf([](auto &one) { one["us"][0] = -1; }),
            "instructions[0].us[0]: expected microseconds above 0");
  EXPECT_EQ(messageOf([](auto &one) { one["extents"][0]["values"][1] = 8; }),
            "instructions[0].extents[0].values[1]: expected more than the value before");
}

} // namespace
} // namespace autopar
