// SPDX-License-Identifier: Apache-2.0
// Programs, buffers, ports, entries, timetables and ranks: verification.
#include "autopar/Dialect/Exec/IR/Exec.h"

#include "autopar/Interfaces/ElementTypes.h"

using namespace mlir;
using namespace mlir::exec;

std::pair<BufferOp, int64_t> mlir::exec::rootOf(Value buffer) {
  int64_t offset = 0;
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    offset += view.getOffset();
    buffer = view.getBase();
  }
  return {buffer.getDefiningOp<BufferOp>(), offset};
}

std::pair<int64_t, int64_t> mlir::exec::slotsOf(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>()) {
    if (view.getSlots() > 1)
      return {view.getSlots(), view.getSlotStride()};
    buffer = view.getBase();
  }
  auto root = buffer.getDefiningOp<BufferOp>();
  return {root.getSlots(), root.getSlotStride()};
}

int64_t mlir::exec::bytesOf(Value buffer) {
  if (auto view = buffer.getDefiningOp<ViewOp>())
    return view.getBytes();
  return buffer.getDefiningOp<BufferOp>().getBytes();
}

RankedTensorType mlir::exec::tensorTypeOf(Value buffer) {
  if (auto view = buffer.getDefiningOp<ViewOp>())
    return view.tensorType();
  return buffer.getDefiningOp<BufferOp>().tensorType();
}

LogicalResult ProgramOp::verify() {
  if (getArena() && getArena()->size() != 3)
    return emitOpError() << "expected arena bytes of 3 spaces, got " << getArena()->size();
  if (getThreads() < 1)
    return emitOpError() << "expected at least one thread, got " << getThreads();
  for (auto buffer : getOps<BufferOp>()) {
    if (!getArena() || !buffer.getOffset())
      continue;
    int64_t arena = (*getArena())[static_cast<size_t>(buffer.getSpace())];
    int64_t end =
        *buffer.getOffset() + (buffer.getSlots() - 1) * buffer.getSlotStride() + buffer.getBytes();
    if (end > arena)
      return buffer.emitOpError() << "ends at " << end << ", behind its arena of " << arena
                                  << " bytes";
  }
  return success();
}

static LogicalResult verifyTensor(Operation *op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return op->emitOpError() << "expected a static tensor type, got " << type;
  if (!mlir::autopar::isElementType(tensor.getElementType()))
    return op->emitOpError() << "expected elements of " << mlir::autopar::kElementTypes << ", got "
                             << type;
  return success();
}

LogicalResult BufferOp::verify() {
  if (failed(verifyTensor(*this, getType())))
    return failure();
  if (static_cast<int64_t>(getBytes()) < tensorBytes(tensorType()))
    return emitOpError() << "of " << getBytes() << " bytes is too small for " << tensorType();
  if (getOffset() && static_cast<int64_t>(*getOffset()) < 0)
    return emitOpError() << "has the negative offset " << static_cast<int64_t>(*getOffset());
  return success();
}

LogicalResult ViewOp::verify() {
  if (failed(verifyTensor(*this, getType())))
    return failure();
  int64_t offset = getOffset(), bytes = getBytes();
  if (!getBase().getDefiningOp<BufferOp>() && !getBase().getDefiningOp<ViewOp>())
    return emitOpError("expected a view of a buffer or of another view");
  int64_t slots = getSlots(), stride = getSlotStride();
  if (slots < 1 || stride < 0)
    return emitOpError() << "expected at least one slot, and others behind it, got " << slots
                         << " with a stride of " << stride;
  int64_t end = offset + (slots - 1) * stride + bytes;
  if (offset < 0 || bytes < tensorBytes(tensorType()) || end > bytesOf(getBase()))
    return emitOpError() << "of bytes [" << offset << ", " << end
                         << ") does not fit into its base of " << bytesOf(getBase()) << " bytes";
  return success();
}

/// Of an input or output, whose dimensions count as the outside does: micro-batches and samples are
/// one.
static LogicalResult verifyVarying(PortOp port) {
  auto varying = port.getVarying().value_or(ArrayAttr());
  if (!varying)
    return success();
  if (port.getRole() != Role::Input && port.getRole() != Role::Output)
    return port.emitOpError() << "\"" << port.getName() << "\": only inputs and outputs vary";
  for (Attribute each : varying) {
    auto entry = dyn_cast<DictionaryAttr>(each);
    auto dim = entry ? entry.getAs<IntegerAttr>("dim") : IntegerAttr();
    auto least = entry ? entry.getAs<IntegerAttr>("least") : IntegerAttr();
    auto step = entry ? entry.getAs<IntegerAttr>("step") : IntegerAttr();
    if (!dim || !least || !entry.getAs<StringAttr>("extent") || dim.getInt() < 0 ||
        dim.getInt() >= port.tensorType().getRank() || least.getInt() < 1 ||
        (step && step.getInt() < 1))
      return port.emitOpError() << "\"" << port.getName()
                                << "\": expected {dim, extent, least, step} of a dimension, got "
                                << each;
  }
  return success();
}

LogicalResult PortOp::verify() {
  if (failed(verifyTensor(*this, getType())))
    return failure();
  bool parameter = getRole() == Role::Parameter || getRole() == Role::State;
  if (!parameter && !getBuffer())
    return emitOpError() << "\"" << getName() << "\": only a parameter may go without a buffer";
  if (!parameter && (getFile() || getValue()))
    return emitOpError() << "\"" << getName() << "\": only a parameter has a source";
  if (getFile() && getValue())
    return emitOpError() << "\"" << getName() << "\": expected a file or a value, not both";
  if (getDrawn() && (!parameter || getFile() || getValue()))
    return emitOpError() << "\"" << getName() << "\": only a parameter without a source is drawn";
  if (getGuards() &&
      (getRole() != Role::Metric || tensorType().getRank() != 0 ||
       !(tensorType().getElementType().isF32() || tensorType().getElementType().isF64())))
    return emitOpError() << "\"" << getName()
                         << "\": only a metric that is an f32 or f64 scalar may guard";
  if (getLimits() && (getRole() != Role::Input || getLimits()->size() != 2))
    return emitOpError() << "\"" << getName() << "\": expected two limits, on an input";
  if (getMissing() && (getRole() != Role::Input || tensorType().getRank() != 0 ||
                       !tensorType().getElementType().isInteger(64)))
    return emitOpError() << "\"" << getName()
                         << "\": only an i64 scalar input says how much is missing";
  if (failed(verifyVarying(*this)))
    return failure();
  if (getModelShape() &&
      (!parameter || llvm::product_of(*getModelShape()) != tensorType().getNumElements()))
    return emitOpError() << "\"" << getName() << "\": the shape [" << *getModelShape()
                         << "] in the model does not fit " << getType();
  size_t rank = getModelShape() ? getModelShape()->size() : size_t(tensorType().getRank());
  if (getTransposeOf() && (!parameter || rank != 2))
    return emitOpError()
           << "\"" << getName()
           << "\": only a parameter that is a matrix in the model is the transpose of "
              "another";
  auto microBatches = static_cast<int64_t>(getMicroBatches());
  if (microBatches < 1 || (microBatches > 1 && (tensorType().getRank() < 2 ||
                                                tensorType().getDimSize(0) != microBatches)))
    return emitOpError() << "\"" << getName() << "\": " << microBatches
                         << " micro-batches do not fit " << getType();
  if (getValue() && getValue()->getShapedType() != getType())
    return emitOpError() << "\"" << getName() << "\": value of type " << getValue()->getShapedType()
                         << " for a port of type " << getType();
  return success();
}

LogicalResult HandOnOp::verify() {
  auto from = getFrom().getDefiningOp<BufferOp>(), to = getTo().getDefiningOp<BufferOp>();
  if (!from || !to || from == to || from.getBytes() != to.getBytes() ||
      from.getSpace() != to.getSpace())
    return emitOpError("expected two buffers of one space with the same number of bytes");
  return success();
}

/// Whether there are the instructions that `op` awaits.
static LogicalResult verifyAwaits(Operation &op, ProgramOp program) {
  auto awaits = op.getAttrOfType<DictionaryAttr>("awaits");
  for (NamedAttribute of : awaits ? awaits.getValue() : ArrayRef<NamedAttribute>()) {
    auto entry = dyn_cast_or_null<EntryOp>(program.lookupSymbol(of.getName()));
    auto indices = dyn_cast<DenseI32ArrayAttr>(of.getValue());
    if (!entry || !indices)
      return op.emitOpError() << "awaits " << of.getName() << " = " << of.getValue()
                              << "; expected an entry and indices of its instructions";
    auto count = static_cast<int32_t>(entry.getBody().front().getOperations().size());
    for (int32_t index : indices.asArrayRef())
      if (index < 0 || index >= count)
        return op.emitOpError() << "awaits instruction " << index << " of @" << entry.getSymName()
                                << ", which has " << count;
  }
  return success();
}

LogicalResult EntryOp::verify() {
  int32_t index = 0;
  for (Operation &op : getBody().front()) {
    if (!isa<InstructionOpInterface>(op))
      return op.emitOpError("is no instruction, but stands in an entry");
    for (int32_t before : op.getAttrOfType<DenseI32ArrayAttr>("after")
                              ? op.getAttrOfType<DenseI32ArrayAttr>("after").asArrayRef()
                              : ArrayRef<int32_t>())
      if (before < 0 || before >= index)
        return op.emitOpError() << "is instruction " << index << " and waits for " << before
                                << ", which is not an earlier one";
    if (failed(verifyAwaits(op, (*this)->getParentOfType<ProgramOp>())))
      return failure();
    ++index;
  }
  return success();
}

LogicalResult TimetableOp::verify() {
  if (getEntries().size() != getSlots().size())
    return emitOpError() << "expected one slot per row, got " << getEntries().size() << " rows and "
                         << getSlots().size() << " slots";
  auto program = (*this)->getParentOfType<ProgramOp>();
  Attribute last;
  llvm::DenseSet<Attribute> seen;
  for (Attribute entry : getEntries()) {
    auto symbol = dyn_cast<FlatSymbolRefAttr>(entry);
    if (!symbol || !isa_and_nonnull<EntryOp>(program.lookupSymbol(symbol.getAttr())))
      return emitOpError() << "names " << entry << ", which is no entry of @"
                           << program.getSymName();
    if (!seen.insert(entry).second && entry != last)
      return emitOpError() << "comes back to " << entry
                           << "; expected rows of one entry to stand one behind the other";
    last = entry;
  }
  return success();
}

LogicalResult RankOp::verify() {
  for (Attribute group : getGroups())
    if (!isa<DenseI32ArrayAttr>(group))
      return emitOpError() << "expected groups of ranks (array<i32>), got " << group;
  for (Attribute shard : getPorts())
    if (!isa<ShardAttr>(shard))
      return emitOpError() << "expected #exec.shard per port, got " << shard;
  auto program =
      dyn_cast_or_null<ProgramOp>(SymbolTable::lookupNearestSymbolFrom(*this, getProgramAttr()));
  if (!program)
    return emitOpError() << "names the program " << getProgramAttr() << ", which does not exist";
  return success();
}
