// SPDX-License-Identifier: Apache-2.0
// The program, one instruction of each kind behind the other.
#include "EveryInstruction.h"

namespace autopar::testing {

using namespace artifact;

namespace {

/// Writes a program; instructions wait for the one before them.
class ProgramWriter {
public:
  Program program;

  ProgramWriter() { program.entries = {{"load", {}}, {"step", {}}}; }

  int32_t buffer(std::vector<int64_t> shape, DataType dtype = DataType::F32) {
    Buffer buffer;
    buffer.name = "b" + std::to_string(program.buffers.size());
    buffer.dtype = dtype;
    buffer.bytes = byteSize(dtype);
    for (int64_t extent : shape)
      buffer.bytes *= extent;
    buffer.shape = std::move(shape);
    buffer.offset = program.arenaBytes[0];
    program.arenaBytes[0] += (buffer.bytes + 63) / 64 * 64;
    program.buffers.push_back(buffer);
    return int32_t(program.buffers.size() - 1);
  }
  void add(Payload payload, Queue queue = Queue::Compute, int32_t entry = 1) {
    std::vector<Instruction> &list = program.entries[size_t(entry)].instructions;
    Instruction instruction;
    instruction.id = "i" + std::to_string(list.size());
    instruction.queue = queue;
    if (!list.empty())
      instruction.after = {int32_t(list.size() - 1)};
    instruction.payload = std::move(payload);
    list.push_back(instruction);
  }
  int32_t port(Role role, int32_t buffer, Source source = {}) {
    const Buffer &held = program.buffers[size_t(buffer)];
    program.ports.push_back({role, held.name, held.dtype, held.shape, buffer, std::move(source)});
    return int32_t(program.ports.size() - 1);
  }
};

StridedShape dense(std::vector<int64_t> dims) {
  StridedShape shape{dims, std::vector<int64_t>(dims.size(), 1)};
  for (size_t d = dims.size(); d-- > 1;)
    shape.strides[d - 1] = shape.strides[d] * dims[d];
  return shape;
}

void addProducts(ProgramWriter &w, int32_t x, int32_t weight) {
  int32_t bias = w.buffer({8}), result = w.buffer({4, 8});
  MatmulGeometry geometry;
  geometry.a = dense({4, 8}), geometry.b = dense({8, 8}), geometry.c = dense({4, 8});
  MatmulGeometry packed = geometry;
  packed.packedB = true;
  int32_t layout = w.buffer({64}, DataType::U8); // the device needs more
  w.add(Pack{weight, layout, packed}, Queue::Compute, 0);
  w.add(Matmul{packed, x, layout, result});
  geometry.hasBias = geometry.hasResidual = true;
  geometry.epilogue = Epilogue::Relu;
  w.add(Matmul{geometry, x, weight, result, bias, result});

  GroupedProductGeometry grouped;
  grouped.groupType = DataType::I32;
  grouped.lhs = grouped.rows = dense({4, 8});
  grouped.groups = 2;
  int32_t matrices = w.buffer({2, 8, 8}), groups = w.buffer({4}, DataType::I32);
  w.add(GroupedProduct{grouped, x, matrices, groups, result, -1});
  grouped.isGradient = true;
  w.add(GroupedProduct{grouped, x, result, groups, matrices, -1});
}

void addConvolutions(ProgramWriter &w) {
  const std::vector<int64_t> image{1, 4, 6, 6}, window{4, 4, 3, 3};
  int32_t x = w.buffer(image), filter = w.buffer(window), y = w.buffer(image);
  ConvolutionGeometry geometry;
  geometry.x = geometry.y = image, geometry.w = window;
  geometry.strides = geometry.padsBegin = geometry.padsEnd = geometry.dilations = {1, 1};
  w.add(Convolution{geometry, x, filter, y});
  geometry.kind = ConvolutionKind::InputGradient;
  w.add(Convolution{geometry, x, filter, y});
  geometry.kind = ConvolutionKind::FilterGradient;
  geometry.w = image, geometry.y = window;
  w.add(Convolution{geometry, x, y, filter});
  int32_t blocked = w.buffer({1, 8, 6, 6});
  w.add(Reorder{x, blocked, DataType::F32, image, Layout::Plain, Layout::Blocked8});
}

void addAttention(ProgramWriter &w) {
  const std::vector<int64_t> heads{1, 2, 4, 8};
  std::vector<int32_t> values;
  for (int i = 0; i < 8; ++i)
    values.push_back(w.buffer(heads));
  int32_t sums = w.buffer({1, 2, 4});
  AttentionGeometry geometry;
  geometry.operands.assign(4, dense(heads));
  geometry.causal = true;
  geometry.window = 3;
  w.add(Attention{geometry, {values[0], values[1], values[2]}, {values[3], sums}});
  geometry.operands.assign(8, dense(heads));
  geometry.window = 0;
  w.add(Attention{geometry,
                  {values[0], values[1], values[2], values[3], sums, values[4]},
                  {values[5], values[6], values[7]}});
}

void addCommunication(ProgramWriter &w, int32_t x) {
  int32_t wide = w.buffer({64});
  for (auto kind :
       {CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::ReduceScatter,
        CollectiveKind::AllToAll, CollectiveKind::Broadcast})
    w.add(Collective{kind, x, wide, 0, Reduction::Max, DataType::F32, 32}, Queue::Communication);
  w.add(Permute{x, wide, 0, 128}, Queue::Communication);
  w.add(Send{x, 0, 64, 1}, Queue::Send);
  w.add(Recv{wide, 0, 64, 1}, Queue::Receive);
  // A message ends when the other side is there: neither waits for its own before it has sent.
  w.program.entries[1].instructions.back().after.clear();
  w.add(Copy{x, 0, wide, 64, 128});
}

} // namespace

Contents everyInstruction() {
  ProgramWriter w;
  int32_t x = w.buffer({4, 8}), weight = w.buffer({8, 8}), state = w.buffer({4, 8});
  w.port(Role::Input, x);
  w.port(Role::Output, x);
  w.program.ports.back().name = "y";
  w.port(Role::State, state);
  int32_t parameter = w.port(Role::Parameter, weight, {SourceKind::Constants, "", 0, 256, {}, {}});
  w.add(Read{parameter, weight}, Queue::CopyIn, 0);
  addProducts(w, x, weight);
  addConvolutions(w);
  addAttention(w);
  addCommunication(w, x);
  w.program.controlBuffer = w.buffer({kControlWords}, DataType::I64);
  w.program.rankValuesBuffer = w.buffer({1}, DataType::I64);
  // The second row begins when the first is complete.
  w.program.timetable = {{1, 0}, {1, 0}};
  std::vector<Instruction> &step = w.program.entries[1].instructions;
  step[0].awaits = {{1, int32_t(step.size()) - 1}};

  Contents contents;
  contents.target.features = "x86-64-v2";
  contents.constants.assign(256, 1);
  for (int32_t rank : {0, 1}) {
    RankTable table;
    table.groups = {{{0, 1}}};
    table.peers = {1 - rank};
    table.permutations = {{1 - rank, 1 - rank}};
    table.rankValues = {rank};
    for (const Port &port : w.program.ports)
      table.ports.push_back({std::vector<int64_t>(port.shape.size(), 0), port.shape, rank});
    contents.ranks.push_back(table);
  }
  contents.classes.push_back({std::move(w.program), {}});
  return contents;
}

} // namespace autopar::testing
