// SPDX-License-Identifier: Apache-2.0
// Profile databases and graphs: holes, sizes that do not go together, and places in messages.
#include "autopar/Cost/ProfileDatabase.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/CostModel.h"
#include "autopar/Cost/OperatorGraph.h"

namespace autopar {
namespace {

using Json = nlohmann::json;

/// A product in columns, measured on one and two ranks.
Json sample() {
  Json rows = Json::array();
  for (int64_t batch : {1, 2, 4})
    for (int64_t degree : {1, 2}) {
      Json row = {{"batch", batch},
                  {"degree", degree},
                  {"forward_us", 10.0 * double(batch) / double(degree)},
                  {"backward_us", 20.0 * double(batch) / double(degree)},
                  {"weight_gradient_us", 9.0 * double(batch) / double(degree)},
                  {"bytes_in", 1024 * batch},
                  {"bytes_out", 4096 * batch / degree},
                  {"weight_bytes", 65536 / degree},
                  {"saved_bytes", 512 * batch},
                  {"workspace_bytes", 100}};
      if (degree > 1)
        row["choice"] = "columns";
      rows.push_back(row);
    }
  Json choice = {{"name", "columns"}, {"inputs", {"whole"}}, {"outputs", {"hidden"}}};
  Json operation = {{"key", "fc"}, {"choices", {choice}}, {"rows", rows}};
  return {{"kind", "autopar.profile"}, {"version", 1},         {"dtype", "bf16"},
          {"dimensions", {"hidden"}},  {"batches", {1, 2, 4}}, {"degrees", {1, 2}},
          {"ops", {operation}}};
}

std::string errorOf(const Json &json, ProfileFallback fallback = ProfileFallback::None) {
  Result<ProfileDatabase> database = ProfileDatabase::fromJson(json.dump(), fallback);
  return database ? "" : database.status().message();
}

void expectError(const Json &json, const std::string &part) {
  EXPECT_NE(errorOf(json).find(part), std::string::npos) << errorOf(json);
}

TEST(ProfileDatabase, RowsAreFoundByBatchDegreeAndChoice) {
  Result<ProfileDatabase> database =
      ProfileDatabase::fromJson(sample().dump(), ProfileFallback::None);
  ASSERT_TRUE(database.isOk()) << database.status().message();
  const ProfiledOperation *fc = database->find("fc");
  ASSERT_NE(fc, nullptr);
  EXPECT_EQ(fc->rows.size(), 6u);
  EXPECT_EQ(fc->find(4, 2, 0)->forwardUs, 20);
  EXPECT_EQ(fc->find(4, 2, 0)->backwardWorkspaceBytes, 100);
  EXPECT_EQ(fc->find(3, 1, -1), nullptr);
  EXPECT_EQ(fc->inputBytes.front(), 1024);
  EXPECT_EQ(fc->outputBytes.front(), 4096);
  EXPECT_EQ(fc->weightBytes, 65536);
  EXPECT_EQ(fc->choices.front().outputs.front(), 0);
  EXPECT_EQ(fc->choices.front().inputs.front(), kWhole);
  EXPECT_EQ(database->commonDegree(), 2);
}

TEST(ProfileDatabase, AHoleIsNamedWithItsPlace) {
  Json json = sample();
  json["ops"][0]["rows"].erase(3); // batch 2, degree 2
  expectError(json, "ops[0].rows: no row for \"fc\" with batch 2, degree 2, choice \"columns\": "
                    "measure it, or say --profile-fallback interpolate to take it from batches 1 "
                    "and 4");
}

TEST(ProfileDatabase, AHoleIsInterpolatedWhereToldTo) {
  Json json = sample();
  json["ops"][0]["rows"].erase(3);
  Result<ProfileDatabase> database =
      ProfileDatabase::fromJson(json.dump(), ProfileFallback::Interpolate);
  ASSERT_TRUE(database.isOk()) << database.status().message();
  const ProfileRow *row = database->find("fc")->find(2, 2, 0);
  ASSERT_NE(row, nullptr);
  EXPECT_DOUBLE_EQ(row->forwardUs, 5 + (20 - 5) / 3.0);
  EXPECT_EQ(row->savedBytes, 1024);
}

TEST(ProfileDatabase, NothingIsExtrapolated) {
  Json json = sample();
  json["ops"][0]["rows"].erase(5); // batch 4, degree 2
  EXPECT_NE(errorOf(json, ProfileFallback::Interpolate).find("batch 4, degree 2"),
            std::string::npos);
}

TEST(ProfileDatabase, SizesMustGoTogether) {
  Json json = sample();
  json["ops"][0]["rows"][5]["bytes_out"] = 9000;
  expectError(json, "ops[0].rows[5].bytes_out: 9000 does not go with ops[0].rows[0], by which 8192 "
                    "are expected here");
}

TEST(ProfileDatabase, EveryMistakeHasItsPlace) {
  struct {
    const char *pointer;
    Json value;
    const char *message;
  } cases[] = {
      {"/kind", "autopar.cluster", "kind: expected \"autopar.profile\""},
      {"/version", 2, "version: expected 1, found 2"},
      {"/dtype", "i8", "dtype: expected f32, f16 or bf16"},
      {"/batches", Json::array({2, 1}), "batches[1]: expected more than the number before"},
      {"/degrees", Json::array(), "degrees: expected at least one"},
      {"/degrees", Json::array({2}), "degrees[0]: expected 1, the operation on one rank, found 2"},
      {"/dimensions/0", "whole", "dimensions[0]: expected a name of its own"},
      {"/ops", Json::array(), "ops: expected at least one"},
      {"/ops/0/key", "", "ops[0].key: expected a name"},
      {"/ops/0/choices/0/outputs/0", "sequence",
       "ops[0].choices[0].outputs[0]: expected whole, partial, or a name in dimensions"},
      {"/ops/0/choices/0/inputs/0", "partial", "ops[0].choices[0].inputs[0]: expected whole, or"},
      {"/ops/0/choices/0/weight", "half", "ops[0].choices[0].weight: expected split or whole"},
      {"/ops/0/choices/0/degrees", Json::array({3}),
       "ops[0].choices[0].degrees: 3 is none of the file's degrees"},
      {"/ops/0/rows/0/batch", 3, "ops[0].rows[0].batch: 3 is none of the file's batches"},
      {"/ops/0/rows/0/choice", "columns", "ops[0].rows[0].choice: nothing is split at degree 1"},
      {"/ops/0/rows/1/choice", "rows",
       "ops[0].rows[1].choice: expected one of the operation's choices, found \"rows\""},
      {"/ops/0/rows/0/forward_us", -1, "ops[0].rows[0].forward_us: expected a number in"},
      {"/ops/0/rows/0/forward_ms", 1, "ops[0].rows[0].forward_ms: unknown key"},
      {"/ops/0/rows/0/weight_gradient_us", 21,
       "ops[0].rows[0].weight_gradient_us: is part of backward_us, and more"},
      {"/ops/0/rows/2/batch", 1, "ops[0].rows[2]: \"fc\" with batch 1, degree 1 stands here twice"},
  };
  for (auto &[pointer, value, message] : cases) {
    Json json = sample();
    json[Json::json_pointer(pointer)] = value;
    expectError(json, message);
  }
  EXPECT_NE(errorOf(Json("no object")).find("expected an object"), std::string::npos);
}

TEST(ProfileDatabase, OneKeyTwice) {
  Json json = sample();
  json["ops"].push_back(json["ops"][0]);
  expectError(json, "ops[1].key: \"fc\" stands in the file twice");
}

//===-- Graphs -------------------------------------------------------------------------------===//

ProfileDatabase chainable() {
  Json json = sample();
  Json back = json["ops"][0];
  back["key"] = "back";
  back["choices"] = Json::array();
  back["rows"] = Json::array();
  for (int64_t batch : {1, 2, 4})
    back["rows"].push_back({{"batch", batch},
                            {"forward_us", 1},
                            {"bytes_in", 4096 * batch},
                            {"bytes_out", 1024 * batch}});
  json["ops"].push_back(back);
  return ProfileDatabase::fromJson(json.dump(), ProfileFallback::None).take();
}

Json graphOf(Json ops) {
  return {{"kind", "autopar.graph"}, {"version", 1}, {"batch", 4}, {"ops", std::move(ops)}};
}

TEST(OperatorGraph, AChainNeedsNoNames) {
  ProfileDatabase database = chainable();
  Json ops = {{{"id", "a"}, {"op", "fc"}}, {{"id", "b"}, {"op", "back"}}};
  Result<OperatorGraph> graph = OperatorGraph::fromJson(graphOf(ops).dump(), database);
  ASSERT_TRUE(graph.isOk()) << graph.status().message();
  EXPECT_EQ(graph->values.size(), 3u);
  EXPECT_EQ(graph->nodes[1].inputs.front(), 1);
  EXPECT_EQ(graph->values[0].bytesPerSample, 1024);
  EXPECT_EQ(graph->results, std::vector<int64_t>{2});
}

TEST(OperatorGraph, EveryMistakeHasItsPlace) {
  ProfileDatabase database = chainable();
  auto errorOf = [&](const Json &json) {
    Result<OperatorGraph> graph = OperatorGraph::fromJson(json.dump(), database);
    return graph ? std::string() : graph.status().message();
  };
  auto one = [](const char *id, const char *op, Json inputs = nullptr) {
    Json node = {{"id", id}, {"op", op}};
    if (!inputs.is_null())
      node["inputs"] = inputs;
    return node;
  };
  std::pair<Json, const char *> cases[] = {
      {graphOf(Json::array()), "ops: expected at least one"},
      {graphOf({one("a", "conv")}), "ops[0].op: the profile database has no \"conv\""},
      {graphOf({one("a", "fc"), one("a", "back")}), "ops[1].id: expected a name of its own"},
      {graphOf({one("a/vjp", "fc")}), "ops[0].id: must not contain"},
      {graphOf({one("a", "fc", {"x", "y"})}), "ops[0].inputs: \"fc\" takes 1 values, found 2"},
      {graphOf({one("a", "fc", {"x"})}), "ops[0].inputs[0]: \"x\" is no input of the graph"},
      {graphOf({one("a", "fc"), one("b", "fc")}),
       "ops[1].inputs[0]: \"a\" has 4096 bytes for a sample, \"fc\" was measured with 1024"},
  };
  for (auto &[json, message] : cases)
    EXPECT_NE(errorOf(json).find(message), std::string::npos) << errorOf(json);
}

//===-- Collectives --------------------------------------------------------------------------===//

Json measured(const char *kind, int64_t ranks, int64_t nodes) {
  return {{"kind", kind},
          {"ranks_per_node", ranks},
          {"nodes", nodes},
          {"times",
           {{{"bytes", 1000}, {"us", 10}},
            {{"bytes", 2000}, {"us", 15}},
            {{"bytes", 4000}, {"us", 40}}}}};
}

TEST(MeasuredCollectives, ReplaceTheFormulas) {
  Cluster cluster = *Cluster::preset("h100x8x2");
  double byFormula = collectiveTimeUs(CollectiveKind::AllReduce, 1500, meshGroup(cluster, 4, 1));
  Json list = {measured("all_reduce", 4, 1)};
  cluster.collectives = readMeasuredCollectives(list, "collectives").take();
  MeshGroup group = meshGroup(cluster, {0, 1, 2, 3});
  EXPECT_DOUBLE_EQ(collectiveTimeUs(CollectiveKind::AllReduce, 1500, group), 12.5);
  EXPECT_DOUBLE_EQ(collectiveTimeUs(CollectiveKind::AllReduce, 10, group), 10);
  EXPECT_DOUBLE_EQ(collectiveTimeUs(CollectiveKind::AllReduce, 8000, group), 80);
  // Other groups and kinds follow from the links.
  cluster.collectives.front().ranksPerNode = 8;
  EXPECT_DOUBLE_EQ(collectiveTimeUs(CollectiveKind::AllReduce, 1500, meshGroup(cluster, 4, 1)),
                   byFormula);
  EXPECT_TRUE(*Cluster::load(cluster.toJson()) == cluster);
}

TEST(MeasuredCollectives, AHoleIsNamed) {
  Cluster cluster = *Cluster::preset("h100x2");
  Json list;
  for (const char *kind : {"all_reduce", "all_gather", "reduce_scatter"})
    list.push_back(measured(kind, 2, 1));
  cluster.collectives = readMeasuredCollectives(list, "collectives").take();
  EXPECT_NE(cluster.checkCollectives().message().find(
                "no times of all_to_all with ranks_per_node 2, nodes 1"),
            std::string::npos)
      << cluster.checkCollectives().message();
  list.push_back(measured("all_to_all", 2, 1));
  cluster.collectives = readMeasuredCollectives(list, "collectives").take();
  EXPECT_TRUE(cluster.checkCollectives().isOk());
}

TEST(MeasuredCollectives, EveryMistakeHasItsPlace) {
  auto errorOf = [](const char *pointer, const Json &value) {
    Json list = {measured("all_reduce", 4, 1)};
    list[Json::json_pointer(pointer)] = value;
    Result<std::vector<MeasuredCollective>> read = readMeasuredCollectives(list, "collectives");
    return read ? std::string() : read.status().message();
  };
  EXPECT_NE(errorOf("/0/kind", "gossip").find("collectives[0].kind: unknown collective \"gossip\""),
            std::string::npos);
  EXPECT_NE(errorOf("/0/ranks_per_node", 1).find("one rank has no collective"), std::string::npos);
  EXPECT_NE(errorOf("/0/times/1/us", 9).find("collectives[0].times[1].us: is below"),
            std::string::npos);
  EXPECT_NE(errorOf("/0/times/1/bytes", 1000).find("collectives[0].times[1].bytes: expected more"),
            std::string::npos);
  EXPECT_NE(errorOf("/0/times", Json::array()).find("expected at least one measurement"),
            std::string::npos);
}

} // namespace
} // namespace autopar
