// SPDX-License-Identifier: Apache-2.0
// Where buffers lie, and what load leaves out, where another program holds some of them.
#include "autopar/Runtime/BufferPlaces.h"

#include <gtest/gtest.h>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::runtime;

namespace {

constexpr int32_t kPlain = 0, kView = 1, kRead = 2, kPacked = 3, kInput = 4, kOutput = 5;

Buffer buffer(int64_t offset, int64_t bytes, int32_t viewOf = -1) {
  Buffer result;
  result.offset = offset;
  result.bytes = bytes;
  result.dtype = DataType::U8;
  result.shape = {bytes};
  result.viewOf = viewOf;
  return result;
}

Instruction launch(std::vector<int32_t> args) {
  Instruction result;
  result.payload = Launch{0, std::move(args)};
  return result;
}

/// A parameter that is kept and one that load packs; what is read for that lies where results of
/// the step do.
Program sample() {
  Program program;
  program.arenaBytes = {4096, 0, 0};
  program.buffers = {buffer(0, 1024),    buffer(512, 256, kPlain), buffer(1024, 1024),
                     buffer(2048, 1024), buffer(1024, 512),        buffer(3072, 1024)};
  Port plain, packed;
  plain.role = packed.role = Role::Parameter;
  plain.buffer = kPlain;
  program.ports = {plain, packed};
  Instruction read;
  read.payload = Read{1, kRead};
  program.entries = {{"load", {read, launch({kRead, kPacked})}},
                     {"step", {launch({kView, kPacked, kInput, kOutput})}}};
  program.timetable = {{1, 0}};
  program.kernels = {"k"};
  return program;
}

TEST(BufferPlaces, AreAsPlannedWhereNothingIsElsewhere) {
  Program program = sample();
  BufferPlaces places(program);
  EXPECT_EQ(places.arenaBytes(Space::Device), 4096);
  for (int32_t i = 0; i < int32_t(program.buffers.size()); ++i) {
    EXPECT_EQ(places.elsewhere(i), nullptr);
    EXPECT_EQ(places.offset(i), program.buffers[size_t(i)].offset);
  }
}

TEST(BufferPlaces, LeaveNoRoomForWhatIsElsewhere) {
  Program program = sample();
  std::vector<uint8_t> other(2048);
  HeldElsewhere elsewhere = {{kPlain, other.data()}, {kPacked, other.data() + 1024}};
  std::vector<bool> leftOut = leftOutOfLoad(program, elsewhere);
  EXPECT_EQ(leftOut, std::vector<bool>({true, true}));
  BufferPlaces places(program, elsewhere, leftOut);
  EXPECT_EQ(places.arenaBytes(Space::Device), 512 + 1024);
  EXPECT_EQ(places.elsewhere(kPlain), other.data());
  EXPECT_EQ(places.elsewhere(kView), other.data() + 512);
  EXPECT_EQ(places.elsewhere(kPacked), other.data() + 1024);
  EXPECT_EQ(places.offset(kInput), 0);
  EXPECT_EQ(places.offset(kOutput), 512);
  EXPECT_EQ(places.offset(kRead), -1);
}

TEST(BufferPlaces, WhatOverlapsMovesTogether) {
  Program program = sample();
  std::vector<uint8_t> other(1024);
  HeldElsewhere elsewhere = {{kPlain, other.data()}};
  std::vector<bool> leftOut = leftOutOfLoad(program, elsewhere);
  EXPECT_EQ(leftOut, std::vector<bool>({false, false}));
  BufferPlaces places(program, elsewhere, leftOut);
  EXPECT_EQ(places.offset(kPacked), 0); // it lasts
  EXPECT_EQ(places.offset(kRead), 1024);
  EXPECT_EQ(places.offset(kInput), 1024); // at another time
  EXPECT_EQ(places.offset(kOutput), 2048);
  EXPECT_EQ(places.workspace().offset, 1024);
  EXPECT_EQ(places.workspace().bytes, 2048);
  EXPECT_EQ(places.arenaBytes(Space::Device), 3072);
}

TEST(BufferPlaces, WhatLastsForAStepLiesInMemoryThatIsLent) {
  Program program = sample();
  ByteRange free = workspaceOf(program); // between the plain parameter and the packed one
  EXPECT_EQ(free.offset, 1024);
  EXPECT_EQ(free.bytes, 1024);
  std::vector<uint8_t> other(2048), workspace(1536);
  HeldElsewhere elsewhere = {{kPlain, other.data()}, {kPacked, other.data() + 1024}};
  std::vector<bool> leftOut = leftOutOfLoad(program, elsewhere);
  BufferPlaces places(program, elsewhere, leftOut, {workspace.data(), 1536});
  EXPECT_TRUE(places.borrows());
  EXPECT_EQ(places.arenaBytes(Space::Device), 0);
  EXPECT_EQ(places.elsewhere(kInput), workspace.data());
  EXPECT_EQ(places.elsewhere(kOutput), workspace.data() + 512);
  for (int32_t i : {kPlain, kView, kPacked})
    EXPECT_TRUE(places.isHeldElsewhere(i));
  EXPECT_FALSE(places.isHeldElsewhere(kInput)) << "what is lent is not held";
  BufferPlaces tooLittle(program, elsewhere, leftOut, {workspace.data(), 1535});
  EXPECT_FALSE(tooLittle.borrows());
  EXPECT_EQ(tooLittle.arenaBytes(Space::Device), 1536);
}

TEST(BufferPlaces, LoadMakesWhatOnlyAnotherMadeValueIsMadeOf) {
  Program program = sample();
  program.buffers.push_back(buffer(4096, 1024));
  program.arenaBytes[0] = 5120;
  int32_t second = int32_t(program.buffers.size()) - 1;
  program.entries[0].instructions.push_back(launch({kPacked, second}));
  program.entries[1].instructions[0] = launch({second, kInput, kOutput});
  std::vector<uint8_t> other(1024);
  EXPECT_EQ(leftOutOfLoad(program, {{second, other.data()}}),
            std::vector<bool>({true, true, true}));
  // What another holds is read there.
  EXPECT_EQ(leftOutOfLoad(program, {{kPacked, other.data()}}),
            std::vector<bool>({true, true, false}));
}

TEST(BufferPlaces, MessagesAreNotLeftOut) {
  Program program = sample();
  Instruction gather;
  gather.payload = Collective{CollectiveKind::AllGather, kRead, kPacked};
  program.entries[0].instructions[1] = gather;
  std::vector<uint8_t> other(1024);
  EXPECT_EQ(leftOutOfLoad(program, {{kPacked, other.data()}}), std::vector<bool>({false, false}));
}

} // namespace
