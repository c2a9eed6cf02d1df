// SPDX-License-Identifier: Apache-2.0
// The hand-written sample program.
#include "SampleArtifact.h"

#include <cstring>
#include <fstream>
#include <iterator>

namespace autopar::testing {

using namespace artifact;

namespace {

std::vector<float> numbers(int64_t count, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float((i * 37 + seed * 11) % 17 - 8) / 8.0f);
  return values;
}

template <typename T>
const uint8_t *bytesOf(const std::vector<T> &values) {
  return reinterpret_cast<const uint8_t *>(values.data());
}

int32_t addBuffer(Program &program, const std::string &name, std::vector<int64_t> shape,
                  DataType dtype = DataType::F32) {
  Buffer buffer;
  buffer.name = name;
  buffer.dtype = dtype;
  buffer.shape = shape;
  buffer.bytes = byteSize(dtype);
  for (int64_t dim : shape)
    buffer.bytes *= dim;
  buffer.offset = program.arenaBytes[0];
  program.arenaBytes[0] += (buffer.bytes + 63) / 64 * 64;
  program.buffers.push_back(buffer);
  return int32_t(program.buffers.size() - 1);
}

StridedShape rowMajor(int64_t rows, int64_t columns) { return {{rows, columns}, {columns, 1}}; }

Instruction instruction(const std::string &id, Queue queue, std::vector<int32_t> after,
                        Payload payload) {
  Instruction result;
  result.id = id;
  result.profileKey = "sample/" + id;
  result.queue = queue;
  result.after = std::move(after);
  result.payload = std::move(payload);
  return result;
}

MatmulGeometry product(int64_t m, int64_t k, int64_t n, bool packed) {
  MatmulGeometry geometry;
  geometry.a = rowMajor(m, k);
  geometry.b = rowMajor(k, n);
  geometry.c = rowMajor(m, n);
  geometry.packedB = packed;
  return geometry;
}

Program sampleProgram(int32_t ranks, const std::string &weightFile) {
  int64_t local = kHidden / ranks;
  Program p;
  p.name = "sample";
  int32_t x = addBuffer(p, "x", {kRows, kIn});
  int32_t w1 = addBuffer(p, "w1.staging", {kIn, local});
  int32_t w1Packed = addBuffer(p, "w1.packed", {65536}, DataType::U8);
  int32_t w2 = addBuffer(p, "w2", {local, kOut});
  int32_t h = addBuffer(p, "h", {kRows, local});
  int32_t a = addBuffer(p, "a", {kRows, local});
  int32_t partial = addBuffer(p, "y.partial", {kRows, kOut});
  int32_t y = addBuffer(p, "y", {kRows, kOut});
  int32_t values = addBuffer(p, "rank.values", {2}, DataType::I64);
  int32_t control = addBuffer(p, "control", {kControlWords}, DataType::I64);
  p.rankValuesBuffer = values;
  p.controlBuffer = control;
  p.kernels = {"relu_rows"};

  Source file;
  file.kind = SourceKind::File;
  file.path = weightFile;
  file.offset = 16;
  file.length = kIn * kHidden * 4;
  std::vector<float> weights = sampleWeight1();
  file.digest = Digest::of(weights.data(), size_t(file.length));
  file.chunkDigests = {file.digest};
  Source constants{SourceKind::Constants, "", 64, kHidden * kOut * 4, {}, {}, ""};
  p.ports = {Port{Role::Input, "x", DataType::F32, {kRows, kIn}, x, {}},
             Port{Role::Output, "y", DataType::F32, {kRows, kOut}, y, {}},
             Port{Role::Output, "hidden", DataType::F32, {kRows, kHidden}, a, {}},
             Port{Role::Parameter, "w1", DataType::F32, {kIn, kHidden}, -1, file},
             Port{Role::Parameter, "w2", DataType::F32, {kHidden, kOut}, w2, constants}};

  MatmulGeometry first = product(kRows, kIn, local, true),
                 second = product(kRows, local, kOut, false);
  p.entries = {{"load",
                {instruction("w1/read", Queue::CopyIn, {}, Read{3, w1}),
                 instruction("w1/pack", Queue::Compute, {0}, Pack{w1, w1Packed, first})}},
               {"step",
                {instruction("fc1", Queue::Compute, {}, Matmul{first, x, w1Packed, h, -1, -1, -1}),
                 // relu_rows(in, out, width as i64): one row per iteration.
                 instruction("act", Queue::Compute, {}, Launch{0, {h, a, values}, kRows}),
                 instruction("fc2", Queue::Compute, {}, Matmul{second, a, w2, partial, -1, -1, -1}),
                 instruction("fc2/all-reduce", Queue::Communication, {2},
                             Collective{CollectiveKind::AllReduce, partial, y, 0, Reduction::Sum,
                                        DataType::F32, kRows * kOut})}}};
  p.timetable = {{1, 0}};
  return p;
}

} // namespace

std::vector<float> sampleInput() { return numbers(kRows * kIn, 1); }
std::vector<float> sampleWeight1() { return numbers(kIn * kHidden, 2); }
std::vector<float> sampleWeight2() { return numbers(kHidden * kOut, 3); }

std::vector<float> sampleOutput() {
  std::vector<float> x = sampleInput(), w1 = sampleWeight1(), w2 = sampleWeight2();
  std::vector<float> y(kRows * kOut, 0.0f);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t h = 0; h < kHidden; ++h) {
      float sum = 0;
      for (int64_t k = 0; k < kIn; ++k)
        sum += x[size_t(i * kIn + k)] * w1[size_t(k * kHidden + h)];
      for (int64_t o = 0; o < kOut; ++o)
        y[size_t(i * kOut + o)] += std::max(sum, 0.0f) * w2[size_t(h * kOut + o)];
    }
  return y;
}

Contents sampleContents(int32_t ranks, const std::vector<uint8_t> &kernels,
                        const std::string &weightFile) {
  Contents contents;
  contents.target.features = "x86-64-v2";
  contents.classes.push_back({sampleProgram(ranks, weightFile), kernels});
  contents.constants.assign(64, 7);
  std::vector<float> w2 = sampleWeight2();
  contents.constants.insert(contents.constants.end(), bytesOf(w2), bytesOf(w2) + w2.size() * 4);
  contents.plan = R"({"kind": "autopar.plan", "version": 1})";
  contents.source = "module {}\n";
  int64_t local = kHidden / ranks;
  for (int32_t rank = 0; rank < ranks; ++rank) {
    RankTable table;
    table.groups.resize(1);
    for (int32_t member = 0; member < ranks; ++member)
      table.groups[0].members.push_back(member);
    table.rankValues = {local, rank};
    int64_t at = rank * local;
    table.ports = {PortShard{{0, 0}, {kRows, kIn}, rank}, PortShard{{0, 0}, {kRows, kOut}, rank},
                   PortShard{{0, at}, {kRows, local}, 0}, PortShard{{0, at}, {kIn, local}, 0},
                   PortShard{{at, 0}, {local, kOut}, 0}};
    contents.ranks.push_back(table);
  }
  return contents;
}

void writeSampleWeights(const std::string &path) {
  std::ofstream file(path, std::ios::binary);
  file << "sixteen bytes...";
  std::vector<float> w1 = sampleWeight1();
  file.write(reinterpret_cast<const char *>(w1.data()), std::streamsize(w1.size() * 4));
}

std::vector<uint8_t> readBytes(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<uint8_t> resealed(std::vector<uint8_t> file) {
  uint32_t count;
  std::memcpy(&count, file.data() + 20, 4);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t *row = file.data() + 4096 + i * 64;
    uint64_t offset, size;
    std::memcpy(&offset, row + 8, 8);
    std::memcpy(&size, row + 16, 8);
    std::memcpy(row + 32, Digest::of(file.data() + offset, size).bytes.data(), 16);
  }
  std::memcpy(file.data() + 48, Digest::of(file.data() + 4096, count * 64).bytes.data(), 16);
  std::memcpy(file.data() + 4080, Digest::of(file.data(), 4080).bytes.data(), 16);
  return file;
}

} // namespace autopar::testing
