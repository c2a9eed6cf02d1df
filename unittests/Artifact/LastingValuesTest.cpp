// SPDX-License-Identifier: Apache-2.0
// What tells what a rank holds from load on from what another program holds.
#include "autopar/Artifact/LastingValues.h"
#include "SampleArtifact.h"
#include "autopar/Artifact/Writer.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::testing;

namespace {

using Identities = std::map<int32_t, std::string>;

/// Of a rank of the sample, by buffer, after `change`.
Identities identities(int32_t rank, const std::function<void(Contents &)> &change,
                      const std::string &layout = "blocks") {
  Contents contents = sampleContents(2, {1}, "weights.bin");
  Program &program = contents.classes[0].program;
  int32_t packed = -1, ofParameter = -1;
  for (const Instruction &instruction : program.entries[0].instructions) {
    if (auto *pack = std::get_if<Pack>(&instruction.payload))
      packed = pack->dst;
    if (auto *read = std::get_if<Read>(&instruction.payload))
      ofParameter = read->port;
  }
  EXPECT_GE(packed, 0);
  program.madeValues.emplace(1, MadeValue{packed, Digest::of("recipe", 6), {ofParameter}});
  change(contents);
  auto bytes = serialize(contents);
  EXPECT_TRUE(bytes) << bytes.status().message();
  auto reader = Reader::fromBytes(*bytes, "sample");
  EXPECT_TRUE(reader) << reader.status().message();
  LastingFacts facts{[&](const Pack &) { return layout; }, [](const Port &) { return ""; }};
  Identities result;
  for (const LastingValue &value : lastingValues(*reader, rank, facts))
    result[value.buffer] = value.identity.hex();
  return result;
}

int differing(const Identities &a, const Identities &b) {
  EXPECT_EQ(a.size(), b.size());
  int count = 0;
  for (const auto &[buffer, identity] : a)
    count += !b.contains(buffer) || b.at(buffer) != identity;
  return count;
}

void nothing(Contents &) {}

TEST(LastingValues, OfOneProgramAreTheSameEachTimeAndApartFromEachOther) {
  Identities first = identities(0, nothing);
  EXPECT_EQ(differing(first, identities(0, nothing)), 0);
  std::set<std::string> all;
  for (const auto &[buffer, identity] : first)
    all.insert(identity);
  EXPECT_EQ(all.size(), first.size());
  EXPECT_GE(all.size(), 2u);
}

TEST(LastingValues, ArePartsOfARank) {
  EXPECT_GT(differing(identities(0, nothing), identities(1, nothing)), 0);
}

TEST(LastingValues, AreOfTheBytesOfTheirParameters) {
  auto change = [](Contents &contents) {
    for (Port &port : contents.classes[0].program.ports)
      port.source.digest = Digest::of("other", 5);
  };
  Identities before = identities(0, nothing), after = identities(0, change);
  EXPECT_GT(differing(before, after), 0);
}

TEST(LastingValues, OfPackedOnesHaveTheMachinesLayout) {
  EXPECT_EQ(differing(identities(0, nothing), identities(0, nothing, "other blocks")), 1);
  EXPECT_EQ(identities(0, nothing).size() - identities(0, nothing, "").size(), 1u);
}

TEST(LastingValues, AreMadeByTheSameRecipe) {
  auto change = [](Contents &contents) {
    (*contents.classes[0].program.madeValues)[0].recipe = Digest::of("other", 5);
  };
  EXPECT_EQ(differing(identities(0, nothing), identities(0, change)), 1);
}

TEST(LastingValues, OfParametersAreThoseThatNothingWrites) {
  Identities before = identities(0, nothing);
  Identities after = identities(0, [](Contents &contents) {
    Program &program = contents.classes[0].program;
    for (const Port &port : program.ports)
      if (port.role == Role::Parameter && port.buffer >= 0) {
        Instruction copy;
        copy.payload = Copy{port.buffer, 0, port.buffer, 0, 0};
        program.entries[1].instructions.push_back(copy);
      }
  });
  EXPECT_EQ(after.size(), 1u); // what load makes
  EXPECT_GT(before.size(), after.size());
}

TEST(LastingValues, AreNotToldOfArtifactsThatDoNotTellViews) {
  auto change = [](Contents &contents) { contents.classes[0].program.madeValues.reset(); };
  EXPECT_TRUE(identities(0, change).empty());
}

} // namespace
