// SPDX-License-Identifier: Apache-2.0
// Tables that FlatBuffers finds well formed and no writer of ours makes: what decoding says.
#include "Encode.h"

#include "autopar/Artifact/Program_generated.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>

using namespace autopar;
using namespace autopar::artifact;
using flatbuffers::FlatBufferBuilder;

namespace {

using Table = flatbuffers::Offset<void>;

std::string errorOf(FlatBufferBuilder &builder, flatbuffers::Offset<fb::Program> program) {
  builder.Finish(program, "APPR");
  auto decoded = decodeProgram({builder.GetBufferPointer(), builder.GetSize()});
  return decoded ? "" : decoded.status().message();
}

/// What is said of a program of one instruction, whose payload `make` builds.
std::string errorOfPayload(fb::Payload kind,
                           const std::function<Table(FlatBufferBuilder &)> &make) {
  FlatBufferBuilder b;
  Table payload = make(b);
  auto instruction = fb::CreateInstruction(b, 0, 0, 0, 0, 0, 0, kind, payload);
  auto entry = fb::CreateEntry(b, 0, b.CreateVector(&instruction, 1));
  auto entries = b.CreateVector(&entry, 1);
  auto arenas = b.CreateVector(std::vector<int64_t>(kSpaceCount));
  return errorOf(b, fb::CreateProgram(b, 0, arenas, 0, 0, 0, entries));
}

TEST(Decode, Payloads) {
  using B = FlatBufferBuilder;
  auto none = [](B &) { return Table(); };
  EXPECT_EQ(errorOfPayload(fb::Payload_Copy, [](B &b) { return fb::CreateCopy(b).Union(); }), "");
  EXPECT_EQ(errorOfPayload(fb::Payload_Copy, none), "instruction without a payload");
  EXPECT_EQ(errorOfPayload(fb::Payload(99), none), "unknown instruction kind 99");
  EXPECT_EQ(errorOfPayload(fb::Payload_Matmul, [](B &b) { return fb::CreateMatmul(b).Union(); }),
            "matmul without a geometry");
  EXPECT_EQ(errorOfPayload(fb::Payload_Convolution,
                           [](B &b) { return fb::CreateConvolution(b).Union(); }),
            "convolution without a geometry");
  EXPECT_EQ(errorOfPayload(fb::Payload_Pack, [](B &b) { return fb::CreatePack(b).Union(); }),
            "pack needs exactly one geometry");
  EXPECT_EQ(errorOfPayload(fb::Payload_Read, [](B &b) { return fb::CreateRead(b, 0, -1).Union(); }),
            "");
}

TEST(Decode, Programs) {
  FlatBufferBuilder b;
  EXPECT_EQ(errorOf(b, fb::CreateProgram(b)), "program needs one arena size per space");
  // Bytes that lie four further than an allocation: all lists of 8-byte elements are misaligned.
  FlatBufferBuilder m;
  auto arenas = m.CreateVector(std::vector<int64_t>(kSpaceCount));
  m.Finish(fb::CreateProgram(m, 0, arenas), "APPR");
  std::vector<uint64_t> moved(m.GetSize() / 8 + 2);
  auto *bytes = reinterpret_cast<uint8_t *>(moved.data()) + 4;
  std::memcpy(bytes, m.GetBufferPointer(), m.GetSize());
  EXPECT_EQ(decodeProgram({bytes, m.GetSize()}).status().message(), "misaligned list");
}

TEST(Decode, Enumerations) {
  auto errorOfBuffer = [](uint8_t space, uint8_t type) {
    FlatBufferBuilder b;
    auto buffer = fb::CreateBuffer(b, 0, space, 0, 0, type);
    auto buffers = b.CreateVector(&buffer, 1);
    auto arenas = b.CreateVector(std::vector<int64_t>(kSpaceCount));
    return errorOf(b, fb::CreateProgram(b, 0, arenas, buffers));
  };
  EXPECT_EQ(errorOfBuffer(0, 0), "");
  EXPECT_EQ(errorOfBuffer(200, 0), "unknown space 200");
  EXPECT_EQ(errorOfBuffer(0, 200), "unknown element type 200");
}

/// Well formed, and a thousand times as large in memory as in the file.
TEST(Decode, WhatIsSharedByThousands) {
  const std::string overlap = "lists or texts overlap; compile the model again";
  std::vector<int64_t> arenas(kSpaceCount);
  FlatBufferBuilder texts;
  std::vector<flatbuffers::Offset<flatbuffers::String>> symbols(
      2000, texts.CreateString(std::string(20'000, 'x')));
  auto kernels = texts.CreateVector(symbols);
  EXPECT_EQ(errorOf(texts, fb::CreateProgram(texts, 0, texts.CreateVector(arenas), 0, 0, kernels)),
            overlap);
  FlatBufferBuilder lists;
  auto shape = lists.CreateVector(std::vector<int64_t>(2000));
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers;
  for (int i = 0; i < 2000; ++i)
    buffers.push_back(fb::CreateBuffer(lists, 0, 0, 0, 0, 0, shape));
  auto list = lists.CreateVector(buffers);
  EXPECT_EQ(errorOf(lists, fb::CreateProgram(lists, 0, lists.CreateVector(arenas), list)), overlap);
  FlatBufferBuilder tables;
  std::vector<flatbuffers::Offset<fb::Instruction>> instructions(2000,
                                                                 fb::CreateInstruction(tables));
  std::vector<flatbuffers::Offset<fb::Entry>> entries(
      2000, fb::CreateEntry(tables, 0, tables.CreateVector(instructions)));
  auto vector = tables.CreateVector(entries);
  EXPECT_EQ(
      errorOf(tables, fb::CreateProgram(tables, 0, tables.CreateVector(arenas), 0, 0, 0, vector)),
      "not a well-formed program table");
}

} // namespace
