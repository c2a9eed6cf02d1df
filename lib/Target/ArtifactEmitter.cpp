// SPDX-License-Identifier: Apache-2.0
// Exec IR as compiled.bin: one operation is one entity of the artifact.
#include "autopar/Target/ArtifactEmitter.h"

#include "InstructionEmitter.h"
#include "MadeValues.h"
#include "WeightSources.h"
#include "autopar/Interfaces/ElementTypes.h"

using namespace mlir;
using namespace mlir::autopar;
namespace artifact = ::autopar::artifact;
using ::autopar::Result;
using ::autopar::Status;

namespace {
std::vector<int64_t> listOf(ArrayRef<int64_t> values) { return values.vec(); }

artifact::VaryingDim varyingDim(DictionaryAttr entry) {
  auto number = [&](StringRef name, int64_t otherwise) {
    auto given = entry.getAs<IntegerAttr>(name);
    return given ? given.getInt() : otherwise;
  };
  return {static_cast<int32_t>(number("dim", 0)), entry.getAs<StringAttr>("extent").str(),
          number("least", 1), number("step", 1)};
}

/// One program being emitted.
struct ProgramEmitter {
  ProgramEmitter(exec::ProgramOp op, WeightSources &weights) : op(op), weights(weights) {}

  exec::ProgramOp op;
  WeightSources &weights;
  artifact::Program program;
  ProgramIndices indices;

  /// `kernels`: the functions that launches name; may be null.
  Result<artifact::Program> emit(ModuleOp kernels) {
    if (!op.getArena())
      return Status::badInput("exec.program @" + op.getSymName().str() +
                              " has no arena: plan memory first");
    program.name = op.getSymName().str();
    for (size_t space = 0; space < artifact::kSpaceCount; ++space)
      program.arenaBytes[space] = (*op.getArena())[space];
    program.plannedThreads = op.getThreads();
    AUTOPAR_RETURN_IF_ERROR(emitBuffers());
    AUTOPAR_RETURN_IF_ERROR(emitPorts());
    for (auto entry : op.getOps<exec::EntryOp>()) {
      indices.entries[entry.getSymName()] = program.entries.size();
      artifact::Entry emitted{entry.getSymName().str(), {}};
      for (Operation &instruction : entry.getBody().front())
        emitted.instructions.push_back(emitInstruction(&instruction, indices, program.kernels));
      program.entries.push_back(std::move(emitted));
    }
    for (auto timetable : op.getOps<exec::TimetableOp>())
      for (auto [entry, slot] : llvm::zip(timetable.getEntries(), timetable.getSlots()))
        program.timetable.push_back(
            {indices.entries.lookup(cast<FlatSymbolRefAttr>(entry).getValue()),
             static_cast<int32_t>(slot)});
    program.madeValues = findMadeValues(op, indices, kernels);
    return program;
  }

  Status emitBuffers() {
    for (Operation &declaration : op.getBody().front()) {
      artifact::Buffer buffer;
      RankedTensorType type;
      if (auto plain = dyn_cast<exec::BufferOp>(declaration)) {
        if (!plain.getOffset())
          return Status::badInput("exec.buffer \"" + plain.getName().str() +
                                  "\" has no offset: plan memory first");
        type = plain.tensorType();
        buffer.name = plain.getName().str();
        buffer.offset = *plain.getOffset();
        buffer.bytes = plain.getBytes();
        buffer.slots = plain.getSlots();
        buffer.slotStride = plain.getSlotStride();
        buffer.space = static_cast<artifact::Space>(plain.getSpace());
        if (plain.getBinding() == exec::Binding::Control)
          program.controlBuffer = program.buffers.size();
        if (plain.getBinding() == exec::Binding::RankValues)
          program.rankValuesBuffer = program.buffers.size();
      } else if (auto view = dyn_cast<exec::ViewOp>(declaration)) {
        auto [root, offset] = exec::rootOf(view.getResult());
        type = view.tensorType();
        buffer.name = view.getName().str();
        buffer.offset = *root.getOffset() + offset;
        buffer.bytes = view.getBytes();
        std::tie(buffer.slots, buffer.slotStride) = exec::slotsOf(view.getResult());
        buffer.space = static_cast<artifact::Space>(root.getSpace());
        buffer.viewOf = indices.buffers.lookup(root);
      } else {
        continue;
      }
      buffer.dtype = mlir::autopar::dataTypeOf(type.getElementType());
      buffer.shape = listOf(type.getShape());
      indices.buffers[declaration.getResult(0)] = program.buffers.size();
      program.buffers.push_back(std::move(buffer));
    }
    return Status::ok();
  }

  Status emitPorts() {
    for (auto port : op.getOps<exec::PortOp>()) {
      artifact::Port emitted;
      emitted.role = static_cast<artifact::Role>(port.getRole());
      emitted.name = port.getName().str();
      emitted.dtype = mlir::autopar::dataTypeOf(port.tensorType().getElementType());
      emitted.shape = listOf(port.tensorType().getShape());
      emitted.microBatches = port.getMicroBatches();
      if (port.getBuffer())
        emitted.buffer = indices.buffers.lookup(port.getBuffer());
      emitted.guards = port.getGuards();
      emitted.evaluated = port.getEvaluated();
      if (auto shape = port.getModelShape())
        emitted.modelShape = listOf(*shape);
      emitted.transposeOf = port.getTransposeOf().value_or("").str();
      if (auto varying = port.getVarying())
        for (auto each : varying->getAsRange<DictionaryAttr>())
          emitted.varying.push_back(varyingDim(each));
      emitted.missing = port.getMissing().value_or("").str();
      if (auto limits = port.getLimits()) {
        emitted.limits = artifact::Limits{(*limits)[0], (*limits)[1], {}};
        if (auto exception = port.getException())
          emitted.limits->exception = static_cast<int64_t>(*exception);
      }
      if (port.getRole() == exec::Role::Parameter || port.getFromModel()) {
        Result<artifact::Source> source = weights.sourceOf(port);
        if (!source.isOk())
          return source.status();
        emitted.source = source.take();
        indices.parameters[port.getName()] = program.ports.size();
      }
      program.ports.push_back(std::move(emitted));
    }
    return Status::ok();
  }
};

artifact::RankTable emitRank(exec::RankOp op, int32_t rankClass) {
  artifact::RankTable table;
  table.rankClass = rankClass;
  for (auto group : op.getGroups().getAsRange<DenseI32ArrayAttr>())
    table.groups.push_back({group.asArrayRef().vec()});
  table.peers = op.getPeers().vec();
  for (auto permutation : op.getPermutations().getAsRange<DenseI32ArrayAttr>())
    table.permutations.push_back({permutation[0], permutation[1]});
  table.rankValues = listOf(op.getValues());
  for (auto shard : op.getPorts().getAsRange<exec::ShardAttr>())
    table.ports.push_back({listOf(shard.getOffset().asArrayRef()),
                           listOf(shard.getExtent().asArrayRef()), shard.getReplica()});
  return table;
}
} // namespace

Result<artifact::Contents> mlir::autopar::buildArtifact(ModuleOp module, EmitOptions options) {
  artifact::Contents contents;
  contents.target = std::move(options.target);
  contents.plan = std::move(options.plan);
  contents.source = std::move(options.source);
  WeightSources weights(options.folder, options.weights);
  llvm::StringMap<int32_t> classes;
  for (auto op : module.getOps<exec::ProgramOp>()) {
    ProgramEmitter emitter(op, weights);
    Result<artifact::Program> program = emitter.emit(module.lookupSymbol<ModuleOp>("kernels"));
    if (!program.isOk())
      return program.status();
    classes[op.getSymName()] = contents.classes.size();
    artifact::RankClass rankClass{program.take()};
    if (!rankClass.program.kernels.empty()) {
      rankClass.kernels.assign(options.kernels.begin(), options.kernels.end());
      rankClass.ptx = options.ptx;
      rankClass.cubin.assign(options.cubin.begin(), options.cubin.end());
    }
    contents.classes.push_back(std::move(rankClass));
  }
  if (contents.classes.empty())
    return Status::badInput("the module holds no exec.program: lower it first");
  for (auto op : module.getOps<exec::RankOp>()) {
    if (op.getRank() != contents.ranks.size())
      return Status::badInput("exec.rank " + std::to_string(op.getRank()) + " stands where rank " +
                              std::to_string(contents.ranks.size()) + " was expected");
    contents.ranks.push_back(emitRank(op, classes.lookup(op.getProgram())));
  }
  contents.constants = weights.takeConstants();
  AUTOPAR_RETURN_IF_ERROR(weights.finish());
  return contents;
}
