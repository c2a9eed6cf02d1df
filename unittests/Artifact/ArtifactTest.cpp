// SPDX-License-Identifier: Apache-2.0
// Round trip, reproducibility and refusal of damaged or wrong artifacts.
#include "SampleArtifact.h"
#include "autopar/Artifact/CudaTarget.h"
#include "autopar/Artifact/Dump.h"
#include "autopar/Artifact/Reader.h"
#include "autopar/Artifact/Writer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <unistd.h>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::testing;

namespace {

/// Kernels are opaque here.
Contents sample(int32_t ranks = 2) { return sampleContents(ranks, {1, 2, 3, 4}, "weights.bin"); }

std::vector<uint8_t> sampleBytes() {
  auto bytes = serialize(sample());
  EXPECT_TRUE(bytes.isOk()) << bytes.status().message();
  return bytes.isOk() ? *bytes : std::vector<uint8_t>();
}

/// Refused with BadInput and a message that names a place.
::testing::AssertionResult isRefused(const std::vector<uint8_t> &bytes) {
  auto reader = Reader::fromBytes(bytes, "test.bin");
  if (reader.isOk())
    return ::testing::AssertionFailure() << "accepted";
  const std::string &message = reader.status().message();
  bool namesPlace = message.find("header") != std::string::npos ||
                    message.find("section") != std::string::npos ||
                    message.find("table of contents") != std::string::npos ||
                    message.find("padding") != std::string::npos;
  if (reader.status().code() != StatusCode::BadInput || !namesPlace)
    return ::testing::AssertionFailure() << "refused with: " << message;
  return ::testing::AssertionSuccess();
}

TEST(Artifact, WhatRunsOncePerMicroBatchIsCalledByItsNumber) {
  Instruction instruction;
  instruction.id = "h.0/fc@7 and 2 more";
  EXPECT_EQ(instruction.idIn(4), "h.0/fc@11 and 2 more");
  EXPECT_EQ(instruction.idIn(0), "h.0/fc@7 and 2 more");
  instruction.id = "norm";
  EXPECT_EQ(instruction.idIn(4), "norm");
}

TEST(Artifact, RoundTrip) {
  Contents contents = sample(4);
  Program &repeated = contents.classes[0].program;
  repeated.timetable.push_back(repeated.timetable.front());
  repeated.entries[1].instructions[0].awaits = {{1, 3}, {1, 1}};
  auto bytes = serialize(contents);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  auto reader = Reader::fromBytes(*bytes, "test.bin");
  ASSERT_TRUE(reader.isOk()) << reader.status().message();
  EXPECT_EQ(reader->worldSize(), 4);
  EXPECT_EQ(reader->target().features, "x86-64-v2");
  EXPECT_EQ(reader->plan(), contents.plan);
  EXPECT_EQ(reader->source(), contents.source);
  EXPECT_EQ(std::vector<uint8_t>(reader->kernels(0).begin(), reader->kernels(0).end()),
            contents.classes[0].kernels);
  // Everything that was decoded encodes to the same bytes again.
  Contents again = contents;
  again.classes[0].program = reader->program(0);
  for (int32_t rank = 0; rank < 4; ++rank)
    again.ranks[size_t(rank)] = reader->rank(rank);
  auto second = serialize(again);
  ASSERT_TRUE(second.isOk());
  EXPECT_EQ(*bytes, *second);
}

TEST(Artifact, EveryPayloadSurvives) {
  Contents contents = sample(1);
  Program &program = contents.classes[0].program;
  RankTable &rank = contents.ranks[0];
  rank.peers = {0};
  rank.permutations = {{-1, -1}};
  ConvolutionGeometry conv;
  conv.x = {1, 2, 2, 2};
  conv.w = {2, 2, 1, 1};
  conv.y = {1, 2, 2, 2};
  conv.strides = conv.dilations = {1, 1};
  conv.padsBegin = conv.padsEnd = {0, 0};
  auto add = [&](Payload payload) {
    Instruction instruction;
    instruction.id = "payload" + std::to_string(payload.index());
    instruction.payload = std::move(payload);
    program.entries[1].instructions.push_back(instruction);
  };
  add(Convolution{conv, 0, 1, 4, -1, -1, -1});
  conv.kind = ConvolutionKind::InputGradient;
  add(Convolution{conv, 0, 1, 4, -1, -1, -1});
  conv.kind = ConvolutionKind::Forward;
  StridedShape rows{{1, 1, 2, 2}, {4, 4, 2, 1}};
  Attention attention{{DataType::F32, {rows, rows, rows, rows}, DataType::F32, {}, 0.5f, true},
                      {0, 1, 3},
                      {4, 5},
                      -1};
  add(attention);
  AttentionGeometry gradient = attention.geometry;
  gradient.window = 1;
  StridedShape part{{1, 1, 1, 2}, {4, 4, 2, 1}};
  gradient.operands = {part, rows, rows, part, part, part, rows, rows};
  gradient.biasType = DataType::F16;
  gradient.bias = {{1, 1, 1, 2}, {0, 0, 0, 1}};
  add(Attention{gradient, {0, 1, 3, 4, 5, 0, 1}, {4, 5, 7}, -1, 1, 2});
  GroupedProduct grouped{{DataType::F32,
                          DataType::F32,
                          DataType::I32,
                          {{2, 2}, {2, 1}},
                          {{2, 1}, {1, 1}},
                          1,
                          true,
                          false},
                         0,
                         1,
                         3,
                         4,
                         -1};
  add(grouped);
  GroupedProduct made = grouped;
  made.rhs = -1;
  made.geometry.madeColumns = 1;
  made.maker = MatrixMaker{0, 2, {1}, {4}, {0}};
  add(made);
  add(Pack{1, 2, conv});
  add(Reorder{0, 1, DataType::F32, {1, 2, 2, 2}, Layout::Plain, Layout::ChannelsLast});
  add(Permute{0, 1, 0, 16});
  add(Send{0, 0, 16, 3});
  add(Recv{0, 0, 16, 3});
  add(Copy{0, 4, 1, 8, 16});
  auto bytes = serialize(contents);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  auto reader = Reader::fromBytes(*bytes, "test.bin");
  ASSERT_TRUE(reader.isOk()) << reader.status().message();
  const auto &instructions = reader->program(0).entries[1].instructions;
  for (size_t i = 0; i < instructions.size(); ++i)
    EXPECT_EQ(instructions[i].payload.index(), program.entries[1].instructions[i].payload.index());
  EXPECT_EQ(std::get<Copy>(instructions.back().payload).dstOffset, 8);
  const auto &decoded = std::get<Attention>(instructions[instructions.size() - 9].payload);
  EXPECT_EQ(decoded.geometry.operands.size(), 8);
  EXPECT_EQ(decoded.geometry.bias.strides, gradient.bias.strides);
  EXPECT_TRUE(decoded.geometry.causal);
  EXPECT_EQ(decoded.geometry.window, 1);
  EXPECT_EQ(decoded.inputs.size(), 7);
  EXPECT_EQ(decoded.shardValue, 1);
  EXPECT_EQ(decoded.parts, 2);
  const auto &product = std::get<GroupedProduct>(instructions[instructions.size() - 8].payload);
  EXPECT_EQ(product.geometry, grouped.geometry);
  EXPECT_EQ(product.rhs, 1);
  EXPECT_EQ(product.group, 3);
  EXPECT_EQ(product.result, 4);
  const auto &maker = std::get<GroupedProduct>(instructions[instructions.size() - 7].payload).maker;
  ASSERT_TRUE(maker);
  EXPECT_EQ(maker->extent, 2);
  EXPECT_EQ(maker->inputs, std::vector<int32_t>{1});
  EXPECT_EQ(maker->matrixSteps, std::vector<int64_t>{4});
  EXPECT_EQ((*bytes)[128], 1 | 2 | 4)
      << "a reader that does not know parts of rows, windows or made matrices must refuse the file";
  std::string text = dumpArtifact(*reader);
  for (const char *word :
       {"fc2/all-reduce", "all_reduce", "attention", "causal", "window = 1", "convolution",
        "gradient of the input", "made by @relu_rows", "permute", "w1.packed", "relu_rows"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in\n" << text;
}

TEST(Artifact, WordsOfDrawnParametersSurvive) {
  Contents contents = sample();
  contents.classes[0].program.ports[3].source = {SourceKind::Absent, "", 0, 0, {}, {}, "zeros"};
  auto bytes = serialize(contents);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  auto reader = Reader::fromBytes(*bytes, "test.bin");
  ASSERT_TRUE(reader.isOk()) << reader.status().message();
  EXPECT_EQ(reader->programOfRank(0).ports[3].source.drawn, "zeros");
  EXPECT_NE(dumpArtifact(*reader).find(" drawn \"zeros\""), std::string::npos);
}

TEST(Artifact, SameContentsSameBytes) { EXPECT_EQ(sampleBytes(), sampleBytes()); }

TEST(Artifact, WritesAtomically) {
  std::string path = ::testing::TempDir() + "autopar-write-" + std::to_string(getpid()) + ".bin";
  ASSERT_TRUE(writeArtifact(sample(), path).isOk());
  EXPECT_EQ(readBytes(path), sampleBytes());
  EXPECT_NE(access((path + ".tmp." + std::to_string(getpid())).c_str(), F_OK), 0);
  auto reader = Reader::open(path);
  EXPECT_TRUE(reader.isOk()) << reader.status().message();
  unlink(path.c_str());
  EXPECT_EQ(writeArtifact(sample(), "/no/such/folder/x.bin").code(), StatusCode::CannotCreate);
  EXPECT_EQ(Reader::open("/no/such/file.bin").status().code(), StatusCode::NoInput);
}

TEST(CorruptArtifact, EveryHeaderAndTableByte) {
  std::vector<uint8_t> bytes = sampleBytes();
  for (size_t at = 0; at < 4096 + 6 * 64; ++at)
    for (uint8_t flip : {uint8_t(1), uint8_t(0x80), uint8_t(0xff)}) {
      bytes[at] ^= flip;
      ASSERT_TRUE(isRefused(bytes)) << "byte " << at;
      bytes[at] ^= flip;
    }
}

TEST(CorruptArtifact, TenThousandFlips) {
  std::vector<uint8_t> bytes = sampleBytes();
  std::mt19937_64 generator(1);
  for (int i = 0; i < 10000; ++i) {
    size_t at = generator() % bytes.size();
    uint8_t flip = uint8_t(1u << generator() % 8);
    bytes[at] ^= flip;
    ASSERT_TRUE(isRefused(bytes)) << "byte " << at;
    bytes[at] ^= flip;
  }
}

TEST(CorruptArtifact, EveryTruncation) {
  std::vector<uint8_t> bytes = sampleBytes();
  for (size_t size = 0; size < bytes.size(); size += 512)
    ASSERT_TRUE(isRefused({bytes.begin(), bytes.begin() + int64_t(size)})) << size;
  bytes.push_back(0);
  ASSERT_TRUE(isRefused(bytes));
}

/// Damage under valid digests: whatever the FlatBuffers hold, reading ends in a Status.
TEST(CorruptArtifact, RandomMetadataUnderValidDigestsNeverCrashes) {
  Contents contents = sample();
  std::vector<uint8_t> bytes = sampleBytes();
  std::mt19937_64 generator(2);
  ASSERT_TRUE(Reader::fromBytes(resealed(bytes), "test.bin").isOk());
  auto whole = Reader::fromBytes(bytes, "test.bin");
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::vector<uint8_t> broken = bytes;
    for (const SectionInfo &section : whole->sections())
      if (section.name == "PROGRAM" || section.name == "RANKS")
        for (int k = 0; k < 3; ++k)
          broken[section.offset + generator() % section.size] ^= uint8_t(1 + generator() % 255);
    refused += !Reader::fromBytes(resealed(broken), "test.bin").isOk();
  }
  EXPECT_GT(refused, 1000);
}

TEST(VerifyProgram, RefusesAttentionThatDoesNotFit) {
  StridedShape rows{{1, 1, 2, 2}, {4, 4, 2, 1}};
  const Attention good{{DataType::F32, {rows, rows, rows, rows}, DataType::F32, {}, 1.0f, false},
                       {0, 1, 3},
                       {4, 5},
                       -1};
  auto verify = [](const Attention &attention) {
    Contents contents = sample(1);
    Instruction instruction;
    instruction.payload = attention;
    contents.classes[0].program.entries[1].instructions.push_back(instruction);
    return serialize(contents).status();
  };
  EXPECT_TRUE(verify(good).isOk()) << verify(good).message();
  auto refuses = [&](const char *what, const std::function<void(Attention &)> &spoil) {
    Attention spoiled = good;
    spoil(spoiled);
    Status status = verify(spoiled);
    EXPECT_FALSE(status.isOk()) << what;
    EXPECT_NE(status.message().find(what), std::string::npos) << status.message();
  };
  refuses("needs 4 operands", [](Attention &a) { a.geometry.operands.pop_back(); });
  refuses("element type", [](Attention &a) { a.geometry.type = DataType::F64; });
  refuses("last stride", [](Attention &a) { a.geometry.operands[1].strides[3] = 2; });
  refuses("empty dim", [](Attention &a) { a.geometry.operands[1].dims[2] = 0; });
  refuses("do not fit", [](Attention &a) { a.geometry.operands[1].dims[2] = 3; });
  refuses("bias", [](Attention &a) { a.geometry.bias = {{1, 1, 2, 3}, {0, 0, 0, 1}}; });
  refuses("inputs", [](Attention &a) { a.inputs.push_back(0); });
  refuses("attention input", [](Attention &a) {
    for (StridedShape &operand : a.geometry.operands)
      operand.strides[2] = INT64_MAX / 2;
  });
  refuses("row sums", [](Attention &a) { a.outputs[1] = 99; });
  refuses("1 parts of rows need a triangle", [](Attention &a) { a.shardValue = 0; });
  refuses("2 parts of rows need a triangle", [](Attention &a) { a.parts = 2; });
  refuses("2 parts of rows need a triangle with as many keys", [](Attention &a) {
    a.geometry.causal = true;
    a.shardValue = 0, a.parts = 2;
  });
}

TEST(VerifyProgram, RefusesWhatDoesNotFit) {
  struct Case {
    const char *what;
    std::function<void(Contents &)> spoil;
  };
  const Case cases[] = {
      {"outside the arena",
       [](Contents &c) { c.classes[0].program.buffers[3].offset = INT64_MAX - 3; }},
      {"needs more than",
       [](Contents &c) {
         c.classes[0].program.buffers[3].shape = {INT64_MAX, INT64_MAX};
       }},
      {"kernel index",
       [](Contents &c) {
         std::get<Launch>(c.classes[0].program.entries[1].instructions[1].payload).kernel = 9;
       }},
      {"argument",
       [](Contents &c) {
         std::get<Launch>(c.classes[0].program.entries[1].instructions[1].payload).args[0] = -1;
       }},
      {"not earlier",
       [](Contents &c) { c.classes[0].program.entries[1].instructions[1].after = {1}; }},
      {"matmul",
       [](Contents &c) {
         std::get<Matmul>(c.classes[0].program.entries[1].instructions[0].payload)
             .geometry.a.dims[1] = 9;
       }},
      {"buffer 0",
       [](Contents &c) {
         std::get<Matmul>(c.classes[0].program.entries[1].instructions[0].payload)
             .geometry.a.strides[0] = INT64_MAX / 2;
       }},
      {"outside the constants", [](Contents &c) { c.constants.resize(70); }},
      {"entry index", [](Contents &c) { c.classes[0].program.timetable[0].entry = 5; }},
      {"group index",
       [](Contents &c) {
         std::get<Collective>(c.classes[0].program.entries[1].instructions[3].payload).group = 1;
       }},
      {"twice",
       [](Contents &c) {
         c.ranks[0].groups[0].members = {0, 0};
       }},
      {"other members",
       [](Contents &c) {
         c.ranks[1].groups[0].members = {1, 0};
         c.ranks[0].groups[0].members = {0, 1};
       }},
      {"box", [](Contents &c) { c.ranks[1].ports[0].offset[0] = 1; }},
      {"port hidden: the boxes of replica 0 hold 16 of the tensor's 32 elements",
       [](Contents &c) { c.ranks[1].ports[2].replica = 1; }},
      {"port x: the boxes of replica 0 hold 32 of",
       [](Contents &c) { c.classes[0].program.ports[0].shape[0] = INT64_MAX / 1024; }},
      {"rank values", [](Contents &c) { c.ranks[1].rankValues.resize(3); }},
      {"class", [](Contents &c) { c.ranks[1].rankClass = 1; }},
  };
  for (const Case &c : cases) {
    Contents contents = sample();
    c.spoil(contents);
    auto bytes = serialize(contents);
    ASSERT_FALSE(bytes.isOk()) << c.what;
    EXPECT_NE(bytes.status().message().find(c.what), std::string::npos)
        << c.what << ": " << bytes.status().message();
  }
}

/// The sample for a GPU: its kernel as PTX, which only the verifier reads here.
Contents cudaSample() {
  Contents contents = sampleContents(2, {}, "weights.bin");
  contents.target = {"cuda", CudaTarget{8, 0, 80, 90}.toText()};
  contents.classes[0].ptx = ".version 8.0\n.target sm_80\n.address_size 64\n"
                            ".visible .entry relu_rows(\n\t.param .u64 relu_rows_param_0,\n"
                            "\t.param .u64 relu_rows_param_1,\n\t.param .u64 relu_rows_param_2\n"
                            ")\n{\n\tret;\n}\n";
  contents.classes[0].cubin = {1, 2, 3};
  auto &launch = std::get<Launch>(contents.classes[0].program.entries[1].instructions[1].payload);
  launch.blocks = 4;
  launch.threads = 128;
  launch.sharedBytes = 512;
  return contents;
}

TEST(CudaArtifact, RoundTrip) {
  Contents contents = cudaSample();
  auto bytes = serialize(contents);
  ASSERT_TRUE(bytes.isOk()) << bytes.status().message();
  auto reader = Reader::fromBytes(*bytes, "test.bin");
  ASSERT_TRUE(reader.isOk()) << reader.status().message();
  EXPECT_EQ(reader->ptx(0), contents.classes[0].ptx);
  EXPECT_EQ(reader->ptx(0).data()[reader->ptx(0).size()], 0);
  EXPECT_EQ(reader->cubin(0).size(), 3u);
  EXPECT_TRUE(reader->kernels(0).empty());
  auto target = CudaTarget::parse(reader->target().features);
  ASSERT_TRUE(target.isOk());
  EXPECT_EQ(*target, (CudaTarget{8, 0, 80, 90}));
  auto &launch = std::get<Launch>(reader->program(0).entries[1].instructions[1].payload);
  EXPECT_EQ(launch.blocks, 4);
  EXPECT_EQ(launch.threads, 128);
  EXPECT_EQ(launch.sharedBytes, 512);
  EXPECT_NE(dumpArtifact(*reader).find("extent 4 grid [4, 128, 512]"), std::string::npos)
      << dumpArtifact(*reader);
}

TEST(CudaArtifact, RefusesWhatDoesNotFit) {
  struct Case {
    const char *what;
    std::function<void(Contents &, Launch &)> spoil;
  };
  const Case cases[] = {
      {"takes 3 buffers, the launch passes 2", [](Contents &, Launch &l) { l.args.pop_back(); }},
      {"no kernel relu_rows", [](Contents &c, Launch &) { c.classes[0].ptx = "no entry"; }},
      {"there is no PTX", [](Contents &c, Launch &) { c.classes[0].ptx = ""; }},
      {"ends with a zero byte", [](Contents &c, Launch &) { c.classes[0].ptx += '\0'; }},
      {"x86-64 kernels", [](Contents &c, Launch &) { c.classes[0].kernels = {1}; }},
      {"impossible launch", [](Contents &, Launch &l) { l.blocks = 0; }},
      {"impossible launch", [](Contents &, Launch &l) { l.threads = 1025; }},
      {"impossible launch", [](Contents &, Launch &l) { l.sharedBytes = 1 << 20; }},
      {"malformed", [](Contents &c, Launch &) { c.target.features = "sm_90"; }},
      {"cannot run on", [](Contents &c, Launch &) { c.target.features = "ptx8.0+sm_80+sm_70"; }},
      {"no blocks",
       [](Contents &c, Launch &) {
         c.target = {};
         c.classes[0].kernels = {1};
         c.classes[0].ptx = "";
         c.classes[0].cubin = {};
       }},
  };
  for (const Case &c : cases) {
    Contents contents = cudaSample();
    c.spoil(contents,
            std::get<Launch>(contents.classes[0].program.entries[1].instructions[1].payload));
    auto bytes = serialize(contents);
    ASSERT_FALSE(bytes.isOk()) << c.what;
    EXPECT_NE(bytes.status().message().find(c.what), std::string::npos)
        << c.what << ": " << bytes.status().message();
  }
}

} // namespace
