// SPDX-License-Identifier: Apache-2.0
// The semantic verifier of one program: indices, ranges and types of buffers, ports, instructions
// and the timetable.
#include "autopar/Artifact/Layout.h"
#include "autopar/Artifact/Verify.h"

#include <algorithm>
#include <set>

namespace autopar::artifact {
namespace {

/// Instructions that a step may run, with what they wait for: each takes a reader some bytes.
constexpr int64_t kMostRuns = int64_t{1} << 26;

Status bad(const std::string &what) { return Status::badInput(what); }

class ProgramVerifier {
public:
  ProgramVerifier(const Program &program, uint64_t constantsBytes)
      : program(program), constantsBytes(constantsBytes) {}

  Status run() {
    for (int64_t bytes : program.arenaBytes)
      if (bytes < 0)
        return bad("negative arena size");
    for (size_t i = 0; i < program.buffers.size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(
          verify(program.buffers[i])
              .at("buffer " + std::to_string(i) + " (" + program.buffers[i].name + ")"));
    for (size_t i = 0; i < program.ports.size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(
          verify(program.ports[i])
              .at("port " + std::to_string(i) + " (" + program.ports[i].name + ")"));
    for (const MadeValue &value : program.madeValues.value_or(std::vector<MadeValue>()))
      AUTOPAR_RETURN_IF_ERROR(
          verify(value).at("made value in buffer " + std::to_string(value.buffer)));
    for (const std::string &symbol : program.kernels)
      if (symbol.empty())
        return bad("a kernel has no symbol name");
    hasRow.assign(program.entries.size(), 0);
    for (const TimetableRow &row : program.timetable)
      if (row.entry >= 0 && size_t(row.entry) < hasRow.size())
        hasRow[size_t(row.entry)] = 1;
    std::set<std::string> names;
    for (const Entry &entry : program.entries) {
      if (entry.name.empty() || !names.insert(entry.name).second)
        return bad("entry name '" + entry.name + "' is empty or not unique");
      AUTOPAR_RETURN_IF_ERROR(verify(entry).at("entry " + entry.name));
    }
    AUTOPAR_RETURN_IF_ERROR(verifyTimetable());
    return verifySpecialBuffers();
  }

private:
  const Program &program;
  uint64_t constantsBytes;
  std::vector<int32_t> slotsOfEntry; ///< smallest slot count above 1 among the entry's buffers
  int32_t entrySlots = 0;
  std::vector<int64_t> runsOfEntry; ///< instructions, with what they wait for
  std::vector<uint8_t> hasRow;      ///< per entry: whether the timetable runs it

  Status verify(const Buffer &b) {
    if (b.offset < 0 || b.bytes < 0 || b.slots < 1 || b.slotStride < 0)
      return bad("negative offset, size or slot stride, or no slot");
    int64_t end = 0, slots = 0;
    if (__builtin_add_overflow(b.offset, b.bytes, &end) ||
        __builtin_mul_overflow(int64_t(b.slots - 1), b.slotStride, &slots) ||
        __builtin_add_overflow(end, slots, &end) || end > program.arenaBytes[size_t(b.space)])
      return bad("bytes [" + std::to_string(b.offset) + ", + " + std::to_string(b.bytes) +
                 ") lie outside the arena of " +
                 std::to_string(program.arenaBytes[size_t(b.space)]) + " bytes");
    auto needed = checkedBytes(b.shape, b.dtype);
    if (!needed || *needed > b.bytes)
      return bad("the shape needs more than its " + std::to_string(b.bytes) + " bytes");
    if (b.offset % byteSize(b.dtype) != 0 || b.slotStride % byteSize(b.dtype) != 0)
      return bad("offset or slot stride is not a multiple of the element size");
    return verifyView(b);
  }

  Status verifyView(const Buffer &b) {
    if (b.viewOf == -1)
      return Status::ok();
    if (b.viewOf < 0 || b.viewOf >= int64_t(program.buffers.size()))
      return bad("it is a view of buffer " + std::to_string(b.viewOf) + ", which is not there");
    const Buffer &root = program.buffers[size_t(b.viewOf)];
    bool isWithin = b.space == root.space && b.offset >= root.offset &&
                    b.offset - root.offset <= root.bytes &&
                    b.bytes <= root.bytes - (b.offset - root.offset);
    if (root.viewOf != -1 || !isWithin)
      return bad("it is a view of buffer " + std::to_string(b.viewOf) + " (" + root.name +
                 ") and has bytes that this has not, or this is a view too");
    return Status::ok();
  }

  Status verify(const MadeValue &v) {
    if (v.buffer < 0 || v.buffer >= int64_t(program.buffers.size()) ||
        program.buffers[size_t(v.buffer)].viewOf != -1)
      return bad("expected a buffer that is no view");
    for (int32_t port : v.ports)
      if (port < 0 || port >= int64_t(program.ports.size()) ||
          program.ports[size_t(port)].role != Role::Parameter)
        return bad("it is made of port " + std::to_string(port) + ", which is no parameter");
    return Status::ok();
  }

  static bool isKept(const Port &p) { return p.role == Role::Parameter || p.role == Role::State; }

  Status verify(const Port &p) {
    if (p.name.empty())
      return bad("the name is empty");
    for (const Port &other : program.ports) {
      if (&other == &p)
        break;
      if (other.role == p.role && other.name == p.name)
        return bad("two ports of one role have this name");
      bool isNamed = !p.transposeOf.empty() || !other.transposeOf.empty();
      if (isNamed && isKept(p) && isKept(other) && other.sourceName() == p.sourceName())
        return bad("two parameters or states have the source's name " + p.sourceName());
    }
    auto bytes = checkedBytes(p.shape, p.dtype);
    if (!bytes)
      return bad("the global shape is negative or too large");
    if (p.microBatches < 1 ||
        (p.microBatches > 1 && (p.shape.size() < 2 || p.shape[0] != p.microBatches)))
      return bad(std::to_string(p.microBatches) + " micro-batches do not fit the global shape");
    if (p.buffer == -1 && p.role != Role::Parameter)
      return bad("only a parameter may have no buffer");
    if (p.buffer < -1 || p.buffer >= int64_t(program.buffers.size()))
      return bad("buffer index " + std::to_string(p.buffer) + " is out of range");
    if (p.buffer >= 0) {
      const Buffer &buffer = program.buffers[size_t(p.buffer)];
      if (buffer.dtype != p.dtype || buffer.shape.size() != p.shape.size())
        return bad("type or rank of buffer " + std::to_string(p.buffer) + " (" + buffer.name +
                   ") differs");
    }
    AUTOPAR_RETURN_IF_ERROR(verifyUse(p));
    return verifySource(p, *bytes);
  }

  static Status verifyUse(const Port &p) {
    bool isScalar = p.shape.empty() && (p.dtype == DataType::F32 || p.dtype == DataType::F64);
    if (p.guards && (p.role != Role::Metric || !isScalar))
      return bad("only a metric that is an f32 or f64 scalar may guard");
    bool isFloat = p.dtype >= DataType::F16 && p.dtype <= DataType::F64;
    if (p.evaluated &&
        (p.role != Role::Metric || !isFloat || checkedBytes(p.shape, p.dtype) != byteSize(p.dtype)))
      return bad("only a metric of one float may be evaluated");
    bool isInteger = p.dtype >= DataType::I8 && p.dtype <= DataType::U64;
    if (p.limits && (p.role != Role::Input || !isInteger || p.limits->least > p.limits->most))
      return bad("only an input of integers may have limits, the lower one first");
    if (!p.missing.empty() &&
        (p.role != Role::Input || !p.shape.empty() || p.dtype != DataType::I64))
      return bad("only an input that is an i64 scalar says how much of an extent is missing");
    std::vector<int64_t> shape = p.callerShape();
    for (const VaryingDim &varying : p.varying)
      if ((p.role != Role::Input && p.role != Role::Output) || varying.dim < 0 ||
          size_t(varying.dim) >= shape.size() || varying.least < 1 || varying.step < 1 ||
          varying.least > shape[size_t(varying.dim)] ||
          (shape[size_t(varying.dim)] - varying.least) % varying.step != 0)
        return bad("only a dimension of an input or output varies, from 1 or more positions on, in "
                   "steps that lead to all of it");
    if (!p.modelShape.empty() &&
        (!isKept(p) || checkedBytes(p.modelShape, p.dtype) != checkedBytes(p.shape, p.dtype)))
      return bad(
          "only a parameter or state may have another shape in the model, of as many elements");
    if (!p.transposeOf.empty() && (!isKept(p) || p.callerShape().size() != 2))
      return bad("only a matrix that is a parameter or state may be the transpose of another");
    return Status::ok();
  }

  Status verifySource(const Port &p, int64_t bytes) {
    const Source &s = p.source;
    if (p.role == Role::Parameter && s.kind == SourceKind::None)
      return bad("a parameter needs a source");
    if (!s.drawn.empty() && s.kind != SourceKind::Absent)
      return bad("only a parameter without weights is drawn");
    if (s.kind != SourceKind::File && s.kind != SourceKind::Constants)
      return Status::ok();
    int64_t end = 0;
    if (s.offset < 0 || s.length != bytes || __builtin_add_overflow(s.offset, s.length, &end))
      return bad("source length " + std::to_string(s.length) + " is not the tensor's " +
                 std::to_string(bytes) + " bytes, or its offset is out of range");
    if (s.kind == SourceKind::Constants)
      return uint64_t(end) <= constantsBytes ? Status::ok()
                                             : bad("source lies outside the constants");
    if (s.path.empty() || s.path.find('\0') != std::string::npos)
      return bad("source path is empty or malformed");
    uint64_t chunks = (uint64_t(s.length) + kChunkBytes - 1) / kChunkBytes;
    if (!s.chunkDigests.empty() && s.chunkDigests.size() != chunks)
      return bad("expected " + std::to_string(chunks) + " chunk digests, found " +
                 std::to_string(s.chunkDigests.size()));
    return Status::ok();
  }

  Status verify(const Entry &entry) {
    entrySlots = INT32_MAX;
    for (size_t i = 0; i < entry.instructions.size(); ++i) {
      const Instruction &instruction = entry.instructions[i];
      std::string where = "instruction " + std::to_string(i) + " (" + instruction.id + ")";
      for (int32_t earlier : instruction.after)
        if (earlier < 0 || size_t(earlier) >= i)
          return bad(where + ": waits for instruction " + std::to_string(earlier) +
                     ", which is not earlier");
      for (const Await &earlier : instruction.awaits)
        AUTOPAR_RETURN_IF_ERROR(verify(earlier, entry).at(where));
      if (instruction.evaluated && instruction.commits)
        return bad(where + ": an evaluation must not commit");
      if (instruction.flops < 0 || instruction.bytes < 0)
        return bad(where + ": negative cost");
      AUTOPAR_RETURN_IF_ERROR(
          std::visit([&](const auto &payload) { return verify(payload); }, instruction.payload)
              .at(where));
    }
    int64_t runs = 0;
    for (const Instruction &instruction : entry.instructions)
      runs += 1 + int64_t(instruction.after.size() + instruction.awaits.size());
    runsOfEntry.push_back(runs);
    slotsOfEntry.push_back(entrySlots);
    return Status::ok();
  }

  Status verify(const Await &earlier, const Entry &entry) {
    if (earlier.entry < 0 || size_t(earlier.entry) >= program.entries.size() ||
        !hasRow[size_t(earlier.entry)] || !hasRow[size_t(&entry - program.entries.data())])
      return bad("awaits an instruction of entry " + std::to_string(earlier.entry) +
                 ", but no row of the timetable runs them both");
    const Entry &other = program.entries[size_t(earlier.entry)];
    if (earlier.instruction < 0 || size_t(earlier.instruction) >= other.instructions.size())
      return bad("awaits instruction " + std::to_string(earlier.instruction) + " of entry " +
                 other.name + ", which has " + std::to_string(other.instructions.size()));
    return Status::ok();
  }

  /// The buffer exists and has room for `bytes` (nothing = overflowed).
  Status use(const char *what, int32_t index, std::optional<int64_t> bytes) {
    if (index < 0 || size_t(index) >= program.buffers.size())
      return bad(std::string(what) + ": buffer index " + std::to_string(index) +
                 " is out of range");
    const Buffer &buffer = program.buffers[size_t(index)];
    if (!bytes || *bytes < 0 || *bytes > buffer.bytes)
      return bad(std::string(what) + ": buffer " + std::to_string(index) + " (" + buffer.name +
                 ") has " + std::to_string(buffer.bytes) + " bytes, needed are " +
                 (bytes ? std::to_string(*bytes) : std::string("too many")));
    if (buffer.slots > 1)
      entrySlots = std::min(entrySlots, buffer.slots);
    return Status::ok();
  }
  Status useOptional(const char *what, bool wanted, int32_t index, std::optional<int64_t> bytes) {
    if (wanted != (index != -1))
      return bad(std::string(what) + (wanted ? " has no buffer" : " has a buffer but is not used"));
    return wanted ? use(what, index, bytes) : Status::ok();
  }
  Status useScratch(int32_t index) { return index == -1 ? Status::ok() : use("scratch", index, 0); }

  Status verify(const Launch &p) {
    if (p.kernel < 0 || size_t(p.kernel) >= program.kernels.size())
      return bad("kernel index " + std::to_string(p.kernel) + " is out of range");
    if (p.extent < 0)
      return bad("negative extent");
    if (p.outputs < 0 || size_t(p.outputs) > p.args.size())
      return bad("more outputs than arguments");
    for (int32_t arg : p.args)
      AUTOPAR_RETURN_IF_ERROR(use("argument", arg, 0));
    return Status::ok();
  }

  Status verify(const Matmul &p) {
    const MatmulGeometry &g = p.geometry;
    AUTOPAR_RETURN_IF_ERROR(verifyGeometry(g));
    AUTOPAR_RETURN_IF_ERROR(use("a", p.a, spanBytes(g.a, g.aType)));
    AUTOPAR_RETURN_IF_ERROR(use("b", p.b, g.packedB ? 0 : spanBytes(g.b, g.bType)));
    AUTOPAR_RETURN_IF_ERROR(use("c", p.c, spanBytes(g.c, g.cType)));
    AUTOPAR_RETURN_IF_ERROR(
        useOptional("bias", g.hasBias, p.bias, checkedBytes({g.c.dims.back()}, g.biasType)));
    AUTOPAR_RETURN_IF_ERROR(useOptional("residual", g.hasResidual, p.residual, residualBytes(g)));
    AUTOPAR_RETURN_IF_ERROR(useOptional("aux", storesAux(g.epilogue), p.aux, auxBytes(g)));
    return useScratch(p.scratch);
  }

  Status verify(const Convolution &p) {
    const ConvolutionGeometry &g = p.geometry;
    AUTOPAR_RETURN_IF_ERROR(verifyGeometry(g));
    bool ofFilter = g.kind == ConvolutionKind::FilterGradient;
    auto yBytes = ofFilter ? checkedBytes(g.y, g.yType) : layoutBytes(g.y, g.yType, g.yLayout);
    AUTOPAR_RETURN_IF_ERROR(use("x", p.x, layoutBytes(g.x, g.xType, g.xLayout)));
    AUTOPAR_RETURN_IF_ERROR(use("w", p.w,
                                ofFilter    ? layoutBytes(g.w, g.wType, g.yLayout)
                                : g.packedW ? 0
                                            : checkedBytes(g.w, g.wType)));
    AUTOPAR_RETURN_IF_ERROR(use("y", p.y, yBytes));
    AUTOPAR_RETURN_IF_ERROR(
        useOptional("bias", g.hasBias, p.bias, checkedBytes({g.w[0]}, g.biasType)));
    AUTOPAR_RETURN_IF_ERROR(useOptional("residual", g.hasResidual, p.residual, yBytes));
    return useScratch(p.scratch);
  }

  /// Of a triangle's rows, where a rank has some of them.
  static Status verifyParts(const Attention &p) {
    const AttentionGeometry &g = p.geometry;
    if (p.shardValue == -1 && p.parts == 1)
      return Status::ok();
    int64_t rows = 0;
    if (p.shardValue < 0 || p.parts < 1 || !g.causal ||
        __builtin_mul_overflow(p.parts, g.operands[0].dims[2], &rows) ||
        rows > g.operands[1].dims[2])
      return bad("attention: " + std::to_string(p.parts) +
                 " parts of rows need a triangle with as many keys, and a rank value");
    return Status::ok();
  }
  Status verify(const Attention &p) {
    const AttentionGeometry &g = p.geometry;
    AUTOPAR_RETURN_IF_ERROR(verifyGeometry(g));
    AUTOPAR_RETURN_IF_ERROR(verifyParts(p));
    size_t reads = (g.isGradient() ? 6 : 3) + (g.hasBias() ? 1 : 0),
           writes = g.isGradient() ? 3 : 2;
    if (p.inputs.size() != reads || p.outputs.size() != writes)
      return bad("attention needs " + std::to_string(reads) + " inputs and " +
                 std::to_string(writes) + " outputs, it has " + std::to_string(p.inputs.size()) +
                 " and " + std::to_string(p.outputs.size()));
    auto span = [&](size_t operand) { return spanBytes(g.operands[operand], g.type); };
    std::vector<int64_t> rows(g.operands[0].dims.begin(), g.operands[0].dims.begin() + 3);
    std::optional<int64_t> sums = checkedBytes(rows, DataType::F32);
    for (size_t i = 0; i < 3; ++i)
      AUTOPAR_RETURN_IF_ERROR(use("attention input", p.inputs[i], span(i)));
    if (g.hasBias())
      AUTOPAR_RETURN_IF_ERROR(
          use("attention bias", p.inputs.back(), spanBytes(g.bias, g.biasType)));
    if (!g.isGradient()) {
      AUTOPAR_RETURN_IF_ERROR(use("attention output", p.outputs[0], span(3)));
      AUTOPAR_RETURN_IF_ERROR(use("row sums", p.outputs[1], sums));
      return useScratch(p.scratch);
    }
    AUTOPAR_RETURN_IF_ERROR(use("attention output", p.inputs[3], span(3)));
    AUTOPAR_RETURN_IF_ERROR(use("row sums", p.inputs[4], sums));
    AUTOPAR_RETURN_IF_ERROR(use("gradient of the output", p.inputs[5], span(4)));
    for (size_t i = 0; i < 3; ++i)
      AUTOPAR_RETURN_IF_ERROR(use("gradient", p.outputs[i], span(5 + i)));
    return useScratch(p.scratch);
  }

  Status verify(const GroupedProduct &p) {
    const GroupedProductGeometry &g = p.geometry;
    AUTOPAR_RETURN_IF_ERROR(verifyGeometry(g));
    std::vector<int64_t> rows(g.lhs.dims.begin(), g.lhs.dims.end() - 1);
    auto matrices = checkedBytes(g.matrices(), g.isGradient ? g.resultType : g.type);
    auto ofRows = spanBytes(g.rows, g.isGradient ? g.type : g.resultType);
    AUTOPAR_RETURN_IF_ERROR(use("left side", p.lhs, spanBytes(g.lhs, g.type)));
    bool isMade = g.madeColumns > 0;
    if (isMade != p.maker.has_value())
      return bad("a kernel that makes matrices and columns to make belong together");
    AUTOPAR_RETURN_IF_ERROR(
        useOptional("right side", !isMade, p.rhs, g.isGradient ? ofRows : matrices));
    if (isMade)
      AUTOPAR_RETURN_IF_ERROR(verify(*p.maker, g));
    AUTOPAR_RETURN_IF_ERROR(use("groups of rows", p.group, checkedBytes(rows, g.groupType)));
    AUTOPAR_RETURN_IF_ERROR(use("result", p.result, g.isGradient ? matrices : ofRows));
    return useScratch(p.scratch);
  }

  Status verify(const MatrixMaker &maker, const GroupedProductGeometry &g) {
    if (maker.kernel < 0 || size_t(maker.kernel) >= program.kernels.size())
      return bad("kernel index " + std::to_string(maker.kernel) + " is out of range");
    if (maker.extent < 0)
      return bad("negative extent");
    size_t inputs = maker.inputs.size();
    if (maker.matrixSteps.size() != inputs || maker.columnSteps.size() != inputs)
      return bad("a kernel that makes matrices needs two steps for each of its inputs");
    for (size_t i = 0; i < inputs; ++i) {
      int64_t toMatrix = 0, toColumns = 0, last = 0;
      if (maker.matrixSteps[i] < 0 || maker.columnSteps[i] < 0 ||
          __builtin_mul_overflow(maker.matrixSteps[i], g.groups - 1, &toMatrix) ||
          __builtin_mul_overflow(maker.columnSteps[i], g.columns() / g.madeColumns - 1,
                                 &toColumns) ||
          __builtin_add_overflow(toMatrix, toColumns, &last))
        return bad("a step to the next matrix is negative or too large");
      AUTOPAR_RETURN_IF_ERROR(use("what matrices are made of", maker.inputs[i], last));
    }
    return Status::ok();
  }

  Status verify(const Pack &p) {
    std::optional<int64_t> srcBytes;
    if (auto *g = std::get_if<MatmulGeometry>(&p.geometry)) {
      AUTOPAR_RETURN_IF_ERROR(verifyGeometry(*g));
      srcBytes = spanBytes(g->b, g->bType);
    } else {
      const auto &c = std::get<ConvolutionGeometry>(p.geometry);
      AUTOPAR_RETURN_IF_ERROR(verifyGeometry(c));
      srcBytes = checkedBytes(c.w, c.wType);
    }
    AUTOPAR_RETURN_IF_ERROR(use("source", p.src, srcBytes));
    return use("destination", p.dst, 0);
  }

  Status verify(const Reorder &p) {
    if (p.dims.size() < 3 || p.dims.size() > 5)
      return bad("reorder needs 1 to 3 spatial dims");
    AUTOPAR_RETURN_IF_ERROR(use("source", p.src, layoutBytes(p.dims, p.dtype, p.from)));
    return use("destination", p.dst, layoutBytes(p.dims, p.dtype, p.to));
  }

  Status verify(const Collective &p) {
    if (p.group < 0 || p.count < 0)
      return bad("negative group index or count");
    AUTOPAR_RETURN_IF_ERROR(use("input", p.input, checkedBytes({p.count}, p.dtype)));
    // The output's size depends on the group; verifyRanks checks it.
    return use("output", p.output, 0);
  }

  Status verify(const Permute &p) {
    if (p.permutation < 0)
      return bad("negative permutation index");
    AUTOPAR_RETURN_IF_ERROR(use("input", p.input, p.bytes));
    return use("output", p.output, p.bytes);
  }
  template <typename Message>
  Status verifyMessage(const Message &p) {
    if (p.peer < 0 || p.tag < 0)
      return bad("negative peer index or tag");
    // A slot is added to the tag.
    entrySlots = std::min(entrySlots, INT32_MAX - std::max(p.tag, 1) + 1);
    return use("buffer", p.buffer, p.bytes);
  }
  Status verify(const Send &p) { return verifyMessage(p); }
  Status verify(const Recv &p) { return verifyMessage(p); }

  static std::optional<int64_t> endOf(int64_t offset, int64_t bytes) {
    int64_t end = 0;
    if (offset < 0 || bytes < 0 || __builtin_add_overflow(offset, bytes, &end))
      return std::nullopt;
    return end;
  }
  Status verify(const Copy &p) {
    AUTOPAR_RETURN_IF_ERROR(use("source", p.src, endOf(p.srcOffset, p.bytes)));
    return use("destination", p.dst, endOf(p.dstOffset, p.bytes));
  }

  Status verify(const Read &p) {
    if (p.port < 0 || size_t(p.port) >= program.ports.size())
      return bad("port index " + std::to_string(p.port) + " is out of range");
    const Port &port = program.ports[size_t(p.port)];
    if (port.role != Role::Parameter)
      return bad("port " + port.name + " is not a parameter");
    AUTOPAR_RETURN_IF_ERROR(use("destination", p.dst, 0));
    const Buffer &buffer = program.buffers[size_t(p.dst)];
    if (buffer.dtype != port.dtype || buffer.shape.size() != port.shape.size())
      return bad("type or rank of buffer " + buffer.name + " differs from that of port " +
                 port.name);
    return Status::ok();
  }

  Status verifyTimetable() {
    int64_t runs = 0;
    for (const TimetableRow &row : program.timetable) {
      if (row.entry < 0 || size_t(row.entry) >= program.entries.size())
        return bad("timetable: entry index " + std::to_string(row.entry) + " is out of range");
      if (row.slot < 0 || row.slot >= slotsOfEntry[size_t(row.entry)])
        return bad("timetable: slot " + std::to_string(row.slot) + " of entry " +
                   program.entries[size_t(row.entry)].name + " is out of range");
      runs += runsOfEntry[size_t(row.entry)];
      if (runs > kMostRuns)
        return bad("timetable: a step runs more than " + std::to_string(kMostRuns) +
                   " instructions, counted with what they wait for");
    }
    return Status::ok();
  }

  Status verifySpecialBuffers() {
    if (program.plannedThreads < 1)
      return bad("planned threads must be at least 1");
    if (program.controlBuffer != -1)
      AUTOPAR_RETURN_IF_ERROR(use("control buffer", program.controlBuffer, kControlWords * 8));
    if (program.rankValuesBuffer != -1)
      AUTOPAR_RETURN_IF_ERROR(use("rank values buffer", program.rankValuesBuffer, 0));
    return Status::ok();
  }
};

} // namespace

Status verifyProgram(const Program &program, uint64_t constantsBytes) {
  return ProgramVerifier(program, constantsBytes).run();
}

} // namespace autopar::artifact
