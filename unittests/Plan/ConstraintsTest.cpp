// SPDX-License-Identifier: Apache-2.0
// Demands are read, merged and refused with the place at which they stand; degrees become demands.
#include "autopar/Plan/Constraints.h"
#include "autopar/Plan/Degrees.h"

#include <gtest/gtest.h>

namespace autopar {
namespace {

std::string errorOf(const std::string &text) {
  auto parsed = Constraints::parse("c", text);
  return parsed ? "" : parsed.status().message();
}

TEST(Constraints, TextSurvives) {
  std::string text = "mesh=data=2xtensor=4, stages=auto, a/b:0: [data*tensor, -], w: []";
  auto parsed = Constraints::parse("c", text);
  ASSERT_TRUE(parsed.isOk()) << parsed.status().message();
  EXPECT_EQ(parsed->toText(), text);
  EXPECT_EQ(parsed->number("stages", 7), 0);
  EXPECT_EQ(parsed->number("micro-batches", 7), 7);
  EXPECT_EQ(parsed->mesh(), (std::vector<MeshAxis>{{"data", 2}, {"tensor", 4}}));
  auto shardings = parsed->shardings();
  ASSERT_EQ(shardings.size(), 2u);
  EXPECT_EQ(shardings[0].name, "a/b:0");
  EXPECT_EQ(shardings[0].axes, (std::vector<AxisList>{{"data", "tensor"}, {}}));
  EXPECT_TRUE(Constraints::parse("c", "  ")->empty());
}

TEST(Constraints, ForbidsByPattern) {
  Constraints demands = Constraints::parse("c", "h.*.w: not [a, -], h.*.w: not [-, a]").take();
  demands.forbid("d", "h.*.w", {{"a"}, {}});
  EXPECT_EQ(demands.toText(), "h.*.w: not [-, a], h.*.w: not [a, -]");
  Constraints::Sharding sharding = demands.shardings().front();
  EXPECT_TRUE(sharding.isForbidden);
  EXPECT_TRUE(sharding.matches("h.12.w"));
  EXPECT_FALSE(sharding.matches("h.1.2.w"));
  EXPECT_FALSE(sharding.matches("h.1.w2"));
}

TEST(Constraints, PlacesOperations) {
  Constraints demands = Constraints::parse("c", "/fc.1: stage 3, /fc.1: [a]").take();
  demands.demandStage("d", "/fc.0", 0);
  EXPECT_EQ(demands.stages(), (std::map<std::string, int64_t>{{"/fc.0", 0}, {"/fc.1", 3}}));
  ASSERT_EQ(demands.shardings().size(), 1u);
  EXPECT_EQ(demands.toText(), "/fc.1: [a], /fc.0: stage 0, /fc.1: stage 3");
  EXPECT_EQ(Constraints::parse("c", demands.toText())->toText(), demands.toText());
}

TEST(Constraints, ErrorsPointAtTheCharacter) {
  EXPECT_NE(errorOf("stages=2, size=3").find("at character 11: unknown key \"size\""),
            std::string::npos);
  EXPECT_NE(errorOf("stages=2, stages=2").find("given twice"), std::string::npos);
  EXPECT_NE(errorOf("zero=4").find("at character 6: zero: expected 0, 1, 2 or 3"),
            std::string::npos);
  EXPECT_NE(errorOf("w: [a").find("at character 6: expected ',' or ']'"), std::string::npos);
  EXPECT_NE(errorOf("w: [a,]").find("expected the name of a mesh axis"), std::string::npos);
  EXPECT_NE(errorOf("=3").find("expected key=value"), std::string::npos);
}

TEST(Constraints, DemandsThatContradictAreRefused) {
  Constraints demands = Constraints::parse("c", "stages=2, w: [a]").take();
  EXPECT_TRUE(demands.demand("--stages", "stages", "2").isOk());
  EXPECT_EQ(demands.demand("--stages", "stages", "3").message(),
            "--stages demands stages=3, but c \"stages=2, w: [a]\" at character 1 demands 2");
  EXPECT_FALSE(demands.demand(*Constraints::parse("d", "w: [b]")).isOk());
}

TEST(Constraints, AMeshFromAFlagSurvivesAsText) {
  Constraints demands;
  ASSERT_TRUE(demands.demand("--mesh", "mesh", "data=4,tensor=2").isOk());
  auto again = Constraints::parse("again", demands.toText());
  ASSERT_TRUE(again.isOk()) << again.status().message();
  EXPECT_EQ(again->mesh(), demands.mesh());
  EXPECT_EQ(again->mesh().size(), 2u);
}

TEST(Constraints, SaysWhatIsLeftForASearchOfShardings) {
  auto demands = Constraints::parse(
      "test", "mesh=a=2, stages=2, zero=1, batch-axis=a, fc: stage 1, w: [a, -], v: not [a]");
  ASSERT_TRUE(demands.isOk()) << demands.status().message();
  EXPECT_FALSE(demands->checkOfShardings().isOk());
  Constraints left = demands->ofShardings();
  EXPECT_EQ(left.toText(), "batch-axis=a, zero=1, v: not [a], w: [a, -]");
  EXPECT_TRUE(left.checkOfShardings().isOk());
  EXPECT_EQ(Constraints::parse("test", "zero=1, fc: stage 1")->checkOfShardings().message(),
            "test \"zero=1, fc: stage 1\" at character 9: the stage of \"fc\" is decided before "
            "shardings are searched, by autopar-cut-stages");
}

TEST(Constraints, ExpertsMayHaveTwoAxes) {
  auto demands = Constraints::parse("test", "expert-axis=e*t, weight-axis=t");
  ASSERT_TRUE(demands.isOk()) << demands.status().message();
  EXPECT_EQ(demands->axes("expert-axis"), (AxisList{"e", "t"}));
  EXPECT_EQ(demands->axes("weight-axis"), AxisList{"t"});
  EXPECT_EQ(demands->axes("batch-axis"), AxisList());
  EXPECT_EQ(demands->toText(), "expert-axis=e*t, weight-axis=t");
}

TEST(Degrees, BecomeDemands) {
  auto degrees = Degrees::fromJson(
      R"({"kind": "degrees", "version": 1, "data": 8, "tensor": 4, "pipeline": 2, "micro_batch": 2,
          "zero": 1, "recompute": "full"})");
  ASSERT_TRUE(degrees.isOk()) << degrees.status().message();
  EXPECT_TRUE(degrees->checkRanks(64).isOk());
  EXPECT_FALSE(degrees->checkRanks(32).isOk());
  auto demands = degrees->constraints(64);
  ASSERT_TRUE(demands.isOk()) << demands.status().message();
  EXPECT_EQ(demands->toText(),
            "batch-axis=data, mesh=data=8xtensor=4, micro-batches=4, recompute=full, "
            "schedule=1f1b, sequence=false, stages=2, virtual-stages=1, weight-axis=tensor, "
            "zero=1");
  EXPECT_FALSE(degrees->constraints(63).isOk());
  EXPECT_FALSE(degrees->constraints(8).isOk());
}

TEST(Degrees, ExpertsCutAnAxisOutOfTheDataRanks) {
  auto axesOf = [](const std::string &keys) {
    auto degrees =
        Degrees::fromJson(R"({"kind": "degrees", "version": 1, "data": 8, )" + keys + "}");
    EXPECT_TRUE(degrees.isOk()) << degrees.status().message();
    return degrees->constraints(64)->toText();
  };
  EXPECT_EQ(axesOf(R"("experts": 4, "tensor": 2)"),
            "batch-axis=data, expert-axis=expert, mesh=data=2xexpert=4xtensor=2, micro-batches=1, "
            "sequence=false, stages=1, virtual-stages=1, weight-axis=tensor, zero=0");
  EXPECT_EQ(axesOf(R"("experts": 4, "tensor": 2, "expert_tensor": 2)"),
            axesOf(R"("experts": 4, "tensor": 2)"));
  EXPECT_EQ(axesOf(R"("experts": 8)"), "expert-axis=expert, mesh=expert=8, micro-batches=1, "
                                       "stages=1, virtual-stages=1, zero=0");
}

TEST(Degrees, WholeExpertsAreSharedByRanksOfTensorToo) {
  auto axesOf = [](const std::string &keys) {
    auto degrees = Degrees::fromJson(
        R"({"kind": "degrees", "data": 8, "tensor": 2, "expert_tensor": 1, )" + keys + "}");
    EXPECT_TRUE(degrees.isOk()) << degrees.status().message();
    EXPECT_TRUE(degrees->checkRanks(16).isOk());
    return degrees->constraints(64)->toText();
  };
  std::string rest = ", micro-batches=1, sequence=false, stages=1, virtual-stages=1, "
                     "weight-axis=tensor, zero=0";
  EXPECT_EQ(axesOf(R"("experts": 16)"), "expert-axis=expert*tensor, mesh=expert=8xtensor=2" + rest);
  EXPECT_EQ(axesOf(R"("experts": 8)"),
            "batch-axis=data, expert-axis=expert*tensor, mesh=data=2xexpert=4xtensor=2" + rest);
  EXPECT_EQ(axesOf(R"("experts": 2)"),
            "batch-axis=data, expert-axis=tensor, mesh=data=8xtensor=2" + rest);
}

TEST(Degrees, ContextIsAnAxisOfPositions) {
  auto degrees =
      Degrees::fromJson(R"({"kind": "degrees", "data": 2, "context": 4, "tensor": 2, "zero": 3})");
  ASSERT_TRUE(degrees.isOk()) << degrees.status().message();
  EXPECT_TRUE(degrees->checkRanks(16).isOk());
  EXPECT_FALSE(degrees->checkRanks(4).isOk());
  EXPECT_EQ(degrees->constraints(2)->toText(),
            "batch-axis=data, context-axis=context, mesh=data=2xcontext=4xtensor=2, "
            "micro-batches=1, sequence=false, stages=1, virtual-stages=1, weight-axis=tensor, "
            "zero=3");
  degrees = Degrees::fromJson(R"({"kind": "degrees", "context": 2, "zero": 1})");
  ASSERT_TRUE(degrees.isOk()) << degrees.status().message();
  EXPECT_EQ(degrees->constraints(1)->toText(),
            "context-axis=context, mesh=context=2, micro-batches=1, stages=1, virtual-stages=1, "
            "zero=1");
}

} // namespace
} // namespace autopar
