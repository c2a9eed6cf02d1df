// SPDX-License-Identifier: Apache-2.0
// What files about machines and measurements must not say: each refusal, whole, with its place.
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/CostModel.h"
#include "autopar/Cost/JsonFields.h"
#include "autopar/Cost/Mesh.h"
#include "autopar/Cost/OperatorGraph.h"
#include "autopar/Cost/ProfileDatabase.h"

#include <gtest/gtest.h>

namespace autopar {
namespace {

using Json = nlohmann::json;

/// A file with `value` at `pointer`, and what is said of it.
struct Mistake {
  const char *pointer;
  Json value;
  const char *message;
};

template <typename T>
std::string message(const Result<T> &result) {
  return result ? "" : result.status().message();
}

Json with(Json json, const Mistake &mistake) {
  json[Json::json_pointer(mistake.pointer)] = mistake.value;
  return json;
}

Json clusterJson() {
  Json json = Json::parse(Cluster::preset("h100x8x4")->toJson());
  json["collectives"] = Json::array();
  return json;
}

TEST(Refusals, ClusterFiles) {
  const Json times = {{{"bytes", 8}, {"us", 1}}, {{"bytes", 16}, {"us", 2}}};
  const Json collective = {{"kind", "all_reduce"}, {"ranks_per_node", 2}, {"times", times}};
  Json falling = collective, unordered = collective, alone = collective, empty = collective,
       unknown = collective;
  falling["times"][1]["us"] = 0.5;
  unordered["times"][1]["bytes"] = 8;
  alone["ranks_per_node"] = 1;
  empty["times"] = Json::array();
  unknown["kind"] = "gossip";
  Mistake mistakes[] = {
      {"/name", 7, "name: expected a string, found number"},
      {"/levels", "fast", "levels: expected a list, found string"},
      {"/version", 3, "version: expected 1, found 3; convert the file or use the matching release"},
      {"/device_types/0", 1, "device_types[0]: expected an object, found number"},
      {"/device_types/0/name", "", "device_types[0].name: must not be empty"},
      {"/device_types/0/peak_flops_per_s", 1,
       "device_types[0].peak_flops_per_s: expected an object, found number"},
      {"/device_types/0/peak_flops_per_s/f33", 1,
       "device_types[0].peak_flops_per_s.f33: unknown element type"},
      {"/device_types/0/peak_flops_per_s", Json::object(),
       "device_types[0].peak_flops_per_s: names no element type; give at least f32"},
      {"/device_types/0/peak_flops_per_s/f32", 0,
       "device_types[0].peak_flops_per_s.f32: expected a number in [1, 1e+30], found 0"},
      {"/device_types/0/memory_bytes_per_s", 1e-300,
       "device_types[0].memory_bytes_per_s: expected a number in [1, 1e+30], found 1e-300"},
      {"/levels/1/bytes_per_s", 1e-300,
       "levels[1].bytes_per_s: expected a number in [1, 1e+30], found 1e-300"},
      {"/nodes/0/count", 1000000, "nodes: have 8000000 devices together; expected at most 262144"},
      {"/device_types/0/compute_efficiency", 0,
       "device_types[0].compute_efficiency: must be above 0 and at most 1"},
      {"/device_types/0/compute_efficiency", 1.5,
       "device_types[0].compute_efficiency: expected a number in [0, 1], found 1.5"},
      {"/device_types/0/attention_efficiency", 1.5,
       "device_types[0].attention_efficiency: expected a number in [0, 1], found 1.5"},
      {"/device_types/0/attention_gradient_efficiency", -1,
       "device_types[0].attention_gradient_efficiency: expected a number in [0, 1], found -1"},
      {"/device_types/0/memory_efficiency", 0,
       "device_types[0].memory_efficiency: must be above 0 and at most 1"},
      {"/device_types/0/memory_bytes", 0, "device_types[0].memory_bytes: must be above 0"},
      {"/device_types/0/reserved_bytes", int64_t(1) << 60,
       "device_types[0].reserved_bytes: must be at least 0 and below memory_bytes"},
      {"/device_types/0/communicates_while_idle", "yes",
       "device_types[0].communicates_while_idle: expected true or false, found string"},
      {"/nodes/0/inside_link", 1, "nodes[0].inside_link: expected an object, found number"},
      {"/nodes/0/devices_per_node", 0,
       "nodes[0].devices_per_node: expected an integer in [1, 16777216], found 0"},
      {"/nodes/0/device_type", "z9", "nodes[0].device_type: 'z9' is not among device_types"},
      {"/levels", Json::array(), "levels: is empty; level 0 is the link inside a node"},
      {"/levels", Json::array({clusterJson()["levels"][0]}),
       "levels: has one level, but there are 4 nodes; add the link between nodes"},
      {"/levels/1/compute_loss", -1,
       "levels[1].compute_loss: expected a number in [0, 100], found -1"},
      {"/levels/0/compute_loss", 1,
       "levels[0].compute_loss: unknown key; known here: bytes_per_s, latency_us, name, nodes "
       "(units are part of the key)"},
      {"/levels/0/nodes", 2, "levels[0].nodes: must be 1: level 0 is inside a node"},
      {"/levels/1/nodes", 4, "levels[1].nodes: must be absent: the last level joins all nodes"},
      {"/collectives/0", unknown,
       "collectives[0].kind: unknown collective \"gossip\"; known are all_reduce, all_gather, "
       "reduce_scatter, all_to_all, permute, broadcast"},
      {"/collectives/0", alone, "collectives[0]: one rank has no collective"},
      {"/collectives/0", empty, "collectives[0].times: expected at least one measurement"},
      {"/collectives/0", unordered,
       "collectives[0].times[1].bytes: expected more than in the measurement before"},
      {"/collectives/0", falling,
       "collectives[0].times[1].us: is below that of fewer bytes; a search would be misled by the "
       "dip: measure again, or leave one of the two out"},
      {"/collectives", Json::array({collective, collective}),
       "collectives[1]: all_reduce of 2 ranks on each of 1 nodes stands here twice"},
  };
  for (const Mistake &mistake : mistakes)
    EXPECT_EQ(message(Cluster::fromJson(with(clusterJson(), mistake).dump())), mistake.message);
  Json three = clusterJson();
  three["levels"].insert(three["levels"].begin() + 1, three["levels"][1]);
  three["levels"][1]["nodes"] = 1;
  EXPECT_EQ(message(Cluster::fromJson(three.dump())),
            "levels[1].nodes: must be a larger multiple of the level below, found 1");
  EXPECT_EQ(message(Cluster::fromJson("[]")), "the file: expected an object, found array");
  EXPECT_EQ(message(Cluster::fromJson("{")).rfind("not JSON: line 1, column 2: ", 0), 0u);
  EXPECT_EQ(message(Cluster::load("/")), "cannot read '/': Is a directory");
  EXPECT_EQ(message(Cluster::fromJson(R"({"levels": [{"name": "a"}, {"nodes": 1, "nodes": 2}]})")),
            "levels.nodes: stands in its object twice");
}

TEST(Refusals, ClustersThatWereBuilt) {
  auto errorOf = [](void (*change)(Cluster &)) {
    Cluster cluster = *Cluster::preset("h100x8x4");
    change(cluster);
    return cluster.verify().message();
  };
  EXPECT_EQ(errorOf([](Cluster &c) { c.deviceTypes[0].launchUs = -1; }),
            "device_types[0].launch_us: must be at least 0");
  EXPECT_EQ(errorOf([](Cluster &c) { c.deviceTypes[0].memoryBytesPerSecond = 0; }),
            "device_types[0].memory_bytes_per_s: must be above 0");
  EXPECT_EQ(errorOf([](Cluster &c) { c.levels[1].link.latencyUs = -1; }),
            "levels[1].latency_us: must be at least 0");
  EXPECT_EQ(errorOf([](Cluster &c) { c.levels[1].link.computeLoss = -1; }),
            "levels[1].compute_loss: must be at least 0");
  EXPECT_EQ(errorOf([](Cluster &c) { c.levels[1].link.bytesPerSecond = 0; }),
            "levels[1].bytes_per_s: must be above 0");
  EXPECT_EQ(errorOf([](Cluster &c) { c.nodes[0].count = 0; }),
            "nodes[0].count: must be in [1, 2^24]");
  EXPECT_EQ(errorOf([](Cluster &c) { c.nodes[0].devicesPerNode = 0; }),
            "nodes[0].devices_per_node: must be in [1, 2^24]");
  EXPECT_EQ(errorOf([](Cluster &c) { c.nodes.clear(); }), "nodes: is empty");
  EXPECT_EQ(errorOf([](Cluster &c) { c.deviceTypes.clear(); }), "device_types: is empty");
  EXPECT_EQ(errorOf([](Cluster &c) { c.deviceTypes.push_back(c.deviceTypes[0]); }),
            "device_types[1].name: 'h100' appears twice");
}

TEST(Refusals, CollectivesThatWereNotMeasured) {
  Cluster cluster = *Cluster::preset("h100x2");
  cluster.collectives = {{CollectiveKind::AllReduce, 2, 1, {{8, 1}}}};
  EXPECT_EQ(cluster.checkCollectives().message(),
            "collectives: no times of all_gather with ranks_per_node 2, nodes 1, which meshes of "
            "cluster \"" +
                cluster.name +
                "\" can have: measure it, leave all collectives out, or say --profile-fallback "
                "interpolate to take it from the cluster's links");
}

TEST(Refusals, MeasuredInstructions) {
  const Json extent = {{"name", "rows"}, {"values", {8, 16}}};
  const Json operation = {{"key", "copy"}, {"extents", {extent}}, {"us", {1, 2}}};
  const Json file = {{"kind", "autopar.profile"}, {"version", 1}, {"instructions", {operation}}};
  Mistake mistakes[] = {
      {"/instructions/0/extents/0/values/0", 0,
       "instructions[0].extents[0].values[0]: expected a number above 0"},
      {"/instructions/0/extents/0/values/1", 8,
       "instructions[0].extents[0].values[1]: expected more than the value before"},
      {"/instructions/0/extents/0/values", Json::array(),
       "instructions[0].extents[0].values: expected at least one"},
      {"/instructions", Json::array(), "instructions: expected at least one"},
      {"/instructions/0/us/1", 0, "instructions[0].us[1]: expected microseconds above 0"},
      {"/instructions/0/us", Json::array({1}),
       "instructions[0].us: no time for \"copy\" with rows 16; the grid has 2 points"},
      {"/instructions/0/us/2", 3, "instructions[0].us: 3 times for a grid of 2 points"},
      {"/instructions/0/us/1", 0.5,
       "instructions[0].us[1] (rows 16): is below that of fewer rows; a search would be misled by "
       "the dip: measure again"},
      {"/instructions/1", operation, "instructions[1].key: \"copy\" stands in the file twice"},
      {"/ops", Json::array(),
       "instructions: a file holds operations (ops) or instructions, not both"},
  };
  EXPECT_EQ(message(ProfileDatabase::fromJson(file.dump(), ProfileFallback::None)), "");
  for (const Mistake &mistake : mistakes)
    EXPECT_EQ(message(ProfileDatabase::fromJson(with(file, mistake).dump(), ProfileFallback::None)),
              mistake.message);
}

/// A product, and a loss of two values.
Json profile() {
  Json fc = {{"key", "fc"},
             {"choices", {{{"name", "columns"}, {"inputs", {"whole"}}, {"outputs", {"whole"}}}}},
             {"rows",
              {{{"batch", 1}, {"forward_us", 1}, {"bytes_in", 8}, {"bytes_out", 8}},
               {{"batch", 1},
                {"degree", 2},
                {"choice", "columns"},
                {"forward_us", 1},
                {"bytes_in", 8},
                {"bytes_out", 8}}}}};
  Json loss = {
      {"key", "loss"},
      {"inputs", 2},
      {"loss", true},
      {"rows", {{{"batch", 1}, {"forward_us", 1}, {"bytes_in", {8, 8}}, {"bytes_out", 4}}}}};
  return {{"kind", "autopar.profile"}, {"version", 1},
          {"dimensions", {"hidden"}},  {"batches", {1}},
          {"degrees", {1, 2}},         {"ops", {fc, loss}}};
}

TEST(Refusals, ProfiledOperations) {
  const Json choice = profile()["ops"][0]["choices"][0], row = profile()["ops"][0]["rows"][1];
  Json splitLoss = {{"name", "split"}, {"inputs", {"whole", "whole"}}, {"outputs", {"hidden"}}};
  Mistake mistakes[] = {
      {"/batches/0", 0, "batches[0]: expected a positive integer, found 0"},
      {"/ops/1/outputs", 2, "ops[1].outputs: an operation that gives the loss has no other output"},
      {"/ops/1/key", "fc", "ops[1].key: \"fc\" stands in the file twice"},
      {"/ops/0/choices/0/weight", "half",
       "ops[0].choices[0].weight: expected split or whole, found \"half\""},
      {"/ops/0/choices/0/inputs", Json::array(),
       "ops[0].choices[0].inputs: expected 1 words, found 0"},
      {"/ops/0/choices/1", choice, "ops[0].choices[1].name: \"columns\" stands here twice"},
      {"/ops/1/choices/0", splitLoss, "ops[1].choices[0].outputs[0]: the loss cannot be split"},
      {"/ops/1/rows/0/bytes_in/0", "8", "ops[1].rows[0].bytes_in[0]: expected bytes, found \"8\""},
      {"/ops/1/rows/0/bytes_in", Json::array({8}),
       "ops[1].rows[0].bytes_in: expected 2 sizes, found 1"},
      {"/ops/0/choices/0/degrees", Json::array({1}),
       "ops[0].rows[1].degree: 2 is none of the degrees of \"columns\""},
      {"/ops/1/rows", Json::array(), "ops[1].rows: expected at least one"},
      {"/ops/0/rows", Json::array({row}),
       "ops[0].rows: no row for \"fc\" with batch 1, degree 1: measure it, or leave the batch, "
       "degree or choice out of the file"},
  };
  EXPECT_EQ(message(ProfileDatabase::fromJson(profile().dump(), ProfileFallback::None)), "");
  for (const Mistake &mistake : mistakes)
    EXPECT_EQ(
        message(ProfileDatabase::fromJson(with(profile(), mistake).dump(), ProfileFallback::None)),
        mistake.message);
}

TEST(Refusals, Graphs) {
  const Json graph = {{"kind", "autopar.graph"},
                      {"version", 1},
                      {"batch", 1},
                      {"inputs", {"x", "labels"}},
                      {"ops",
                       {{{"id", "a"}, {"op", "fc"}, {"inputs", {"x"}}},
                        {{"id", "b"}, {"op", "loss"}, {"inputs", {"a", "labels"}}}}}};
  Mistake mistakes[] = {
      {"/inputs", Json::array(), "inputs: expected at least one: it holds the samples of a step"},
      {"/inputs/0", 1, "inputs[0]: expected a string, found number"},
      {"/inputs/1", "x", "inputs[1]: \"x\" stands here twice"},
      {"/inputs/2", "spare", "inputs: no op reads \"spare\""},
      {"/ops", Json::array(), "ops: expected at least one"},
      {"/ops/1/id", "a", "ops[1].id: expected a name of its own, found \"a\""},
      {"/ops/0/id", "a/vjp", "ops[0].id: must not contain \"/vjp\", which names derivatives"},
      {"/ops/0/op", "conv", "ops[0].op: the profile database has no \"conv\""},
      {"/ops/0/inputs/1", "x", "ops[0].inputs: \"fc\" takes 1 values, found 2"},
      {"/ops/0/inputs/0", "y",
       "ops[0].inputs[0]: \"y\" is no input of the graph and no output of an op before"},
      {"/ops/2", {{"id", "c"}, {"op", "fc"}}, "ops[2].inputs[0]: nothing can read the loss \"b\""},
      {"/ops/0/outputs", Json::array(), "ops[0].outputs: \"fc\" gives 1 values, found 0"},
      {"/ops/0/outputs", Json::array({"x"}), "ops[0].outputs[0]: \"x\" is a value already"},
  };
  Result<ProfileDatabase> database =
      ProfileDatabase::fromJson(profile().dump(), ProfileFallback::None);
  ASSERT_TRUE(database.isOk()) << database.status().message();
  EXPECT_EQ(message(OperatorGraph::fromJson(graph.dump(), *database)), "");
  for (const Mistake &mistake : mistakes)
    EXPECT_EQ(message(OperatorGraph::fromJson(with(graph, mistake).dump(), *database)),
              mistake.message);
}

TEST(Refusals, Meshes) {
  Cluster cluster = *Cluster::preset("h100x8");
  auto errorOf = [&](Mesh mesh) { return mesh.verify(cluster).message(); };
  EXPECT_EQ(errorOf({"m", {{"time", 2}}, {0, 1}}), "mesh 'm': 'time' is not a name for an axis");
  EXPECT_EQ(errorOf({"m", {{"a", 2}, {"a", 1}}, {0, 1}}), "mesh 'm': axis 'a' appears twice");
  EXPECT_EQ(errorOf({"m", {{"a", 0}}, {}}), "mesh 'm': axis 'a' has size 0, expected 1 to 2^24");
  EXPECT_EQ(errorOf({"m", {{"a", 2}}, {0}}),
            "mesh 'm': axes make 2 points, but 1 devices are listed");
  EXPECT_EQ(errorOf({"m", {{"a", 2}}, {0, 8}}),
            "mesh 'm': device 8 is not in the cluster of 8 devices");
  EXPECT_EQ(errorOf({"m", {{"a", 2}}, {0, 0}}), "mesh 'm': device 0 is listed twice");
}

} // namespace
} // namespace autopar
