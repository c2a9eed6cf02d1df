// SPDX-License-Identifier: Apache-2.0
// Cluster files, presets, and errors that name the place in the file.
#include "autopar/Cost/Cluster.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autopar/Cost/JsonFields.h"
#include "autopar/Cost/Mesh.h"

namespace autopar {
namespace {

nlohmann::json presetJson() { return nlohmann::json::parse(Cluster::preset("h100x8x4")->toJson()); }

std::string errorOf(const nlohmann::json &json) {
  Result<Cluster> cluster = Cluster::fromJson(json.dump());
  return cluster ? "" : cluster.status().message();
}

TEST(Cluster, RoundTrip) {
  for (const char *name : {"h100x8x128", "presets:h200x1", "cpux4", "a100x8x2"}) {
    Result<Cluster> cluster = Cluster::preset(name);
    ASSERT_TRUE(cluster.isOk()) << cluster.status().message();
    EXPECT_TRUE(cluster->verify().isOk()) << cluster->verify().message();
    Result<Cluster> again = Cluster::fromJson(cluster->toJson());
    ASSERT_TRUE(again.isOk()) << again.status().message();
    EXPECT_TRUE(*again == *cluster);
  }
}

TEST(Cluster, AComputeLossOfANetwork) {
  Cluster cluster = *Cluster::preset("h100x8x2");
  cluster.levels[1].link.computeLoss = 0.25;
  Result<Cluster> again = Cluster::fromJson(cluster.toJson());
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(*again, cluster);
  EXPECT_EQ(meshGroup(*again, 8, 1).computeLoss(), 0) << "inside a node";
  EXPECT_EQ(meshGroup(*again, 8, 2).computeLoss(), 0.25);
  EXPECT_EQ(meshGroup(*again, std::vector<int64_t>{0, 8}).computeLoss(), 0.25);
}

TEST(Cluster, PresetShapes) {
  Result<Cluster> cluster = Cluster::load("presets:h100x8x128");
  ASSERT_TRUE(cluster.isOk());
  EXPECT_EQ(cluster->deviceCount(), 1024);
  EXPECT_EQ(cluster->nodeOfDevice(8), 1);
  EXPECT_EQ(cluster->levelBetween(0, 7), 0);
  EXPECT_EQ(cluster->levelBetween(0, 8), 1);
  EXPECT_EQ(Cluster::cpuRanks(3).deviceCount(), 3);
}

/// docs/CostModel.md: what drivers report of such a GPU, in GiB.
TEST(Cluster, PresetsHaveTheMemoryThatTheDriverGives) {
  constexpr double kGiB = int64_t(1) << 30;
  const std::pair<const char *, double> leastReported[] = {{"v100", 31.73},  {"a100", 79.14},
                                                           {"h100", 79.10},  {"h800", 79.10},
                                                           {"h200", 139.72}, {"b200", 178.35}};
  for (auto [name, reported] : leastReported) {
    Cluster cluster = *Cluster::preset(std::string(name) + "x8");
    const DeviceType &type = cluster.deviceTypes.front();
    EXPECT_LE(double(type.memoryBytes), reported * kGiB) << name;
    EXPECT_GT(double(type.memoryBytes), (reported - 0.1) * kGiB) << name;
    EXPECT_EQ(type.memoryBytes - type.usableBytes(), int64_t(3) << 30) << name;
  }
}

TEST(Cluster, BadPresets) {
  for (const char *name : {"h100", "h100x", "h100x0", "h100x8x2x2", "z9x4", "cpux2x2", "h100x-1"}) {
    Result<Cluster> cluster = Cluster::preset(name);
    ASSERT_FALSE(cluster.isOk()) << name;
    EXPECT_EQ(cluster.status().code(), StatusCode::BadInput);
  }
}

TEST(Cluster, PresetsOfMoreDevicesThanAClusterMayHave) {
  for (const char *name : {"presets:h100x1000x1000", "cpux262145"}) {
    Status status = Cluster::preset(name).status();
    std::string devices = std::string(name) == "cpux262145" ? "262145" : "1000000";
    EXPECT_EQ(status.message(), "cluster preset '" + std::string(name) + "': nodes: have " +
                                    devices + " devices together; expected at most 262144");
  }
}

TEST(Cluster, MixedNodes) {
  nlohmann::json json = presetJson();
  nlohmann::json slow = json["device_types"][0];
  slow["name"] = "slow";
  json["device_types"].push_back(slow);
  json["nodes"].push_back({{"count", 2},
                           {"devices_per_node", 4},
                           {"device_type", "slow"},
                           {"inside_link", {{"latency_us", 9.0}, {"bytes_per_s", 1e9}}}});
  Result<Cluster> cluster = Cluster::fromJson(json.dump());
  ASSERT_TRUE(cluster.isOk()) << cluster.status().message();
  EXPECT_EQ(cluster->deviceCount(), 40);
  EXPECT_EQ(cluster->typeOfDevice(31).name, "h100");
  EXPECT_EQ(cluster->typeOfDevice(32).name, "slow");
  EXPECT_EQ(cluster->linkOfDevice(33, 0).bytesPerSecond, 1e9);
  EXPECT_EQ(cluster->nodeOfDevice(36), 5);
}

TEST(Cluster, ErrorsNameThePlace) {
  nlohmann::json json = presetJson();
  json["nodes"][0]["count"] = -1;
  EXPECT_NE(errorOf(json).find("nodes[0].count"), std::string::npos) << errorOf(json);
  json = presetJson();
  json["levels"][1].erase("bytes_per_s");
  EXPECT_NE(errorOf(json).find("levels[1].bytes_per_s: missing"), std::string::npos);
  json = presetJson();
  json["levels"][0]["bytes_per_us"] = 3;
  EXPECT_NE(errorOf(json).find("levels[0].bytes_per_us: unknown key"), std::string::npos);
  json = presetJson();
  json["levels"].erase(1);
  EXPECT_NE(errorOf(json).find("levels"), std::string::npos);
  json = presetJson();
  json["nodes"][0]["device_type"] = "none";
  EXPECT_NE(errorOf(json).find("nodes[0].device_type"), std::string::npos);
  json = presetJson();
  json["device_types"][0]["peak_flops_per_s"]["f33"] = 1;
  EXPECT_NE(errorOf(json).find("peak_flops_per_s.f33"), std::string::npos);
  json = presetJson();
  json["version"] = 2;
  EXPECT_NE(errorOf(json).find("version"), std::string::npos);
  json = presetJson();
  json["device_types"][0]["memory_bytes"] = "80 GB";
  EXPECT_NE(errorOf(json).find("device_types[0].memory_bytes"), std::string::npos);
  Result<Cluster> broken = Cluster::fromJson("{\n\"kind\": oops}");
  EXPECT_NE(broken.status().message().find("line 2"), std::string::npos);
  EXPECT_EQ(Cluster::load("/nowhere/cluster.json").status().code(), StatusCode::NoInput);
}

TEST(Cluster, HostMemoryIsThereWhereAllDevicesSaySo) {
  EXPECT_TRUE(Cluster::preset("h100x8x4")->checkHostMemory().isOk());
  for (const char *field : {"host_memory_bytes", "host_link"}) {
    nlohmann::json json = presetJson();
    json["device_types"][0].erase(field);
    Result<Cluster> cluster = Cluster::fromJson(json.dump());
    ASSERT_TRUE(cluster.isOk()) << cluster.status().message();
    EXPECT_NE(cluster->checkHostMemory().message().find(std::string("device_types[0].") + field),
              std::string::npos);
  }
  nlohmann::json json = presetJson();
  json["device_types"][0]["host_link"]["bytes_per_s"] = 0;
  EXPECT_NE(errorOf(json).find("device_types[0].host_link.bytes_per_s"), std::string::npos);
}

TEST(Cluster, AnyMutationIsRefusedOrReadButNeverCrashes) {
  std::string text = Cluster::preset("h100x8x4")->toJson();
  for (size_t at = 0; at < text.size(); ++at)
    for (char with : {'{', '9', '"', ']', ' '}) {
      std::string changed = text;
      changed[at] = with;
      Result<Cluster> cluster = Cluster::fromJson(changed);
      if (cluster) {
        EXPECT_TRUE(cluster->verify().isOk());
      }
    }
}

} // namespace
} // namespace autopar
