// SPDX-License-Identifier: Apache-2.0
// Names that no JSON could hold are refused.
#include "SampleArtifact.h"
#include "autopar/Artifact/Verify.h"

#include <gtest/gtest.h>

#include <functional>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::testing;

TEST(Verify, Names) {
  auto problemOfNames = [](const std::function<void(Program &)> &spoil) {
    Contents contents = sampleContents(2, {1}, "weights.bin");
    spoil(contents.classes[0].program);
    return verifyNames(contents.classes[0].program).message();
  };
  using P = Program;
  EXPECT_EQ(
      problemOfNames([](P &p) { p.ports[0].name = "Gr\xc3\xb6\xc3\x9f\x65 \xf0\x9f\x98\x80"; }),
      "");
  EXPECT_EQ(problemOfNames([](P &p) { p.ports[0].name = "x\xff"; }),
            "port 0: the name \"x\\xff\" is not UTF-8; rename it in the model");
  EXPECT_EQ(problemOfNames([](P &p) { p.ports[3].transposeOf = "v\xff"; }),
            "port 3: the name \"v\\xff\" is not UTF-8; rename it in the model");
  EXPECT_EQ(problemOfNames([](P &p) { p.buffers[1].name = "\xc0\xaf"; }), // of two bytes, but "/"
            "buffer 1: the name \"\\xc0\\xaf\" is not UTF-8; rename it in the model");
  EXPECT_EQ(problemOfNames([](P &p) { p.entries[1].instructions[1].id = "\xed\xa0\x80"; }),
            "entry 1: instruction 1: the name \"\\xed\\xa0\\x80\" is not UTF-8; rename it in the "
            "model");
}
