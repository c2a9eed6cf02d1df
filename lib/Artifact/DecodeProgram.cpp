// SPDX-License-Identifier: Apache-2.0
// FlatBuffers bytes to program and rank table structs. Bytes are untrusted: the FlatBuffers
// Verifier runs first, absent fields are errors or empty, enumerations are range-checked.
#include "Encode.h"

#include "autopar/Artifact/Program_generated.h"

#include <cstring>

namespace autopar::artifact {
namespace {

/// Remembers the first thing that was wrong; decoding goes on harmlessly and the result is
/// discarded.
class Decoder {
public:
  /// `bytes`: of the section.
  explicit Decoder(size_t bytes) : bytesLeft(bytes) {}

  Status status;

  void refuse(const std::string &what) {
    if (status.isOk())
      status = Status::badInput(what);
  }

  /// Lists that share bytes are well formed, but a small file could say any amount with them.
  template <typename T>
  bool take(const T &list, size_t elementBytes) {
    size_t bytes = size_t(list.size()) * elementBytes;
    if (bytes > bytesLeft)
      refuse("lists or texts overlap; compile the model again");
    else
      bytesLeft -= bytes;
    return status.isOk();
  }

  std::string text(const flatbuffers::String *s) {
    return s && take(*s, 1) ? s->str() : std::string();
  }

  /// The verifier checks places, not the alignment of 8-byte elements.
  bool isAligned(const void *data) {
    if (reinterpret_cast<uintptr_t>(data) % 8 == 0)
      return true;
    refuse("misaligned list");
    return false;
  }

  template <typename T>
  std::vector<T> list(const flatbuffers::Vector<T> *v) {
    if (!v || v->size() == 0 || (sizeof(T) == 8 && !isAligned(v->Data())) || !take(*v, sizeof(T)))
      return {};
    return std::vector<T>(v->begin(), v->end());
  }

  template <typename Out, typename In>
  std::vector<Out> tables(const flatbuffers::Vector<flatbuffers::Offset<In>> *v) {
    std::vector<Out> result;
    if (!v || !take(*v, sizeof(flatbuffers::uoffset_t)))
      return result;
    result.reserve(v->size());
    for (const In *item : *v)
      result.push_back(decode(*item));
    return result;
  }

  template <typename E>
  E enumeration(uint8_t value, E last, const char *what) {
    if (value > uint8_t(last)) {
      refuse(std::string("unknown ") + what + " " + std::to_string(value));
      return E(0);
    }
    return E(value);
  }
  DataType dtype(uint8_t v) { return enumeration(v, kLastDataType, "element type"); }
  Epilogue epilogue(uint8_t v) { return enumeration(v, Epilogue::SumsOfB, "epilogue"); }
  Layout layout(uint8_t v) { return enumeration(v, Layout::Blocked16, "layout"); }

  Digest decode(const fb::Digest &d) {
    Digest digest;
    uint64_t high = d.high(), low = d.low();
    std::memcpy(digest.bytes.data(), &high, 8);
    std::memcpy(digest.bytes.data() + 8, &low, 8);
    return digest;
  }

  Buffer decode(const fb::Buffer &b) {
    Buffer out;
    out.name = text(b.name());
    out.space = enumeration(b.space(), Space::Disk, "space");
    out.offset = b.offset();
    out.bytes = b.bytes();
    out.dtype = dtype(b.dtype());
    out.shape = list(b.shape());
    out.slots = b.slots();
    out.slotStride = b.slot_stride();
    out.viewOf = b.view_of();
    return out;
  }

  MadeValue decode(const fb::MadeValue &v) {
    MadeValue out;
    out.buffer = v.buffer();
    if (v.recipe() && isAligned(v.recipe()))
      out.recipe = decode(*v.recipe());
    else
      refuse("a made value needs a recipe");
    out.ports = list(v.ports());
    return out;
  }

  VaryingDim decode(const fb::VaryingDim &v) {
    return {v.dim(), text(v.extent()), v.least(), v.step()};
  }

  Port decode(const fb::Port &p) {
    Port out;
    out.role = enumeration(p.role(), Role::Metric, "port role");
    out.name = text(p.name());
    out.dtype = dtype(p.dtype());
    out.shape = list(p.shape());
    out.buffer = p.buffer();
    out.guards = p.guards();
    out.evaluated = p.evaluated();
    if (const fb::Limits *limits = p.limits()) {
      out.limits = Limits{limits->least(), limits->most(), {}};
      if (limits->has_exception())
        out.limits->exception = limits->exception();
    }
    out.microBatches = p.micro_batches();
    out.modelShape = list(p.model_shape());
    if (p.transpose_of())
      out.transposeOf = text(p.transpose_of());
    if (p.varying())
      out.varying = tables<VaryingDim>(p.varying());
    if (p.missing())
      out.missing = text(p.missing());
    if (const fb::Source *s = p.source()) {
      out.source.kind = enumeration(s->kind(), SourceKind::Absent, "source kind");
      out.source.path = text(s->path());
      out.source.offset = s->offset();
      out.source.length = s->length();
      if (s->digest() && isAligned(s->digest()))
        out.source.digest = decode(*s->digest());
      if (s->chunks() && s->chunks()->size() > 0 && isAligned(s->chunks()->Data()) &&
          take(*s->chunks(), sizeof(fb::Digest)))
        for (const fb::Digest *chunk : *s->chunks())
          out.source.chunkDigests.push_back(decode(*chunk));
      if (s->drawn())
        out.source.drawn = text(s->drawn());
    }
    return out;
  }

  MatmulGeometry decode(const fb::MatmulGeometry &g) {
    MatmulGeometry out;
    out.aType = dtype(g.a_type());
    out.bType = dtype(g.b_type());
    out.cType = dtype(g.c_type());
    out.biasType = dtype(g.bias_type());
    out.a = {list(g.a_dims()), list(g.a_strides())};
    out.b = {list(g.b_dims()), list(g.b_strides())};
    out.c = {list(g.c_dims()), list(g.c_strides())};
    out.hasBias = g.has_bias();
    out.hasResidual = g.has_residual();
    out.epilogue = epilogue(g.epilogue());
    out.scale = g.scale();
    out.packedB = g.packed_b();
    return out;
  }

  ConvolutionGeometry decode(const fb::ConvolutionGeometry &g) {
    ConvolutionGeometry out;
    out.xType = dtype(g.x_type());
    out.wType = dtype(g.w_type());
    out.yType = dtype(g.y_type());
    out.biasType = dtype(g.bias_type());
    out.x = list(g.x());
    out.w = list(g.w());
    out.y = list(g.y());
    out.strides = list(g.strides());
    out.padsBegin = list(g.pads_begin());
    out.padsEnd = list(g.pads_end());
    out.dilations = list(g.dilations());
    out.groups = g.groups();
    out.xLayout = layout(g.x_layout());
    out.yLayout = layout(g.y_layout());
    out.hasBias = g.has_bias();
    out.hasResidual = g.has_residual();
    out.epilogue = epilogue(g.epilogue());
    out.packedW = g.packed_w();
    out.algorithm = enumeration(g.algorithm(), ConvolutionAlgorithm::Winograd, "algorithm");
    out.kind = enumeration(g.kind(), ConvolutionKind::FilterGradient, "kind of convolution");
    return out;
  }

  Payload decode(const fb::Launch &p) {
    return Launch{p.kernel(), list(p.args()), p.extent(),      p.outputs(),
                  p.blocks(), p.threads(),    p.shared_bytes()};
  }
  Payload decode(const fb::Matmul &p) {
    if (!p.geometry()) {
      refuse("matmul without a geometry");
      return Matmul{};
    }
    return Matmul{decode(*p.geometry()), p.a(),       p.b(),  p.c(), p.bias(),
                  p.residual(),          p.scratch(), p.aux()};
  }
  Payload decode(const fb::Convolution &p) {
    if (!p.geometry()) {
      refuse("convolution without a geometry");
      return Convolution{};
    }
    return Convolution{decode(*p.geometry()), p.x(),      p.w(), p.y(), p.bias(),
                       p.residual(),          p.scratch()};
  }
  StridedShape decode(const fb::StridedShape &s) { return {list(s.dims()), list(s.strides())}; }
  Payload decode(const fb::Attention &p) {
    Attention out;
    out.geometry.type = dtype(p.type());
    if (p.operands() && take(*p.operands(), sizeof(flatbuffers::uoffset_t)))
      for (const fb::StridedShape *shape : *p.operands())
        out.geometry.operands.push_back(decode(*shape));
    out.geometry.biasType = dtype(p.bias_type());
    if (p.bias())
      out.geometry.bias = decode(*p.bias());
    out.geometry.scale = p.scale();
    out.geometry.causal = p.causal();
    out.geometry.window = p.window();
    out.inputs = list(p.inputs());
    out.outputs = list(p.outputs());
    out.scratch = p.scratch();
    out.shardValue = p.shard_value();
    out.parts = p.parts();
    return out;
  }
  Payload decode(const fb::GroupedProduct &p) {
    GroupedProduct out{{}, p.lhs(), p.rhs(), p.group(), p.result(), p.scratch()};
    out.geometry.type = dtype(p.type());
    out.geometry.resultType = dtype(p.result_type());
    out.geometry.groupType = dtype(p.group_type());
    if (p.lhs_shape())
      out.geometry.lhs = decode(*p.lhs_shape());
    if (p.rows_shape())
      out.geometry.rows = decode(*p.rows_shape());
    out.geometry.groups = p.groups();
    out.geometry.transposed = p.transposed();
    out.geometry.isGradient = p.is_gradient();
    out.geometry.madeColumns = p.made_columns();
    if (const fb::MatrixMaker *maker = p.maker())
      out.maker = MatrixMaker{maker->kernel(), maker->extent(), list(maker->inputs()),
                              list(maker->matrix_steps()), list(maker->column_steps())};
    return out;
  }
  Payload decode(const fb::Pack &p) {
    Pack out{p.src(), p.dst(), MatmulGeometry{}};
    if (bool(p.matmul()) == bool(p.convolution()))
      refuse("pack needs exactly one geometry");
    else if (p.matmul())
      out.geometry = decode(*p.matmul());
    else
      out.geometry = decode(*p.convolution());
    return out;
  }
  Payload decode(const fb::Reorder &p) {
    return Reorder{p.src(),        p.dst(),          dtype(p.dtype()),
                   list(p.dims()), layout(p.from()), layout(p.to())};
  }
  Payload decode(const fb::Collective &p) {
    return Collective{enumeration(p.kind(), CollectiveKind::Broadcast, "collective"),
                      p.input(),
                      p.output(),
                      p.group(),
                      enumeration(p.reduction(), Reduction::Prod, "reduction"),
                      dtype(p.dtype()),
                      p.count()};
  }
  Payload decode(const fb::Permute &p) {
    return Permute{p.input(), p.output(), p.permutation(), p.bytes()};
  }
  Payload decode(const fb::Send &p) { return Send{p.buffer(), p.peer(), p.bytes(), p.tag()}; }
  Payload decode(const fb::Recv &p) { return Recv{p.buffer(), p.peer(), p.bytes(), p.tag()}; }
  Payload decode(const fb::Copy &p) {
    return Copy{p.src(), p.src_offset(), p.dst(), p.dst_offset(), p.bytes()};
  }
  Payload decode(const fb::Read &p) { return Read{p.port(), p.dst()}; }

  template <typename T>
  Payload payloadOf(const T *table) {
    if (table)
      return decode(*table);
    refuse("instruction without a payload");
    return Launch{};
  }

  Payload payload(const fb::Instruction &i) {
    switch (i.payload_type()) {
    case fb::Payload_Launch:
      return payloadOf(i.payload_as_Launch());
    case fb::Payload_Matmul:
      return payloadOf(i.payload_as_Matmul());
    case fb::Payload_Convolution:
      return payloadOf(i.payload_as_Convolution());
    case fb::Payload_Pack:
      return payloadOf(i.payload_as_Pack());
    case fb::Payload_Reorder:
      return payloadOf(i.payload_as_Reorder());
    case fb::Payload_Collective:
      return payloadOf(i.payload_as_Collective());
    case fb::Payload_Permute:
      return payloadOf(i.payload_as_Permute());
    case fb::Payload_Send:
      return payloadOf(i.payload_as_Send());
    case fb::Payload_Recv:
      return payloadOf(i.payload_as_Recv());
    case fb::Payload_Copy:
      return payloadOf(i.payload_as_Copy());
    case fb::Payload_Read:
      return payloadOf(i.payload_as_Read());
    case fb::Payload_Attention:
      return payloadOf(i.payload_as_Attention());
    case fb::Payload_GroupedProduct:
      return payloadOf(i.payload_as_GroupedProduct());
    default:
      refuse("unknown instruction kind " + std::to_string(int(i.payload_type())));
      return Launch{};
    }
  }

  Instruction decode(const fb::Instruction &i) {
    Instruction out;
    out.queue = enumeration(i.queue(), Queue::Send, "queue");
    out.after = list(i.after());
    out.id = text(i.id());
    out.profileKey = text(i.profile_key());
    out.flops = i.flops();
    out.bytes = i.bytes();
    out.payload = payload(i);
    out.evaluated = i.evaluated();
    out.commits = i.commits();
    out.arithmetic = dtype(i.arithmetic());
    if (i.awaits() && take(*i.awaits(), sizeof(fb::Await)))
      for (const fb::Await *earlier : *i.awaits())
        out.awaits.push_back({earlier->entry(), earlier->instruction()});
    return out;
  }

  Entry decode(const fb::Entry &e) {
    return {text(e.name()), tables<Instruction>(e.instructions())};
  }

  Program decode(const fb::Program &p) {
    Program out;
    out.name = text(p.name());
    if (!p.arena_bytes() || p.arena_bytes()->size() != kSpaceCount ||
        !isAligned(p.arena_bytes()->Data()))
      refuse("program needs one arena size per space");
    else
      std::copy(p.arena_bytes()->begin(), p.arena_bytes()->end(), out.arenaBytes.begin());
    out.buffers = tables<Buffer>(p.buffers());
    out.ports = tables<Port>(p.ports());
    if (p.kernels())
      for (const flatbuffers::String *symbol : *p.kernels())
        out.kernels.push_back(text(symbol));
    out.entries = tables<Entry>(p.entries());
    if (p.timetable() && take(*p.timetable(), sizeof(fb::TimetableRow)))
      for (const fb::TimetableRow *row : *p.timetable())
        out.timetable.push_back({row->entry(), row->slot()});
    out.controlBuffer = p.control_buffer();
    out.rankValuesBuffer = p.rank_values_buffer();
    out.plannedThreads = p.planned_threads();
    if (p.made_values())
      out.madeValues = tables<MadeValue>(p.made_values());
    return out;
  }

  Group decode(const fb::Group &g) { return {list(g.members())}; }
  PortShard decode(const fb::PortShard &s) {
    return {list(s.offset()), list(s.extent()), s.replica()};
  }
  RankTable decode(const fb::RankTable &t) {
    RankTable out;
    out.rankClass = t.rank_class();
    out.groups = tables<Group>(t.groups());
    out.peers = list(t.peers());
    if (t.permutations() && take(*t.permutations(), sizeof(fb::Permutation)))
      for (const fb::Permutation *move : *t.permutations())
        out.permutations.push_back({move->send_to(), move->receive_from()});
    out.rankValues = list(t.rank_values());
    out.ports = tables<PortShard>(t.ports());
    return out;
  }

private:
  size_t bytesLeft; ///< that no list or text was made of yet
};

constexpr flatbuffers::uoffset_t kMaxDepth = 64;
/// A table and the offset that leads to it.
constexpr size_t kLeastTableBytes = 2 * sizeof(flatbuffers::uoffset_t);

template <typename Root>
bool isWellFormed(std::span<const uint8_t> bytes, const char *identifier) {
  if (bytes.size() >= FLATBUFFERS_MAX_BUFFER_SIZE)
    return false;
  auto mostTables = flatbuffers::uoffset_t(bytes.size() / kLeastTableBytes);
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), kMaxDepth, mostTables);
  return verifier.VerifyBuffer<Root>(identifier);
}

} // namespace

Result<Program> decodeProgram(std::span<const uint8_t> bytes) {
  if (!isWellFormed<fb::Program>(bytes, "APPR"))
    return Status::badInput("not a well-formed program table");
  Decoder decoder(bytes.size());
  Program program = decoder.decode(*flatbuffers::GetRoot<fb::Program>(bytes.data()));
  if (!decoder.status.isOk())
    return decoder.status;
  return program;
}

Result<std::vector<RankTable>> decodeRanks(std::span<const uint8_t> bytes) {
  if (!isWellFormed<fb::Ranks>(bytes, "APRK"))
    return Status::badInput("not a well-formed rank table");
  Decoder decoder(bytes.size());
  auto ranks = decoder.tables<RankTable>(flatbuffers::GetRoot<fb::Ranks>(bytes.data())->ranks());
  if (!decoder.status.isOk())
    return decoder.status;
  return ranks;
}

} // namespace autopar::artifact
