// SPDX-License-Identifier: Apache-2.0
// What programs must not say of views and of values that load makes.
#include "SampleArtifact.h"
#include "autopar/Artifact/Verify.h"

#include <gtest/gtest.h>

#include <functional>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::testing;

namespace {

/// What is said of the sample's program after `spoil`.
std::string problem(const std::function<void(Program &)> &spoil) {
  Contents contents = sampleContents(2, {1}, "weights.bin");
  spoil(contents.classes[0].program);
  return verifyProgram(contents.classes[0].program, contents.constants.size()).message();
}

TEST(VerifyViews, LieWithinTheirBuffer) {
  using P = Program;
  EXPECT_EQ(problem([](P &p) {
              p.buffers.push_back(p.buffers[0]);
              p.buffers.back().viewOf = 0;
            }),
            "");
  EXPECT_EQ(problem([](P &p) { p.buffers[0].viewOf = 99; }),
            "buffer 0 (x): it is a view of buffer 99, which is not there");
  const std::string notWithin =
      "it is a view of buffer 0 (x) and has bytes that this has not, or this is a view too";
  std::string last = std::to_string(sampleContents(2, {1}, "w").classes[0].program.buffers.size());
  EXPECT_EQ(problem([](P &p) {
              p.buffers.push_back(p.buffers[0]);
              p.buffers.back().offset += 4;
              p.buffers.back().viewOf = 0;
            }),
            "buffer " + last + " (x): " + notWithin);
  EXPECT_EQ(problem([](P &p) {
              p.buffers.push_back(p.buffers[0]);
              p.buffers.back().viewOf = 0;
              p.buffers[0].viewOf = 0;
            }),
            "buffer 0 (x): " + notWithin);
}

TEST(VerifyViews, MadeValuesAreOfParameters) {
  auto problemOf = [](MadeValue value) {
    return problem([&](Program &p) { p.madeValues.emplace(1, value); });
  };
  EXPECT_EQ(problemOf({99, {}, {}}), "made value in buffer 99: expected a buffer that is no view");
  EXPECT_EQ(problemOf({0, {}, {0}}),
            "made value in buffer 0: it is made of port 0, which is no parameter");
  EXPECT_EQ(problemOf({0, {}, {3}}), "");
}

} // namespace
