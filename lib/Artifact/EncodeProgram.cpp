// SPDX-License-Identifier: Apache-2.0
// Program and rank table structs to FlatBuffers bytes.
#include "Encode.h"

#include "autopar/Artifact/Program_generated.h"

#include <cstring>
#include <type_traits>

namespace autopar::artifact {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

fb::Digest toFb(const Digest &digest) {
  uint64_t high, low;
  std::memcpy(&high, digest.bytes.data(), 8);
  std::memcpy(&low, digest.bytes.data() + 8, 8);
  return fb::Digest(high, low);
}

class Encoder {
public:
  FlatBufferBuilder builder{1 << 16};

  Offset<fb::Buffer> encode(const Buffer &b) {
    auto name = builder.CreateString(b.name);
    auto shape = builder.CreateVector(b.shape);
    return fb::CreateBuffer(builder, name, uint8_t(b.space), b.offset, b.bytes, uint8_t(b.dtype),
                            shape, b.slots, b.slotStride, b.viewOf);
  }

  Offset<fb::Source> encode(const Source &s) {
    auto path = builder.CreateString(s.path);
    std::vector<fb::Digest> chunks;
    for (const Digest &digest : s.chunkDigests)
      chunks.push_back(toFb(digest));
    auto chunkVector = builder.CreateVectorOfStructs(chunks);
    fb::Digest digest = toFb(s.digest);
    Offset<flatbuffers::String> drawn;
    if (!s.drawn.empty())
      drawn = builder.CreateString(s.drawn);
    return fb::CreateSource(builder, uint8_t(s.kind), path, s.offset, s.length, &digest,
                            chunkVector, drawn);
  }

  Offset<fb::VaryingDim> encode(const VaryingDim &v) {
    return fb::CreateVaryingDim(builder, v.dim, builder.CreateString(v.extent), v.least, v.step);
  }

  Offset<fb::Port> encode(const Port &p) {
    auto name = builder.CreateString(p.name);
    auto shape = builder.CreateVector(p.shape);
    auto source = encode(p.source);
    auto modelShape = builder.CreateVector(p.modelShape);
    Offset<flatbuffers::String> transposeOf;
    if (!p.transposeOf.empty())
      transposeOf = builder.CreateString(p.transposeOf);
    Offset<fb::Limits> limits;
    if (p.limits)
      limits = fb::CreateLimits(builder, p.limits->least, p.limits->most,
                                p.limits->exception.has_value(), p.limits->exception.value_or(0));
    Offset<flatbuffers::Vector<Offset<fb::VaryingDim>>> varying;
    if (!p.varying.empty()) {
      std::vector<Offset<fb::VaryingDim>> each;
      for (const VaryingDim &dim : p.varying)
        each.push_back(encode(dim));
      varying = builder.CreateVector(each);
    }
    Offset<flatbuffers::String> missing;
    if (!p.missing.empty())
      missing = builder.CreateString(p.missing);
    return fb::CreatePort(builder, uint8_t(p.role), name, uint8_t(p.dtype), shape, p.buffer, source,
                          p.guards, limits, p.microBatches, modelShape, transposeOf, p.evaluated,
                          varying, missing);
  }

  Offset<fb::MadeValue> encode(const MadeValue &v) {
    auto ports = builder.CreateVector(v.ports);
    fb::Digest recipe = toFb(v.recipe);
    return fb::CreateMadeValue(builder, v.buffer, &recipe, ports);
  }

  Offset<fb::MatmulGeometry> encode(const MatmulGeometry &g) {
    auto aDims = builder.CreateVector(g.a.dims), aStrides = builder.CreateVector(g.a.strides);
    auto bDims = builder.CreateVector(g.b.dims), bStrides = builder.CreateVector(g.b.strides);
    auto cDims = builder.CreateVector(g.c.dims), cStrides = builder.CreateVector(g.c.strides);
    return fb::CreateMatmulGeometry(builder, uint8_t(g.aType), uint8_t(g.bType), uint8_t(g.cType),
                                    uint8_t(g.biasType), aDims, aStrides, bDims, bStrides, cDims,
                                    cStrides, g.hasBias, g.hasResidual, uint8_t(g.epilogue),
                                    g.scale, g.packedB);
  }

  Offset<fb::ConvolutionGeometry> encode(const ConvolutionGeometry &g) {
    auto x = builder.CreateVector(g.x), w = builder.CreateVector(g.w),
         y = builder.CreateVector(g.y);
    auto strides = builder.CreateVector(g.strides), begin = builder.CreateVector(g.padsBegin),
         end = builder.CreateVector(g.padsEnd), dilations = builder.CreateVector(g.dilations);
    return fb::CreateConvolutionGeometry(
        builder, uint8_t(g.xType), uint8_t(g.wType), uint8_t(g.yType), uint8_t(g.biasType), x, w, y,
        strides, begin, end, dilations, g.groups, uint8_t(g.xLayout), uint8_t(g.yLayout), g.hasBias,
        g.hasResidual, uint8_t(g.epilogue), g.packedW, uint8_t(g.algorithm), uint8_t(g.kind));
  }

  Offset<void> encode(const Launch &p) {
    return fb::CreateLaunch(builder, p.kernel, builder.CreateVector(p.args), p.extent, p.outputs,
                            p.blocks, p.threads, p.sharedBytes)
        .Union();
  }
  Offset<void> encode(const Matmul &p) {
    return fb::CreateMatmul(builder, encode(p.geometry), p.a, p.b, p.c, p.bias, p.residual,
                            p.scratch, p.aux)
        .Union();
  }
  Offset<void> encode(const Convolution &p) {
    return fb::CreateConvolution(builder, encode(p.geometry), p.x, p.w, p.y, p.bias, p.residual,
                                 p.scratch)
        .Union();
  }
  Offset<fb::StridedShape> encode(const StridedShape &s) {
    auto dims = builder.CreateVector(s.dims), strides = builder.CreateVector(s.strides);
    return fb::CreateStridedShape(builder, dims, strides);
  }
  Offset<void> encode(const Attention &p) {
    const AttentionGeometry &g = p.geometry;
    std::vector<Offset<fb::StridedShape>> shapes;
    for (const StridedShape &shape : g.operands)
      shapes.push_back(encode(shape));
    auto operands = builder.CreateVector(shapes);
    auto bias = encode(g.bias);
    auto inputs = builder.CreateVector(p.inputs), outputs = builder.CreateVector(p.outputs);
    return fb::CreateAttention(builder, uint8_t(g.type), operands, uint8_t(g.biasType), bias,
                               g.scale, g.causal, inputs, outputs, p.scratch, p.shardValue, p.parts,
                               g.window)
        .Union();
  }
  Offset<void> encode(const GroupedProduct &p) {
    const GroupedProductGeometry &g = p.geometry;
    auto lhs = encode(g.lhs), rows = encode(g.rows);
    Offset<fb::MatrixMaker> maker;
    if (p.maker)
      maker = fb::CreateMatrixMaker(
          builder, p.maker->kernel, p.maker->extent, builder.CreateVector(p.maker->inputs),
          builder.CreateVector(p.maker->matrixSteps), builder.CreateVector(p.maker->columnSteps));
    return fb::CreateGroupedProduct(builder, uint8_t(g.type), uint8_t(g.resultType),
                                    uint8_t(g.groupType), lhs, rows, g.groups, g.transposed,
                                    g.isGradient, p.lhs, p.rhs, p.group, p.result, p.scratch,
                                    g.madeColumns, maker)
        .Union();
  }
  Offset<void> encode(const Pack &p) {
    Offset<fb::MatmulGeometry> matmul;
    Offset<fb::ConvolutionGeometry> convolution;
    if (auto *g = std::get_if<MatmulGeometry>(&p.geometry))
      matmul = encode(*g);
    else
      convolution = encode(std::get<ConvolutionGeometry>(p.geometry));
    return fb::CreatePack(builder, p.src, p.dst, matmul, convolution).Union();
  }
  Offset<void> encode(const Reorder &p) {
    return fb::CreateReorder(builder, p.src, p.dst, uint8_t(p.dtype), builder.CreateVector(p.dims),
                             uint8_t(p.from), uint8_t(p.to))
        .Union();
  }
  Offset<void> encode(const Collective &p) {
    return fb::CreateCollective(builder, uint8_t(p.kind), p.input, p.output, p.group,
                                uint8_t(p.reduction), uint8_t(p.dtype), p.count)
        .Union();
  }
  Offset<void> encode(const Permute &p) {
    return fb::CreatePermute(builder, p.input, p.output, p.permutation, p.bytes).Union();
  }
  Offset<void> encode(const Send &p) {
    return fb::CreateSend(builder, p.buffer, p.peer, p.bytes, p.tag).Union();
  }
  Offset<void> encode(const Recv &p) {
    return fb::CreateRecv(builder, p.buffer, p.peer, p.bytes, p.tag).Union();
  }
  Offset<void> encode(const Copy &p) {
    return fb::CreateCopy(builder, p.src, p.srcOffset, p.dst, p.dstOffset, p.bytes).Union();
  }
  Offset<void> encode(const Read &p) { return fb::CreateRead(builder, p.port, p.dst).Union(); }

  Offset<fb::Instruction> encode(const Instruction &i) {
    auto after = builder.CreateVector(i.after);
    auto id = builder.CreateString(i.id);
    auto key = builder.CreateSharedString(i.profileKey);
    auto payload = std::visit([&](const auto &p) { return encode(p); }, i.payload);
    // The union's NONE comes first, so its numbers are the variant's plus one.
    auto kind = fb::Payload(i.payload.index() + 1);
    Offset<flatbuffers::Vector<const fb::Await *>> awaits;
    if (!i.awaits.empty()) {
      std::vector<fb::Await> all;
      for (const Await &earlier : i.awaits)
        all.emplace_back(earlier.entry, earlier.instruction);
      awaits = builder.CreateVectorOfStructs(all);
    }
    return fb::CreateInstruction(builder, uint8_t(i.queue), after, id, key, i.flops, i.bytes, kind,
                                 payload, i.evaluated, i.commits, uint8_t(i.arithmetic), awaits);
  }

  template <typename T>
  auto encodeAll(const std::vector<T> &items) {
    std::vector<decltype(encode(items[0]))> offsets;
    offsets.reserve(items.size());
    for (const T &item : items)
      offsets.push_back(encode(item));
    return builder.CreateVector(offsets);
  }

  Offset<fb::Entry> encode(const Entry &e) {
    auto name = builder.CreateString(e.name);
    return fb::CreateEntry(builder, name, encodeAll(e.instructions));
  }

  Offset<fb::Program> encode(const Program &p) {
    auto name = builder.CreateString(p.name);
    auto arenas = builder.CreateVector(p.arenaBytes.data(), p.arenaBytes.size());
    auto buffers = encodeAll(p.buffers);
    auto ports = encodeAll(p.ports);
    auto kernels = builder.CreateVectorOfStrings(p.kernels);
    auto entries = encodeAll(p.entries);
    std::vector<fb::TimetableRow> rows;
    for (const TimetableRow &row : p.timetable)
      rows.emplace_back(row.entry, row.slot);
    auto timetable = builder.CreateVectorOfStructs(rows);
    Offset<flatbuffers::Vector<Offset<fb::MadeValue>>> madeValues;
    if (p.madeValues)
      madeValues = encodeAll(*p.madeValues);
    return fb::CreateProgram(builder, name, arenas, buffers, ports, kernels, entries, timetable,
                             p.controlBuffer, p.rankValuesBuffer, p.plannedThreads, madeValues);
  }

  Offset<fb::Group> encode(const Group &g) {
    return fb::CreateGroup(builder, builder.CreateVector(g.members));
  }
  Offset<fb::PortShard> encode(const PortShard &s) {
    auto offset = builder.CreateVector(s.offset), extent = builder.CreateVector(s.extent);
    return fb::CreatePortShard(builder, offset, extent, s.replica);
  }
  Offset<fb::RankTable> encode(const RankTable &t) {
    auto groups = encodeAll(t.groups);
    auto peers = builder.CreateVector(t.peers);
    std::vector<fb::Permutation> moves;
    for (const Permutation &move : t.permutations)
      moves.emplace_back(move.sendTo, move.receiveFrom);
    auto permutations = builder.CreateVectorOfStructs(moves);
    auto values = builder.CreateVector(t.rankValues);
    auto ports = encodeAll(t.ports);
    return fb::CreateRankTable(builder, t.rankClass, groups, peers, permutations, values, ports);
  }

  std::vector<uint8_t> bytes() const {
    return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
  }
};

static_assert(size_t(fb::Payload_GroupedProduct) == std::variant_size_v<Payload>);
static_assert(std::is_same_v<
              std::variant_alternative_t<size_t(fb::Payload_Collective) - 1, Payload>, Collective>);
static_assert(
    std::is_same_v<std::variant_alternative_t<size_t(fb::Payload_Copy) - 1, Payload>, Copy>);

} // namespace

std::vector<uint8_t> encodeProgram(const Program &program) {
  Encoder encoder;
  encoder.builder.Finish(encoder.encode(program), "APPR");
  return encoder.bytes();
}

std::vector<uint8_t> encodeRanks(const std::vector<RankTable> &ranks) {
  Encoder encoder;
  encoder.builder.Finish(fb::CreateRanks(encoder.builder, encoder.encodeAll(ranks)), "APRK");
  return encoder.bytes();
}

} // namespace autopar::artifact
