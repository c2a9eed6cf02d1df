// SPDX-License-Identifier: Apache-2.0
// Prints an artifact in the spelling of the exec dialect: one line per buffer, port and
// instruction.
#include "autopar/Artifact/Dump.h"

#include <sstream>

namespace autopar::artifact {
namespace {

template <typename T>
std::string list(const std::vector<T> &values, const char *separator = ", ") {
  std::ostringstream text;
  for (size_t i = 0; i < values.size(); ++i)
    text << (i ? separator : "") << values[i];
  return text.str();
}

std::string shapeText(const std::vector<int64_t> &shape, DataType dtype) {
  std::string dims = list(shape, "x");
  return dims + (dims.empty() ? "" : "x") + std::string(name(dtype));
}

constexpr const char *kQueues[] = {"compute", "communication", "copy_in", "copy_out",
                                   "host",    "receive",       "send"};
constexpr const char *kSpaces[] = {"device", "pinned_host", "disk"};
constexpr const char *kRoles[] = {"input", "output", "parameter", "state", "metric"};
constexpr const char *kEpilogues[] = {"none",           "relu",     "gelu_erf",      "gelu_tanh",
                                      "gelu_tanh_grad", "relu_aux", "gelu_tanh_aux", "relu_grad",
                                      "sums_of_a",      "sums_of_b"};
constexpr const char *kLayouts[] = {"plain", "channels_last", "blocked8", "blocked16"};
constexpr const char *kCollectives[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                        "broadcast"};
constexpr const char *kReductions[] = {"sum", "max", "min", "prod"};

class Dumper {
public:
  explicit Dumper(const Reader &reader) : reader(reader) {}

  std::string run(bool withText) {
    out << "artifact " << reader.digest().hex() << " for " << reader.target().architecture << " "
        << reader.target().features << ", " << reader.worldSize() << " ranks, "
        << reader.classCount() << " classes\n";
    for (const SectionInfo &section : reader.sections()) {
      out << "section " << section.name;
      if (section.rankClass >= 0)
        out << " class " << section.rankClass;
      out << " offset " << section.offset << " bytes " << section.size << " digest "
          << section.digest.hex() << "\n";
    }
    for (int32_t c = 0; c < reader.classCount(); ++c)
      dump(reader.program(c), c);
    for (int32_t rank = 0; rank < reader.worldSize(); ++rank)
      dump(reader.rank(rank), rank);
    if (withText && !reader.plan().empty())
      out << "plan\n" << reader.plan() << "\n";
    if (withText && !reader.source().empty())
      out << "source\n" << reader.source() << "\n";
    return out.str();
  }

private:
  const Reader &reader;
  const Program *program = nullptr;
  std::ostringstream out;

  std::string ref(int32_t buffer) const {
    return buffer < 0 ? "none" : "%" + program->buffers[size_t(buffer)].name;
  }
  std::string refs(const std::vector<int32_t> &buffers) const {
    std::vector<std::string> names;
    for (int32_t buffer : buffers)
      names.push_back(ref(buffer));
    return list(names);
  }

  void dump(const Program &p, int32_t rankClass) {
    program = &p;
    out << "program @class" << rankClass << " '" << p.name << "' arena(";
    for (size_t space = 0; space < kSpaceCount; ++space)
      out << (space ? ", " : "") << kSpaces[space] << " = " << p.arenaBytes[space];
    out << ") threads " << p.plannedThreads << " {\n";
    for (const Buffer &b : p.buffers) {
      out << "  buffer %" << b.name << " : " << shapeText(b.shape, b.dtype) << " "
          << kSpaces[size_t(b.space)] << " [" << b.offset << ", +" << b.bytes << ")";
      if (b.slots > 1)
        out << " slots " << b.slots << " stride " << b.slotStride;
      if (b.viewOf >= 0)
        out << " view of " << ref(b.viewOf);
      out << "\n";
    }
    for (const Port &port : p.ports)
      dump(port);
    for (const MadeValue &value : p.madeValues.value_or(std::vector<MadeValue>())) {
      out << "  made " << ref(value.buffer) << " recipe " << value.recipe.hex() << " of [";
      for (size_t i = 0; i < value.ports.size(); ++i)
        out << (i ? ", " : "") << '"' << p.ports[size_t(value.ports[i])].name << '"';
      out << "]\n";
    }
    if (p.controlBuffer >= 0)
      out << "  control " << ref(p.controlBuffer) << "\n";
    if (p.rankValuesBuffer >= 0)
      out << "  rank_values " << ref(p.rankValuesBuffer) << "\n";
    for (const Entry &entry : p.entries) {
      out << "  entry @" << entry.name << " {\n";
      for (size_t i = 0; i < entry.instructions.size(); ++i)
        dump(entry.instructions[i], i);
      out << "  }\n";
    }
    out << "  timetable [";
    for (size_t i = 0; i < p.timetable.size(); ++i)
      out << (i ? ", " : "") << p.entries[size_t(p.timetable[i].entry)].name << "("
          << p.timetable[i].slot << ")";
    out << "]\n}\n";
  }

  void dump(const Port &port) {
    out << "  " << kRoles[size_t(port.role)] << " \"" << port.name
        << "\" : " << shapeText(port.shape, port.dtype) << " in " << ref(port.buffer);
    if (!port.modelShape.empty())
      out << " in the model " << shapeText(port.modelShape, port.dtype);
    if (!port.transposeOf.empty())
      out << " transpose of \"" << port.transposeOf << '"';
    if (port.microBatches > 1)
      out << " micro-batches " << port.microBatches;
    const Source &s = port.source;
    if (s.kind == SourceKind::File)
      out << " from \"" << s.path << "\" at " << s.offset << " bytes " << s.length << " digest "
          << s.digest.hex() << " chunks " << s.chunkDigests.size();
    else if (s.kind == SourceKind::Constants)
      out << " from constants at " << s.offset << " bytes " << s.length;
    else if (s.kind == SourceKind::Absent)
      out << (s.drawn.empty() ? " absent" : " drawn \"" + s.drawn + "\"");
    if (port.guards)
      out << " guards";
    if (port.evaluated)
      out << " evaluated";
    for (const VaryingDim &varying : port.varying)
      out << " dimension " << varying.dim << " by \"" << varying.extent << "\" from "
          << varying.least << (varying.step > 1 ? " by " + std::to_string(varying.step) : "");
    if (!port.missing.empty())
      out << " missing of \"" << port.missing << '"';
    if (port.limits) {
      out << " within [" << port.limits->least << ", " << port.limits->most << "]";
      if (port.limits->exception)
        out << " or " << *port.limits->exception;
    }
    out << "\n";
  }

  void dump(const Instruction &instruction, size_t index) {
    out << "    " << index << ": ";
    std::visit([this](const auto &payload) { dumpPayload(payload); }, instruction.payload);
    out << " queue " << kQueues[size_t(instruction.queue)];
    if (!instruction.after.empty())
      out << " after [" << list(instruction.after) << "]";
    if (!instruction.awaits.empty()) {
      out << " awaits [";
      for (size_t i = 0; i < instruction.awaits.size(); ++i) {
        const Await &earlier = instruction.awaits[i];
        out << (i ? ", " : "") << program->entries[size_t(earlier.entry)].name << "["
            << earlier.instruction << "]";
      }
      out << "]";
    }
    out << " id \"" << instruction.id << "\" key \"" << instruction.profileKey << "\" flops "
        << instruction.flops << " " << name(instruction.arithmetic) << " bytes "
        << instruction.bytes << (instruction.evaluated ? " evaluated" : "")
        << (instruction.commits ? " commits" : "") << "\n";
  }

  static std::string strided(const StridedShape &s, DataType dtype) {
    return shapeText(s.dims, dtype) + " strides [" + list(s.strides) + "]";
  }
  void dumpGeometry(const MatmulGeometry &g) {
    out << "{a = " << strided(g.a, g.aType) << ", b = " << strided(g.b, g.bType)
        << (g.packedB ? " packed" : "") << ", c = " << strided(g.c, g.cType);
    if (g.hasBias)
      out << ", bias " << name(g.biasType);
    if (g.hasResidual)
      out << ", residual";
    if (g.scale != 1.0f)
      out << ", scale = " << g.scale;
    if (g.epilogue != Epilogue::None)
      out << ", epilogue = " << kEpilogues[size_t(g.epilogue)];
    out << "}";
  }
  void dumpGeometry(const ConvolutionGeometry &g) {
    out << "{x = " << shapeText(g.x, g.xType) << " " << kLayouts[size_t(g.xLayout)]
        << ", w = " << shapeText(g.w, g.wType) << (g.packedW ? " packed" : "")
        << ", y = " << shapeText(g.y, g.yType) << " " << kLayouts[size_t(g.yLayout)]
        << ", strides [" << list(g.strides) << "], pads [" << list(g.padsBegin) << "] ["
        << list(g.padsEnd) << "], dilations [" << list(g.dilations) << "], groups = " << g.groups;
    if (g.hasBias)
      out << ", bias " << name(g.biasType);
    if (g.hasResidual)
      out << ", residual";
    if (g.algorithm == ConvolutionAlgorithm::Winograd)
      out << ", winograd";
    if (g.kind != ConvolutionKind::Forward)
      out << (g.kind == ConvolutionKind::InputGradient ? ", gradient of the input"
                                                       : ", gradient of the filter");
    if (g.epilogue != Epilogue::None)
      out << ", epilogue = " << kEpilogues[size_t(g.epilogue)];
    out << "}";
  }

  void dumpPayload(const Launch &p) {
    out << "launch @" << program->kernels[size_t(p.kernel)] << "(" << refs(p.args) << ") extent "
        << p.extent;
    if (p.blocks)
      out << " grid [" << p.blocks << ", " << p.threads << ", " << p.sharedBytes << "]";
  }
  void dumpPayload(const Matmul &p) {
    out << "matmul " << ref(p.a) << ", " << ref(p.b) << " -> " << ref(p.c) << " bias "
        << ref(p.bias) << " residual " << ref(p.residual) << " scratch " << ref(p.scratch) << " ";
    if (p.aux >= 0)
      out << "aux " << ref(p.aux) << " ";
    dumpGeometry(p.geometry);
  }
  void dumpPayload(const Convolution &p) {
    out << "convolution " << ref(p.x) << ", " << ref(p.w) << " -> " << ref(p.y) << " bias "
        << ref(p.bias) << " residual " << ref(p.residual) << " scratch " << ref(p.scratch) << " ";
    dumpGeometry(p.geometry);
  }
  void dumpPayload(const Attention &p) {
    const AttentionGeometry &g = p.geometry;
    out << "attention (" << refs(p.inputs) << ") -> (" << refs(p.outputs) << ") scratch "
        << ref(p.scratch) << " {";
    for (size_t i = 0; i < g.operands.size(); ++i)
      out << (i ? ", " : "") << strided(g.operands[i], g.type);
    if (g.hasBias())
      out << ", bias " << strided(g.bias, g.biasType);
    out << ", scale = " << g.scale << (g.causal ? ", causal" : "");
    if (g.window > 0)
      out << ", window = " << g.window;
    out << "}";
    if (p.shardValue >= 0)
      out << " shard " << p.shardValue << " of " << p.parts;
  }
  void dumpPayload(const GroupedProduct &p) {
    const GroupedProductGeometry &g = p.geometry;
    out << (g.isGradient ? "grouped_product_gradient " : "grouped_product ") << ref(p.lhs) << ", ";
    if (p.maker)
      out << "made by @" << program->kernels[size_t(p.maker->kernel)] << "("
          << refs(p.maker->inputs) << ") extent " << p.maker->extent << " columns "
          << g.madeColumns;
    else
      out << ref(p.rhs);
    out << " by " << ref(p.group) << " -> " << ref(p.result) << " scratch " << ref(p.scratch)
        << " {lhs = " << strided(g.lhs, g.type)
        << ", rows = " << strided(g.rows, g.isGradient ? g.type : g.resultType)
        << ", matrices = " << shapeText(g.matrices(), g.isGradient ? g.resultType : g.type)
        << (g.transposed ? " transposed" : "") << ", numbers " << name(g.groupType) << "}";
  }
  void dumpPayload(const Pack &p) {
    out << "pack " << ref(p.src) << " -> " << ref(p.dst) << " ";
    std::visit([this](const auto &geometry) { dumpGeometry(geometry); }, p.geometry);
  }
  void dumpPayload(const Reorder &p) {
    out << "reorder " << ref(p.src) << " -> " << ref(p.dst) << " " << shapeText(p.dims, p.dtype)
        << " " << kLayouts[size_t(p.from)] << " to " << kLayouts[size_t(p.to)];
  }
  void dumpPayload(const Collective &p) {
    out << kCollectives[size_t(p.kind)] << " " << ref(p.input) << " -> " << ref(p.output)
        << " group " << p.group;
    if (p.kind == CollectiveKind::AllReduce || p.kind == CollectiveKind::ReduceScatter)
      out << " " << kReductions[size_t(p.reduction)];
    out << " " << p.count << "x" << name(p.dtype);
  }
  void dumpPayload(const Permute &p) {
    out << "permute " << ref(p.input) << " -> " << ref(p.output) << " permutation " << p.permutation
        << " moved " << p.bytes;
  }
  void dumpPayload(const Send &p) {
    out << "send " << ref(p.buffer) << " peer " << p.peer << " tag " << p.tag << " moved "
        << p.bytes;
  }
  void dumpPayload(const Recv &p) {
    out << "recv " << ref(p.buffer) << " peer " << p.peer << " tag " << p.tag << " moved "
        << p.bytes;
  }
  void dumpPayload(const Copy &p) {
    out << "copy " << ref(p.src) << " + " << p.srcOffset << " -> " << ref(p.dst) << " + "
        << p.dstOffset << " moved " << p.bytes;
  }
  void dumpPayload(const Read &p) {
    out << "read \"" << program->ports[size_t(p.port)].name << "\" -> " << ref(p.dst);
  }

  void dump(const RankTable &table, int32_t rank) {
    out << "rank " << rank << ": class " << table.rankClass << " groups [";
    for (size_t g = 0; g < table.groups.size(); ++g)
      out << (g ? ", " : "") << "[" << list(table.groups[g].members) << "]";
    out << "] peers [" << list(table.peers) << "] permutations [";
    for (size_t p = 0; p < table.permutations.size(); ++p)
      out << (p ? ", " : "") << "to " << table.permutations[p].sendTo << " from "
          << table.permutations[p].receiveFrom;
    out << "] values [" << list(table.rankValues) << "]\n";
    const Program &own = reader.program(table.rankClass);
    for (size_t i = 0; i < table.ports.size(); ++i)
      out << "  box \"" << own.ports[i].name << "\" at [" << list(table.ports[i].offset)
          << "] extent [" << list(table.ports[i].extent) << "] replica " << table.ports[i].replica
          << "\n";
  }
};

} // namespace

std::string dumpArtifact(const Reader &reader, bool withText) {
  return Dumper(reader).run(withText);
}

} // namespace autopar::artifact
