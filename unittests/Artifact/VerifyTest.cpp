// SPDX-License-Identifier: Apache-2.0
// What programs, rank tables and geometries must not say: each refusal, whole.
#include "autopar/Artifact/Verify.h"
#include "SampleArtifact.h"
#include "autopar/Artifact/CudaTarget.h"

#include <gtest/gtest.h>

#include <functional>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::testing;

namespace {

constexpr int64_t kMost = INT64_MAX;

/// What is said of the sample's program after `spoil`.
std::string problem(const std::function<void(Program &)> &spoil) {
  Contents contents = sampleContents(2, {1}, "weights.bin");
  spoil(contents.classes[0].program);
  return verifyProgram(contents.classes[0].program, contents.constants.size()).message();
}

/// The same of an instruction that is added to the entry "step".
std::string problemOf(Payload payload) {
  std::string said = problem([&](Program &p) {
    Instruction instruction;
    instruction.id = "n";
    instruction.payload = std::move(payload);
    p.entries[1].instructions.push_back(instruction);
  });
  const std::string where = "entry step: instruction 4 (n): ";
  EXPECT_EQ(said.rfind(where, 0), 0u) << said;
  return said.substr(std::min(said.size(), where.size()));
}

TEST(Verify, Buffers) {
  using P = Program;
  EXPECT_EQ(problem([](P &) {}), "");
  EXPECT_EQ(problem([](P &p) { p.arenaBytes[1] = -1; }), "negative arena size");
  EXPECT_EQ(problem([](P &p) { p.buffers[0].slots = 0; }),
            "buffer 0 (x): negative offset, size or slot stride, or no slot");
  EXPECT_EQ(problem([](P &p) { p.buffers[0].offset = 1 << 20; }),
            "buffer 0 (x): bytes [1048576, + 128) lie outside the arena of " +
                std::to_string(sampleContents(2, {1}, "w").classes[0].program.arenaBytes[0]) +
                " bytes");
  EXPECT_EQ(problem([](P &p) { p.buffers[0].shape[0] = 5; }),
            "buffer 0 (x): the shape needs more than its 128 bytes");
  EXPECT_EQ(problem([](P &p) { p.buffers[0].offset = 2; }),
            "buffer 0 (x): offset or slot stride is not a multiple of the element size");
  EXPECT_EQ(problem([](P &p) { p.kernels[0] = ""; }), "a kernel has no symbol name");
  EXPECT_EQ(problem([](P &p) { p.plannedThreads = 0; }), "planned threads must be at least 1");
  EXPECT_EQ(problem([](P &p) { p.controlBuffer = 99; }),
            "control buffer: buffer index 99 is out of range");
  EXPECT_EQ(problem([](P &p) { p.rankValuesBuffer = 99; }),
            "rank values buffer: buffer index 99 is out of range");
  EXPECT_EQ(problem([](P &p) { p.controlBuffer = 0; }), ""); // 128 bytes, as many as are needed
  EXPECT_EQ(problem([](P &p) { p.controlBuffer = 3; }),
            "control buffer: buffer 3 (w2) has 80 bytes, needed are 128");
}

TEST(Verify, Ports) {
  using P = Program;
  EXPECT_EQ(problem([](P &p) { p.ports[0].name = ""; }), "port 0 (): the name is empty");
  EXPECT_EQ(problem([](P &p) { p.ports[2].name = "y"; }),
            "port 2 (y): two ports of one role have this name");
  EXPECT_EQ(problem([](P &p) { p.ports[0].shape[0] = -1; }),
            "port 0 (x): the global shape is negative or too large");
  EXPECT_EQ(problem([](P &p) { p.ports[0].microBatches = 3; }),
            "port 0 (x): 3 micro-batches do not fit the global shape");
  EXPECT_EQ(problem([](P &p) { p.ports[0].buffer = -1; }),
            "port 0 (x): only a parameter may have no buffer");
  EXPECT_EQ(problem([](P &p) { p.ports[0].buffer = 99; }),
            "port 0 (x): buffer index 99 is out of range");
  EXPECT_EQ(problem([](P &p) { p.ports[0].dtype = DataType::I32; }),
            "port 0 (x): type or rank of buffer 0 (x) differs");
  EXPECT_EQ(problem([](P &p) { p.ports[1].guards = true; }),
            "port 1 (y): only a metric that is an f32 or f64 scalar may guard");
  EXPECT_EQ(problem([](P &p) { p.ports[1].evaluated = true; }),
            "port 1 (y): only a metric of one float may be evaluated");
  EXPECT_EQ(problem([](P &p) {
              p.ports[0].limits = Limits{0, 1, {}};
            }),
            "port 0 (x): only an input of integers may have limits, the lower one first");
  EXPECT_EQ(
      problem([](P &p) { p.ports[0].missing = "n"; }),
      "port 0 (x): only an input that is an i64 scalar says how much of an extent is missing");
  for (VaryingDim varying : {VaryingDim{2, "n", 1}, VaryingDim{0, "n", 0}, VaryingDim{0, "n", 1000},
                             VaryingDim{0, "n", 1, 0}, VaryingDim{0, "n", 1, 1000}})
    EXPECT_EQ(problem([&](P &p) { p.ports[0].varying = {varying}; }),
              "port 0 (x): only a dimension of an input or output varies, from 1 or more positions "
              "on, in steps that lead to all of it");
  EXPECT_EQ(problem([](P &p) {
              p.ports[3].varying = {{0, "n", 1}};
            }),
            "port 3 (w1): only a dimension of an input or output varies, from 1 or more positions "
            "on, in steps that lead to all of it");
  EXPECT_EQ(problem([](P &p) { p.ports[0].modelShape = p.ports[0].shape; }),
            "port 0 (x): only a parameter or state may have another shape in the model, of as many "
            "elements");
  EXPECT_EQ(problem([](P &p) { p.ports[3].modelShape = {3}; }),
            "port 3 (w1): only a parameter or state may have another shape in the model, of as "
            "many elements");
  EXPECT_EQ(
      problem([](P &p) { p.ports[0].transposeOf = "v"; }),
      "port 0 (x): only a matrix that is a parameter or state may be the transpose of another");
  EXPECT_EQ(problem([](P &p) { p.ports[4].transposeOf = p.ports[3].name; }),
            "port 4 (w2): two parameters or states have the source's name w1");
  EXPECT_EQ(problem([](P &p) { p.ports[3].source.kind = SourceKind::None; }),
            "port 3 (w1): a parameter needs a source");
  EXPECT_EQ(problem([](P &p) { p.ports[3].source.drawn = "zeros"; }),
            "port 3 (w1): only a parameter without weights is drawn");
  EXPECT_EQ(problem([](P &p) { p.ports[3].source.length = 4; }),
            "port 3 (w1): source length 4 is not the tensor's 256 bytes, or its offset is out of "
            "range");
  EXPECT_EQ(problem([](P &p) { p.ports[4].source.offset = 100; }),
            "port 4 (w2): source lies outside the constants");
  EXPECT_EQ(problem([](P &p) { p.ports[3].source.path = ""; }),
            "port 3 (w1): source path is empty or malformed");
  EXPECT_EQ(problem([](P &p) { p.ports[3].source.chunkDigests.resize(2); }),
            "port 3 (w1): expected 1 chunk digests, found 2");
}

TEST(Verify, Entries) {
  using P = Program;
  auto act = [](P &p) -> Instruction & { return p.entries[1].instructions[1]; };
  EXPECT_EQ(problem([](P &p) { p.entries[1].name = "load"; }),
            "entry name 'load' is empty or not unique");
  EXPECT_EQ(problem([&](P &p) { act(p).after = {1}; }),
            "entry step: instruction 1 (act): waits for instruction 1, which is not earlier");
  EXPECT_EQ(problem([&](P &p) { act(p).evaluated = act(p).commits = true; }),
            "entry step: instruction 1 (act): an evaluation must not commit");
  EXPECT_EQ(problem([&](P &p) { act(p).flops = -1; }),
            "entry step: instruction 1 (act): negative cost");
  EXPECT_EQ(problem([](P &p) { p.timetable[0].entry = 5; }),
            "timetable: entry index 5 is out of range");
  EXPECT_EQ(problem([](P &p) {
              p.buffers[0].slots = 2;
              p.timetable[0].slot = 2;
            }),
            "timetable: slot 2 of entry step is out of range");
  EXPECT_EQ(problem([](P &p) {
              p.timetable.resize((1 << 24) + 1, {1, 0});
            }),
            "timetable: a step runs more than 67108864 instructions, counted with what they wait "
            "for");
  EXPECT_EQ(problem([&](P &p) {
              act(p).payload = Send{0, 0, 4, INT32_MAX - 1};
              p.timetable[0].slot = 2;
            }),
            "timetable: slot 2 of entry step is out of range");
  EXPECT_EQ(problem([&](P &p) {
              act(p).awaits = {{1, 4}};
            }),
            "entry step: instruction 1 (act): awaits instruction 4 of entry step, which has 4");
  EXPECT_EQ(problem([&](P &p) {
              act(p).awaits = {{0, 0}};
            }),
            "entry step: instruction 1 (act): awaits an instruction of entry 0, but no row of the "
            "timetable runs them both");
}

TEST(Verify, Instructions) {
  EXPECT_EQ(problemOf(Launch{9, {0}}), "kernel index 9 is out of range");
  EXPECT_EQ(problemOf(Launch{0, {0}, -1}), "negative extent");
  EXPECT_EQ(problemOf(Launch{0, {0}, 1, 2}), "more outputs than arguments");
  EXPECT_EQ(problemOf(Launch{0, {99}}), "argument: buffer index 99 is out of range");
  MatmulGeometry product;
  product.a = {{4, 8}, {8, 1}};
  product.b = {{8, 4}, {4, 1}};
  product.c = {{4, 4}, {4, 1}};
  EXPECT_EQ(problemOf(Matmul{product, 0, 1, 4, 3, -1, -1}), "bias has a buffer but is not used");
  product.hasBias = true;
  EXPECT_EQ(problemOf(Matmul{product, 0, 1, 4, -1, -1, -1}), "bias has no buffer");
  product.a.strides[0] = kMost;
  EXPECT_EQ(problemOf(Matmul{product, 0, 1, 4, 3, -1, -1}),
            "a: buffer 0 (x) has 128 bytes, needed are too many");
  EXPECT_EQ(problemOf(Reorder{0, 1, DataType::F32, {4, 8}, Layout::Plain, Layout::Plain}),
            "reorder needs 1 to 3 spatial dims");
  EXPECT_EQ(problemOf(Collective{CollectiveKind::AllReduce, 0, 1, -1}),
            "negative group index or count");
  EXPECT_EQ(problemOf(Permute{0, 1, -1, 16}), "negative permutation index");
  EXPECT_EQ(problemOf(Send{0, -1, 16, 0}), "negative peer index or tag");
  EXPECT_EQ(problemOf(Recv{0, 0, 16, -1}), "negative peer index or tag");
  EXPECT_EQ(problemOf(Copy{0, -1, 1, 0, 16}),
            "source: buffer 0 (x) has 128 bytes, needed are too many");
  EXPECT_EQ(problemOf(Read{99, 0}), "port index 99 is out of range");
  EXPECT_EQ(problemOf(Read{0, 0}), "port x is not a parameter");
  EXPECT_EQ(problemOf(Read{3, 9}), "type or rank of buffer control differs from that of port w1");
}

/// What is said of the sample's rank tables after `spoil`.
std::string problemOfRanks(const std::function<void(Contents &)> &spoil) {
  Contents contents = sampleContents(2, {1}, "weights.bin");
  contents.classes[0].program.entries[1].instructions[0].id = "n";
  spoil(contents);
  return verifyRanks(contents.ranks, {&contents.classes[0].program}).message();
}

TEST(Verify, Ranks) {
  using C = Contents;
  EXPECT_EQ(problemOfRanks([](C &) {}), "");
  EXPECT_EQ(problemOfRanks([](C &c) { c.ranks.clear(); }), "no ranks");
  EXPECT_EQ(problemOfRanks([](C &c) { c.ranks[1].rankClass = 1; }),
            "rank 1: class 1 is out of range");
  EXPECT_EQ(problemOfRanks([](C &c) { c.ranks[1].peers = {2}; }), "rank 1: peer 2 is not a rank");
  auto group = [](std::vector<int32_t> members) {
    return problemOfRanks([&](C &c) { c.ranks[0].groups[0].members = members; });
  };
  EXPECT_EQ(group({}), "rank 0: group 0: members must be ranks of this world, at least one");
  EXPECT_EQ(group({0, 0}), "rank 0: group 0: a rank stands in the group twice");
  EXPECT_EQ(group({1}), "rank 0: group 0: the rank itself is not a member");
  EXPECT_EQ(problemOfRanks([](C &c) {
              c.ranks[1].groups[0].members = {1, 0};
            }),
            "rank 1: group 0: rank 0 lists other members for the same group");
  auto permutation = [](Permutation move) {
    return problemOfRanks([&](C &c) { c.ranks[0].permutations = {move}; });
  };
  EXPECT_EQ(permutation({2, -1}), "rank 0: permutation 0: 2 is not a rank");
  EXPECT_EQ(permutation({1, -1}),
            "rank 0: permutation 0: rank 1 does not expect what this rank sends");
  EXPECT_EQ(permutation({-1, 1}),
            "rank 0: permutation 0: rank 1 does not send what this rank expects");
}

TEST(Verify, Shards) {
  using C = Contents;
  EXPECT_EQ(problemOfRanks([](C &c) { c.ranks[0].ports.pop_back(); }),
            "rank 0: expected 5 port shards, found 4");
  EXPECT_EQ(problemOfRanks([](C &c) { c.ranks[0].ports[0].offset = {0}; }),
            "rank 0: port x: the box has another rank than the tensor");
  EXPECT_EQ(problemOfRanks([](C &c) { c.ranks[0].ports[0].replica = -1; }),
            "rank 0: port x: negative replica number");
  EXPECT_EQ(problemOfRanks([](C &c) {
              c.ranks[0].ports[0].offset = {1, 0};
            }),
            "rank 0: port x: the box lies outside the tensor in dim 0");
  EXPECT_EQ(problemOfRanks([](C &c) {
              c.ranks[0].ports[2] = {{0, 0}, {kRows, kHidden}, 0};
            }),
            "rank 0: port hidden: the box is larger than buffer a");
  EXPECT_EQ(problemOfRanks([](C &c) { c.ranks[0].rankValues.resize(3); }),
            "rank 0: more rank values than their buffer holds");
  EXPECT_EQ(problemOfRanks([](C &c) { c.classes[0].program.rankValuesBuffer = -1; }),
            "rank 0: rank values without a buffer for them");
}

TEST(Verify, UsesOfRankTables) {
  auto problemOfUse = [](Payload payload, std::vector<int32_t> peers) {
    std::string said = problemOfRanks([&](Contents &c) {
      c.ranks[0].peers = c.ranks[1].peers = peers;
      c.classes[0].program.entries[1].instructions[0].payload = payload;
    });
    const std::string where = "rank 0: entry step, instruction 0 (n): ";
    EXPECT_EQ(said.rfind(where, 0), 0u) << said;
    return said.substr(std::min(said.size(), where.size()));
  };
  auto collective = [&](CollectiveKind kind, int32_t output, int32_t group, int64_t count) {
    return problemOfUse(Collective{kind, 0, output, group, Reduction::Sum, DataType::F32, count},
                        {});
  };
  using enum CollectiveKind;
  EXPECT_EQ(collective(AllReduce, 1, 1, 1), "group index is out of range");
  EXPECT_EQ(collective(ReduceScatter, 1, 0, 3),
            "the count 3 is not a multiple of the group's size 2");
  EXPECT_EQ(collective(AllGather, 1, 0, kMost), "the output is too large");
  EXPECT_EQ(collective(AllGather, 3, 0, 32), "the output needs more bytes than buffer w2 has");
  EXPECT_EQ(problemOfUse(Permute{0, 1, 0, 16}, {}), "permutation index is out of range");
  EXPECT_EQ(problemOfUse(Send{0, 0, 16, 0}, {}), "peer index is out of range");
  EXPECT_EQ(problemOfUse(Recv{0, 0, 16, 0}, {}), "peer index is out of range");
  EXPECT_EQ(problemOfUse(Recv{0, 0, 16, 0}, {kNobody}), "receives from nobody");
  StridedShape row{{1, 1, 1, 2}, {2, 2, 2, 1}}, keys{{1, 1, 2, 2}, {4, 4, 2, 1}};
  AttentionGeometry triangle{DataType::F32, {row, keys, keys, row}, DataType::F32, {}, 1.0f, true};
  EXPECT_EQ(problemOfUse(Attention{triangle, {0, 1, 3}, {4, 5}, -1, 9, 2}, {}),
            "its rank value 9 is none of the 2 parts of the rows");
}

TEST(Verify, Matmuls) {
  auto problemOf = [](const std::function<void(MatmulGeometry &)> &spoil) {
    MatmulGeometry g;
    g.a = {{2, 4, 8}, {32, 8, 1}};
    g.b = {{2, 8, 5}, {40, 5, 1}};
    g.c = {{2, 4, 5}, {20, 5, 1}};
    spoil(g);
    return verifyGeometry(g).message();
  };
  using G = MatmulGeometry;
  EXPECT_EQ(problemOf([](G &) {}), "");
  EXPECT_EQ(problemOf([](G &g) { g.c.dims = {4}; }), "matmul rank must be 2 to 12, it is 1");
  EXPECT_EQ(problemOf([](G &g) { g.a.dims.pop_back(); }),
            "operand a needs 3 dims and strides, it has 2 and 3");
  EXPECT_EQ(problemOf([](G &g) { g.b.strides[2] = -1; }),
            "operand b has a negative dim or stride: dims [2,8,5], strides [40,5,-1]");
  EXPECT_EQ(problemOf([](G &g) { g.a.dims[0] = 3; }),
            "matmul batch dims do not broadcast: a [3,4,8], b [2,8,5], c [2,4,5]");
  EXPECT_EQ(problemOf([](G &g) { g.a.dims[2] = 9; }),
            "matmul dims do not fit: a [2,4,9], b [2,8,5], c [2,4,5]");
  const std::string known = " is not a library call; expected f32, bf16 or f16, f8E4M3FN by "
                            "f8E4M3FN to one of these, or u8 or i8 by i8 to i32";
  EXPECT_EQ(problemOf([](G &g) { g.aType = DataType::F64; }), "matmul of element type f64" + known);
  EXPECT_EQ(problemOf([](G &g) { g.aType = g.bType = DataType::F8E4M3FN; }), "");
  EXPECT_EQ(problemOf([](G &g) { g.aType = DataType::F8E4M3FN; }),
            "matmul of element type f8E4M3FN" + known);
  EXPECT_EQ(problemOf([](G &g) { g.aType = g.bType = g.cType = DataType::F8E4M3FN; }),
            "matmul of element type f8E4M3FN" + known);
  for (DataType type : {DataType::I8, DataType::U8}) {
    auto ofBytes = [&](G &g) {
      g.aType = type;
      g.bType = DataType::I8;
      g.cType = DataType::I32;
    };
    EXPECT_EQ(problemOf(ofBytes), "");
    EXPECT_EQ(problemOf([&](G &g) {
                ofBytes(g);
                g.hasBias = true;
              }),
              "a product of integers has no bias, no scale and no epilogue");
    EXPECT_EQ(problemOf([&](G &g) {
                ofBytes(g);
                g.bType = DataType::U8;
              }),
              "matmul of element type " + std::string(name(type)) + known);
  }
  EXPECT_EQ(problemOf([](G &g) {
              g.hasBias = true;
              g.biasType = DataType::I32;
            }),
            "matmul bias of element type i32 is not a library call; expected f32, bf16 or f16");
  for (bool hasResidual : {false, true})
    EXPECT_EQ(problemOf([&](G &g) {
                g.epilogue = Epilogue::GeluTanhGrad;
                g.hasResidual = hasResidual;
                g.hasBias = hasResidual;
              }),
              "a product with the gradient of an activation needs the value at which it is taken "
              "as its residual, and has no bias");
  for (Epilogue epilogue : {Epilogue::GeluTanhAux, Epilogue::ReluAux, Epilogue::SumsOfA})
    EXPECT_EQ(problemOf([&](G &g) { g.epilogue = epilogue; }),
              "a product of several matrices has no gradient of an activation behind it and no "
              "second result: c [2,4,5]");
  for (bool isScaled : {false, true})
    EXPECT_EQ(problemOf([&](G &g) {
                g.epilogue = Epilogue::SumsOfB;
                g.hasBias = !isScaled;
                g.scale = isScaled ? 0.5f : 1.0f;
              }),
              "a product that sums up an operand has no bias and no scale");
}

TEST(Verify, SecondResultsOfProducts) {
  MatmulGeometry g;
  g.a = {{4, 8}, {8, 1}};
  g.b = {{8, 130}, {130, 1}};
  g.c = {{4, 130}, {130, 1}};
  auto bytes = [&](Epilogue epilogue) {
    g.epilogue = epilogue;
    EXPECT_TRUE(verifyGeometry(g).isOk());
    return auxBytes(g).value();
  };
  EXPECT_EQ(bytes(Epilogue::None), 0);
  EXPECT_EQ(bytes(Epilogue::GeluTanhAux), 4 * 130 * 4);
  EXPECT_EQ(bytes(Epilogue::SumsOfA), 4 * 4);
  EXPECT_EQ(bytes(Epilogue::SumsOfB), 130 * 4);
  EXPECT_EQ(bytes(Epilogue::ReluAux), 4 * 32);
  // Lines are columns where these lie one after the other.
  g.c.strides = {1, 4};
  EXPECT_EQ(bytes(Epilogue::ReluAux), 130 * 16);
  g.epilogue = Epilogue::ReluGrad;
  EXPECT_EQ(residualBytes(g).value(), 130 * 16);
}

TEST(Verify, Convolutions) {
  auto problemOf = [](const std::function<void(ConvolutionGeometry &)> &spoil) {
    ConvolutionGeometry g;
    g.x = {1, 2, 4, 4};
    g.w = {2, 2, 3, 3};
    g.y = {1, 2, 2, 2};
    g.strides = g.dilations = {1, 1};
    g.padsBegin = g.padsEnd = {0, 0};
    spoil(g);
    return verifyGeometry(g).message();
  };
  using G = ConvolutionGeometry;
  EXPECT_EQ(problemOf([](G &) {}), "");
  EXPECT_EQ(problemOf([](G &g) {
              g.x = {1, 2};
            }),
            "convolution needs 1 to 3 spatial dims, x is [1,2]");
  EXPECT_EQ(problemOf([](G &g) { g.w.pop_back(); }),
            "convolution ranks do not fit: x [1,2,4,4], w [2,2,3], y [1,2,2,2]");
  EXPECT_EQ(problemOf([](G &g) { g.x[0] = -1; }), "convolution dim out of range: [-1,2,4,4]");
  EXPECT_EQ(problemOf([](G &g) { g.groups = 2; }),
            "convolution channels do not fit: input [1,2,4,4], filter [2,2,3,3], output [1,2,2,2], "
            "groups 2");
  EXPECT_EQ(problemOf([](G &g) { g.strides[0] = 0; }),
            "convolution strides, dilations or pads out of range");
  EXPECT_EQ(problemOf([](G &g) { g.y[3] = 3; }),
            "convolution spatial dim 1: expected 2, output is [1,2,2,3]");
  EXPECT_EQ(problemOf([](G &g) {
              g.kind = ConvolutionKind::InputGradient;
              std::swap(g.x, g.y);
            }),
            "");
  EXPECT_EQ(problemOf([](G &g) {
              g.kind = ConvolutionKind::FilterGradient;
              std::swap(g.w, g.y);
              g.hasBias = true;
            }),
            "the gradient of a convolution has another algorithm, or an epilogue");
  EXPECT_EQ(problemOf([](G &g) {
              g.kind = ConvolutionKind::FilterGradient;
              std::swap(g.w, g.y);
              g.packedW = true;
            }),
            "the gradient of a filter is not packed, nor is what it is made of");
  EXPECT_EQ(problemOf([](G &g) { g.epilogue = Epilogue::GeluTanhGrad; }),
            "a convolution has no gradient of an activation behind it, and no second result");
  EXPECT_EQ(
      problemOf([](G &g) { g.wType = DataType::F64; }),
      "convolution of element type f64 is not a library call; expected f32, bf16 or f16, or u8 "
      "or i8 by i8 to i32");
  auto ofBytes = [](G &g) {
    g.xType = DataType::U8;
    g.wType = DataType::I8;
    g.yType = DataType::I32;
  };
  EXPECT_EQ(problemOf(ofBytes), "");
  EXPECT_EQ(problemOf([&](G &g) {
              ofBytes(g);
              g.epilogue = Epilogue::Relu;
            }),
            "a convolution of integers has no bias, no epilogue, no other algorithm and no "
            "gradient");
}

TEST(Verify, Attention) {
  auto problemOf = [](const std::function<void(AttentionGeometry &)> &spoil) {
    StridedShape rows{{1, 1, 2, 2}, {4, 4, 2, 1}};
    AttentionGeometry g{DataType::F32, {rows, rows, rows, rows}, DataType::F32, {}, 1.0f, false};
    spoil(g);
    return verifyGeometry(g).message();
  };
  using G = AttentionGeometry;
  EXPECT_EQ(problemOf([](G &) {}), "");
  EXPECT_EQ(problemOf([](G &g) { g.operands.pop_back(); }),
            "attention needs 4 operands, or 8 of a gradient, it has 3");
  EXPECT_EQ(problemOf([](G &g) { g.type = DataType::F64; }),
            "attention of element type f64 is not a library call; expected f32, bf16 or f16");
  EXPECT_EQ(problemOf([](G &g) { g.operands[1].strides[3] = 2; }),
            "attention: an operand needs 4 dims and strides, the last stride being 1");
  EXPECT_EQ(problemOf([](G &g) { g.operands[1].dims[2] = 0; }),
            "attention: an operand has an empty dim or a negative stride");
  EXPECT_EQ(problemOf([](G &g) { g.operands[1].dims[2] = 3; }),
            "attention: the operands' dims do not fit");
  EXPECT_EQ(problemOf([](G &g) {
              g.bias = {{1, 1, 2, 3}, {0, 0, 0, 1}};
            }),
            "attention: the bias' dims do not fit the scores");
  EXPECT_EQ(problemOf([](G &g) { g.window = 2; }),
            "attention: a window of 2 keys needs a causal mask");
}

TEST(Verify, GroupedProducts) {
  using G = GroupedProductGeometry;
  auto problemOf = [](const std::function<void(G &)> &spoil) {
    G g{.lhs = {{3, 4}, {4, 1}}, .rows = {{3, 2}, {2, 1}}, .groups = 2};
    spoil(g);
    return verifyGeometry(g).message();
  };
  EXPECT_EQ(problemOf([](G &) {}), "");
  EXPECT_EQ(problemOf([](G &g) { g.type = DataType::F16; }),
            "a grouped product of element type f16 is not a library call; expected f32 or bf16");
  EXPECT_EQ(problemOf([](G &g) { g.groupType = DataType::I8; }),
            "groups of rows are numbers of type i8; expected i32 or i64");
  EXPECT_EQ(problemOf([](G &g) { g.lhs.strides[1] = 2; }),
            "a grouped product needs as many strides as dims, at least one, the last stride being "
            "1");
  EXPECT_EQ(problemOf([](G &g) { g.rows.dims[1] = 0; }),
            "a grouped product has an empty dim or a negative stride");
  EXPECT_EQ(problemOf([](G &g) { g.rows.dims[0] = 4; }),
            "both sides of a grouped product need the same rows");
  EXPECT_EQ(problemOf([](G &g) { g.groups = 0; }),
            "a grouped product needs a group, and its gradient is not transposed");
  EXPECT_EQ(problemOf([](G &g) { g.transposed = g.isGradient = true; }),
            "a grouped product needs a group, and its gradient is not transposed");
  EXPECT_EQ(problemOf([](G &g) { g.madeColumns = 1; }), "");
  EXPECT_EQ(problemOf([](G &g) {
              g.rows = {{3, 8}, {8, 1}}, g.madeColumns = 3;
            }),
            "a kernel makes 3 columns of a matrix at a time; expected a divisor of 8, and no "
            "gradient");
  EXPECT_EQ(problemOf([](G &g) { g.isGradient = true, g.madeColumns = 2; }),
            "a kernel makes 2 columns of a matrix at a time; expected a divisor of 2, and no "
            "gradient");
}

TEST(Verify, BuffersOfGroupedProducts) {
  auto problemOf = [](int32_t lhs, int32_t rhs, int32_t group, int32_t result) {
    Contents contents = sampleContents(2, {1}, "weights.bin");
    Program &program = contents.classes[0].program;
    Instruction product;
    product.payload =
        GroupedProduct{{.lhs = {{1, 1}, {1, 1}}, .rows = {{1, 1}, {1, 1}}, .groups = 1},
                       lhs,
                       rhs,
                       group,
                       result,
                       -1};
    program.entries[1].instructions.push_back(product);
    return verifyProgram(program, contents.constants.size()).message();
  };
  EXPECT_EQ(problemOf(0, 0, 0, 0), "");
  auto isNamed = [](const std::string &problem, const char *what) {
    return problem.find(std::string(what) + ": buffer index 99 is out of range") !=
           std::string::npos;
  };
  EXPECT_TRUE(isNamed(problemOf(99, 0, 0, 0), "left side"));
  EXPECT_TRUE(isNamed(problemOf(0, 99, 0, 0), "right side"));
  EXPECT_TRUE(isNamed(problemOf(0, 0, 99, 0), "groups of rows"));
  EXPECT_TRUE(isNamed(problemOf(0, 0, 0, 99), "result"));
}

TEST(Verify, MakersOfMatrices) {
  auto problemOf = [](const std::function<void(GroupedProduct &)> &spoil) {
    Contents contents = sampleContents(2, {1}, "weights.bin");
    Program &program = contents.classes[0].program;
    // Buffer 0 has four bytes, of which each of two matrices is made of two.
    GroupedProduct product{
        {.lhs = {{1, 1}, {1, 1}}, .rows = {{1, 1}, {1, 1}}, .groups = 2, .madeColumns = 1},
        0,
        -1,
        0,
        0,
        -1,
        MatrixMaker{0, 1, {0}, {2}, {0}}};
    spoil(product);
    Instruction instruction;
    instruction.payload = product;
    program.entries[1].instructions.push_back(instruction);
    return verifyProgram(program, contents.constants.size()).message();
  };
  auto has = [&](const std::function<void(GroupedProduct &)> &spoil, const char *what) {
    std::string problem = problemOf(spoil);
    EXPECT_NE(problem.find(what), std::string::npos) << problem << " has no: " << what;
  };
  EXPECT_EQ(problemOf([](GroupedProduct &) {}), "");
  has([](GroupedProduct &p) { p.maker.reset(); },
      "a kernel that makes matrices and columns to make belong together");
  has([](GroupedProduct &p) { p.rhs = 0; }, "right side has a buffer but is not used");
  has([](GroupedProduct &p) { p.maker->kernel = 99; }, "kernel index 99 is out of range");
  has([](GroupedProduct &p) { p.maker->extent = -1; }, "negative extent");
  has([](GroupedProduct &p) { p.maker->matrixSteps.clear(); }, "two steps for each of its inputs");
  has([](GroupedProduct &p) { p.maker->columnSteps[0] = -1; },
      "a step to the next matrix is negative or too large");
  has([](GroupedProduct &p) { p.maker->matrixSteps[0] = int64_t(1) << 40; },
      "what matrices are made of");
}

TEST(Verify, CudaTargets) {
  EXPECT_EQ(CudaTarget::parse("sm_90").status().message(),
            "the CUDA target 'sm_90' is malformed; expected, for example, ptx8.0+sm_80+sm_90");
  EXPECT_EQ(CudaTarget::parse("ptx8.0+sm_80+sm_70").status().message(),
            "the CUDA target 'ptx8.0+sm_80+sm_70' names a chip that its PTX cannot run on");
}

TEST(Verify, Kernels) {
  auto problemOf = [](bool isCuda, const CompiledKernels &code, bool launches = true) {
    Contents contents = sampleContents(2, {1}, "weights.bin");
    Program program = contents.classes[0].program;
    if (!launches)
      program.kernels.clear();
    Target target = contents.target;
    if (isCuda)
      target = {"cuda", "ptx8.0+sm_80+sm_80"};
    return verifyKernels(program, target, code).message();
  };
  const std::vector<uint8_t> bytes{1, 2};
  EXPECT_EQ(problemOf(false, {.ptx = bytes}), "has CUDA kernels, but the target is no GPU");
  EXPECT_EQ(problemOf(false, {}), "kernels are named but none are given");
  EXPECT_EQ(problemOf(true, {.object = bytes}), "has x86-64 kernels, but the target is CUDA");
  EXPECT_EQ(problemOf(true, {}), "kernels are named but there is no PTX");
  EXPECT_EQ(problemOf(true, {.ptx = bytes}), "the PTX is not a text that ends with a zero byte");
}

} // namespace
