// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "Beside.h"

#include "autopar/Artifact/LastingValues.h"
#include "autopar/Artifact/Workspace.h"
#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/HeldForm.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::AxisList;
using ::autopar::Constraints;
using ::autopar::Mesh;
using ::autopar::Plan;
using ::autopar::Result;
using ::autopar::Status;
namespace artifact = ::autopar::artifact;

/// What the model itself holds: constants of one program need not be those of another.
static bool isOfModel(const artifact::Port &port) {
  return port.role == artifact::Role::State ||
         (port.role == artifact::Role::Parameter &&
          port.source.kind != artifact::SourceKind::Constants);
}

/// Which operations are on which stage.
static Status demandCut(Constraints &demands, const std::string &path, const Plan &plan) {
  Result<std::vector<Mesh>> meshes = plan.stageMeshes();
  if (!meshes)
    return meshes.status().at(path);
  AUTOPAR_RETURN_IF_ERROR(demands.demand(path, "stages", std::to_string(meshes->size())));
  if (plan.stages.size() > meshes->size())
    AUTOPAR_RETURN_IF_ERROR(demands.demand(path, "virtual-stages",
                                           std::to_string(plan.stages.size() / meshes->size())));
  if (plan.stages.size() > 1)
    for (auto [number, stage] : llvm::enumerate(plan.stages))
      for (const std::string &op : stage.ops)
        demands.demandStage(path, op, static_cast<int64_t>(number));
  std::string shapes;
  for (const Mesh &mesh : *meshes)
    shapes += (shapes.empty() ? "" : "/") + ::autopar::shapeText(mesh.axes);
  return demands.demand(path, "mesh", shapes);
}

Result<ProgramBeside> ProgramBeside::open(const std::string &path) {
  Result<artifact::Reader> reader = artifact::Reader::open(path);
  if (!reader)
    return reader.status();
  ProgramBeside program(reader.take());
  if (program.reader.plan().empty())
    return program;
  Result<Plan> plan = Plan::fromJson(program.reader.plan());
  if (!plan)
    return plan.status().at(path);
  program.plan = plan.take();
  return program;
}

Result<Constraints> ProgramBeside::meshes(int64_t devices) const {
  if (reader.worldSize() != devices)
    return Status::mismatch("--beside " + reader.path() + " is for " +
                            std::to_string(reader.worldSize()) + " ranks, this one for " +
                            std::to_string(devices) + ": expected the same number");
  Constraints demands;
  if (plan)
    AUTOPAR_RETURN_IF_ERROR(demandCut(demands, reader.path(), *plan));
  return demands;
}

/// The lists of a shape's dimensions as those of another shape, which differs by extents of 1;
/// nothing where it differs by more.
static std::optional<std::vector<AxisList>> reshaped(const std::vector<AxisList> &lists,
                                                     ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  std::vector<AxisList> result(to.size());
  size_t dim = 0;
  for (auto [extent, list] : llvm::zip_equal(from, lists)) {
    if (extent == 1)
      continue;
    while (dim < to.size() && to[dim] == 1)
      ++dim;
    if (dim == to.size() || to[dim] != extent)
      return std::nullopt;
    result[dim++] = list;
  }
  bool isAll = llvm::all_of(to.drop_front(dim), [](int64_t extent) { return extent == 1; });
  return isAll ? std::optional(result) : std::nullopt;
}

Constraints ProgramBeside::shardings(func::FuncOp function) const {
  Constraints demands;
  if (!plan)
    return demands;
  llvm::StringMap<const artifact::Port *> ports;
  for (const artifact::Port *port : reader.ports())
    if (isOfModel(*port))
      ports[port->name] = port;
  for (BlockArgument argument : function.getArguments()) {
    std::string name = nameOfArgument(argument);
    const artifact::Port *port = ports.lookup(name);
    auto sharding = plan->values.find(name);
    if (!port || sharding == plan->values.end() ||
        sharding->second.dims.size() != port->shape.size())
      continue;
    if (auto lists = reshaped(sharding->second.dims, port->shape,
                              cast<RankedTensorType>(argument.getType()).getShape()))
      demands.demandSharding(reader.path(), name, std::move(*lists));
  }
  return demands;
}

/// How a program holds its parameters: as load leaves them.
static void findForms(const artifact::Program &program, llvm::StringMap<HeldForm> &forms) {
  llvm::DenseSet<int32_t> packed;
  for (const artifact::Entry &entry : program.entries)
    for (const artifact::Instruction &instruction : entry.instructions)
      if (auto *pack = std::get_if<artifact::Pack>(&instruction.payload))
        packed.insert(pack->dst);
  if (program.madeValues)
    for (const artifact::MadeValue &value : *program.madeValues)
      if (value.ports.size() == 1)
        forms[program.ports[value.ports[0]].name] =
            packed.contains(value.buffer) ? HeldForm::Packed : HeldForm::AlongRows;
  for (const artifact::Port &port : program.ports)
    if (port.role == artifact::Role::Parameter && port.buffer >= 0)
      forms[port.name] = HeldForm::AsItIs;
}

void ProgramBeside::tellForms(func::FuncOp function) const {
  if (reader.target().isCuda())
    return; // its library reads all weights as they are
  llvm::StringMap<HeldForm> forms;
  for (int32_t rankClass = 0; rankClass < reader.classCount(); ++rankClass)
    findForms(reader.program(rankClass), forms);
  SignatureAttributes attributes = SignatureAttributes::ofArguments(function);
  for (BlockArgument argument : function.getArguments())
    if (auto form = forms.find(nameOfArgument(argument)); form != forms.end())
      attributes.set(argument.getArgNumber(), kHeldAttribute,
                     StringAttr::get(function.getContext(), nameOf(form->second)));
  attributes.write();
}

static std::vector<artifact::LastingValue> heldBy(const artifact::Reader &reader, int32_t rank) {
  artifact::LastingFacts facts;
  facts.layoutOf = ::autopar::cpumath::packedLayout;
  facts.replacedBy = [](const artifact::Port &) { return ""; };
  return lastingValues(reader, rank, facts);
}

MemoryBeside ProgramBeside::memory() const {
  MemoryBeside memory{0, std::numeric_limits<int64_t>::max()};
  for (int32_t rank = 0; rank < reader.worldSize(); ++rank) {
    const artifact::Program &program = reader.programOfRank(rank);
    int64_t held = 0;
    for (const artifact::LastingValue &value : heldBy(reader, rank))
      if (const artifact::Buffer &buffer = program.buffers[value.buffer];
          buffer.space == artifact::Space::Device)
        held += buffer.bytes;
    int64_t all = program.arenaBytes[size_t(artifact::Space::Device)];
    memory.own = std::max(memory.own, all - held);
    memory.common = std::min(memory.common, held + artifact::workspaceOf(program).bytes);
  }
  return memory;
}

int64_t ProgramBeside::bytesInCommon(const artifact::Reader &other) const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int32_t rank = 0; rank < other.worldSize(); ++rank) {
    llvm::StringSet<> held;
    for (const artifact::LastingValue &value : heldBy(reader, rank))
      held.insert(value.identity.hex());
    int64_t bytes = 0;
    for (const artifact::LastingValue &value : heldBy(other, rank))
      if (held.contains(value.identity.hex()))
        bytes += other.programOfRank(rank).buffers[value.buffer].bytes;
    least = std::min(least, bytes);
  }
  return least;
}
