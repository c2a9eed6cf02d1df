// SPDX-License-Identifier: Apache-2.0
// Buffers, ports and views of the program under construction.
#include "ProgramBuilder.h"

#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/FewRows.h"
#include "autopar/Transforms/JoinedResults.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- buffers -----------------------------------------------------------------------===//

Value ProgramBuilder::createBuffer(const Twine &name, RankedTensorType type, int64_t bytes) {
  if (bytes < 0)
    bytes = exec::tensorBytes(type);
  return exec::BufferOp::create(
      declarations, function.getLoc(), exec::BufferType::get(function.getContext()), name.str(),
      exec::Space::Device, bytes, IntegerAttr(), type, exec::Binding::None, 1, 0);
}

Value ProgramBuilder::createScratch(Operation *op, int64_t bytes) {
  if (bytes == 0)
    return {};
  auto type = RankedTensorType::get({bytes}, IntegerType::get(op->getContext(), 8));
  return createBuffer(getOpId(op) + ".scratch", type);
}

Value ProgramBuilder::createRowMajorResult(Value result) {
  auto type = cast<RankedTensorType>(result.getType());
  Operation *producer = result.getDefiningOp();
  Value buffer = createBuffer(producer ? getOpId(producer) : StringRef(), type);
  setView(result, {buffer, denseStrides(type.getShape())});
  return buffer;
}

/// Who reads a value, where only one does; the gradient of attention reads its output as it lies.
static Operation *onlyReader(Value value) {
  Operation *reader = nullptr;
  for (OpOperand &use : value.getUses()) {
    auto gradient = dyn_cast<AttentionGradOp>(use.getOwner());
    if (gradient && use.get() == gradient.getOutput() && value.getDefiningOp<AttentionOp>())
      continue;
    if (reader)
      return nullptr;
    reader = use.getOwner();
  }
  return reader;
}

/// The strides of `chain.front()` if `chain.back()`, made from it by views, has `strides`; nothing
/// where a view has none.
static std::optional<SmallVector<int64_t>> stridesBefore(ArrayRef<Value> chain,
                                                         SmallVector<int64_t> strides) {
  for (size_t i = chain.size(); i-- > 1;) {
    auto view = cast<ViewOpInterface>(chain[i].getDefiningOp());
    std::optional<SmallVector<int64_t>> before = view.getOperandStrides(strides);
    if (!before)
      return std::nullopt;
    strides = std::move(*before);
  }
  return strides;
}

/// The strides that make the first transpose behind `value` row-major; nothing if there is none.
static std::optional<SmallVector<int64_t>> stridesBeforeTranspose(Value value) {
  SmallVector<Value> chain{value};
  while (Operation *user = onlyReader(chain.back())) {
    if (!isWholeView(user))
      return std::nullopt;
    chain.push_back(user->getResult(0));
    if (auto transpose = dyn_cast<TransposeOp>(user))
      return stridesBefore(chain, denseStrides(transpose.getType().getShape()));
  }
  return std::nullopt;
}

StridedView ProgramBuilder::createResult(Value result, function_ref<bool(ArrayRef<int64_t>)> fits) {
  std::optional<SmallVector<int64_t>> strides = stridesBeforeTranspose(result);
  createRowMajorResult(result);
  if (strides && fits(*strides))
    views[result].strides = *strides;
  return views[result];
}

SmallVector<StridedView>
ProgramBuilder::createResults(Operation *op, function_ref<bool(Value, ArrayRef<int64_t>)> fits) {
  struct Part {
    Value result;
    SmallVector<int64_t> strides;
    int64_t offset;
  };
  SmallVector<Part> parts;
  ConcatOp concat = concatOfResults(op);
  int64_t offset = 0;
  for (Value part : concat ? concat.getInputs() : ValueRange()) {
    SmallVector<Value> chain{part};
    while (chain.back().getDefiningOp() != op)
      chain.push_back(chain.back().getDefiningOp()->getOperand(0));
    std::reverse(chain.begin(), chain.end());
    SmallVector<int64_t> whole = denseStrides(concat.getType().getShape());
    int64_t extent = cast<RankedTensorType>(part.getType()).getDimSize(concat.getDim());
    auto strides = stridesBefore(chain, whole);
    int64_t bytes =
        offset * exec::tensorBytes(RankedTensorType::get({1}, concat.getType().getElementType()));
    if (strides && fits(chain.front(), *strides) && bytes % kKernelAlignment == 0)
      parts.push_back({chain.front(), *strides, offset});
    offset += extent * whole[concat.getDim()];
  }
  if (concat && parts.size() == op->getNumResults()) {
    createRowMajorResult(concat.getResult());
    for (const Part &part : parts)
      setView(part.result, viewFrom({viewOf(concat.getResult()).buffer, part.strides}, part.offset,
                                    concat.getType().getElementType(), op));
  } else {
    for (Value result : op->getResults())
      createResult(result, [&](ArrayRef<int64_t> strides) { return fits(result, strides); });
  }
  return llvm::map_to_vector(op->getResults(), [&](Value result) { return viewOf(result); });
}

StridedView ProgramBuilder::viewFrom(const StridedView &view, int64_t offset, Type elementType,
                                     Operation *named) {
  if (offset == 0)
    return view;
  int64_t elementBytes = exec::tensorBytes(RankedTensorType::get({1}, elementType));
  int64_t rest = exec::bytesOf(view.buffer) - offset * elementBytes;
  auto type = RankedTensorType::get({rest / elementBytes}, elementType);
  Value from = exec::ViewOp::create(declarations, named->getLoc(), view.buffer.getType(),
                                    getOpId(named), view.buffer, offset * elementBytes, rest, type);
  return {from, view.strides};
}

StridedView ProgramBuilder::viewThrough(ViewOpInterface op) {
  Value source = op->getOperand(0);
  auto type = cast<RankedTensorType>(source.getType());
  StridedView input = viewOf(source);
  std::optional<ViewLayout> layout = op.getLayout(input.strides);
  if (!layout) {
    FailureOr<Value> copy = rowMajorBuffer(source);
    if (succeeded(copy)) // else reported; the caller's own result does not matter any more
      input.buffer = *copy;
    layout = op.getLayout(denseStrides(type.getShape()));
  }
  return viewFrom({input.buffer, layout->strides}, layout->offset, type.getElementType(), op);
}

Value ProgramBuilder::fillConstant(autopar::ConstantOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  Value buffer = createBuffer(getOpId(op), type);
  auto repeat = [&](OpBuilder &builder, ValueRange) -> SmallVector<Value> {
    auto element = cast<DenseElementsAttr>(op.getValue()).getSplatValue<Attribute>();
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Value number =
        autopar::ConstantOp::create(builder, op.getLoc(), DenseElementsAttr::get(scalar, element));
    return {BroadcastOp::create(builder, op.getLoc(), type, number, ArrayRef<int64_t>{})};
  };
  if (failed(launchGroup(op, {}, {}, {type}, {buffer}, repeat)))
    op.emitOpError("cannot be filled"); // reported; the caller's own result does not matter
  return buffer;
}

//===-- views -------------------------------------------------------------------------===//

StridedView ProgramBuilder::viewOf(Value value) {
  if (auto found = views.find(value); found != views.end())
    return found->second;
  auto type = cast<RankedTensorType>(value.getType());
  StridedView view;
  if (Value source = knownBlocked(value)) {
    view = {createBuffer(getOpId(value.getDefiningOp()) + ".plain", type),
            denseStrides(type.getShape())};
    reorder(source, blockedLayout(), view.buffer, exec::Layout::Plain, value);
  } else if (auto argument = dyn_cast<BlockArgument>(value)) {
    Argument &info = arguments[argument.getArgNumber()];
    // What runs at load keeps no parameter that the step may want to pack.
    if (readsAtLoad && info.isFixed() && !info.buffer && paysToPack(value))
      return {readAtLoad(value), denseStrides(type.getShape())};
    if (isReadAtLoadOnly(value)) {
      view = {readAtLoad(value), denseStrides(type.getShape())};
    } else {
      info.buffer = createBuffer(info.name, type);
      view = {info.buffer, denseStrides(type.getShape())};
    }
  } else if (auto constant = value.getDefiningOp<autopar::ConstantOp>()) {
    view = {fillConstant(constant), denseStrides(type.getShape())};
  } else if (auto other = value.getDefiningOp<ViewOpInterface>()) {
    view = viewThrough(other);
  }
  views[value] = view;
  // What reads it reads what lies side by side; without a kernel for that, the view does.
  if (isLaidOut(value) && succeeded(rowMajorBuffer(value)))
    return views[value];
  return view;
}

LogicalResult ProgramBuilder::dissolveViews(GroupOp group) {
  OpBuilder builder(group);
  IRMapping mapping;
  mapping.map(group.getBody().getArguments(), group.getInputs());
  for (Operation &op : group.getBody().front().without_terminator())
    builder.clone(op, mapping);
  auto yield = cast<YieldOp>(group.getBody().front().getTerminator());
  for (auto [value, result] : llvm::zip(yield.getValues(), group.getResults()))
    result.replaceAllUsesWith(mapping.lookup(value));
  erase(group);
  return success();
}

/// The order of dimensions, outermost first, in which the strides are row-major; nothing if there
/// is none (gaps or repetition).
static std::optional<SmallVector<int64_t>> storageOrder(ArrayRef<int64_t> dims,
                                                        ArrayRef<int64_t> strides) {
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, dims.size()));
  auto place = [&](int64_t dim) { return std::make_tuple(dims[dim] == 1, -strides[dim], dim); };
  llvm::sort(order, [&](int64_t x, int64_t y) { return place(x) < place(y); });
  SmallVector<int64_t> sortedDims, sortedStrides;
  for (int64_t dim : order) {
    sortedDims.push_back(dims[dim]);
    sortedStrides.push_back(strides[dim]);
  }
  if (!isRowMajor(sortedDims, sortedStrides))
    return std::nullopt;
  return order;
}

bool ProgramBuilder::liesRowMajor(Value value) {
  StridedView view = viewOf(value);
  return isRowMajor(cast<RankedTensorType>(value.getType()).getShape(), view.strides) &&
         exec::rootOf(view.buffer).second % kKernelAlignment == 0;
}

FailureOr<Value> ProgramBuilder::rowMajorBuffer(Value value) {
  auto scope = placeWith(value);
  if (liesRowMajor(value))
    return viewOf(value).buffer;
  auto type = cast<RankedTensorType>(value.getType());
  StridedView view = viewOf(value);
  Operation *named = value.getDefiningOp() ? value.getDefiningOp() : function;
  Value copy = createBuffer(getOpId(named) + ".ordered", type);
  std::optional<SmallVector<int64_t>> order = storageOrder(type.getShape(), view.strides);
  LogicalResult done = failure();
  if (order && exec::rootOf(view.buffer).second == 0) {
    SmallVector<int64_t> stored, inverse(order->size());
    for (auto [position, dim] : llvm::enumerate(*order)) {
      stored.push_back(type.getDimSize(dim));
      inverse[dim] = position;
    }
    auto permute = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
      return {TransposeOp::create(builder, named->getLoc(), inputs[0], inverse)};
    };
    auto storedType = RankedTensorType::get(stored, type.getElementType());
    done = launchGroup(named, {storedType}, {view.buffer}, {type}, {copy}, permute);
  } else {
    done = copyThroughViews(value, copy);
  }
  if (failed(done))
    return failure();
  views[value] = {copy, denseStrides(type.getShape())};
  return copy;
}

FailureOr<StridedView> ProgramBuilder::denseView(Value value) {
  StridedView view = viewOf(value);
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  if (storageOrder(shape, view.strides))
    return view;
  FailureOr<Value> buffer = rowMajorBuffer(value);
  if (failed(buffer))
    return failure();
  return StridedView{*buffer, denseStrides(shape)};
}

LogicalResult ProgramBuilder::copyThroughViews(Value value, Value copy) {
  SmallVector<Operation *> chain;
  Value source = value;
  do {
    Operation *op = source.getDefiningOp();
    if (!isa_and_nonnull<ViewOpInterface>(op))
      return function.emitOpError("has a view that cannot be copied into order");
    chain.push_back(op);
    source = op->getOperand(0);
  } while (!liesRowMajor(source) && source.getDefiningOp<ViewOpInterface>());
  FailureOr<Value> input = rowMajorBuffer(source);
  if (failed(input))
    return failure();
  auto build = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
    IRMapping mapping;
    mapping.map(source, inputs[0]);
    for (Operation *op : llvm::reverse(chain))
      builder.clone(*op, mapping);
    return {mapping.lookup(value)};
  };
  return launchGroup(value.getDefiningOp(), {cast<RankedTensorType>(source.getType())}, {*input},
                     {cast<RankedTensorType>(value.getType())}, {copy}, build);
}

FailureOr<Value> ProgramBuilder::bufferLaidOutAs(Value value, ArrayRef<int64_t> strides) {
  auto scope = placeWith(value);
  auto type = cast<RankedTensorType>(value.getType());
  StridedView view = viewOf(value);
  bool same = true;
  for (auto [extent, have, want] : llvm::zip(type.getShape(), view.strides, strides))
    same &= extent == 1 || have == want;
  if (same)
    return view.buffer;
  FailureOr<Value> source = rowMajorBuffer(value);
  if (failed(source) || isRowMajor(type.getShape(), strides))
    return source;
  Operation *named = value.getDefiningOp() ? value.getDefiningOp() : function;
  std::optional<SmallVector<int64_t>> order = storageOrder(type.getShape(), strides);
  if (!order)
    return named->emitOpError("cannot be laid out like the result that it is added to");
  SmallVector<int64_t> stored;
  for (int64_t dim : *order)
    stored.push_back(type.getDimSize(dim));
  auto storedType = RankedTensorType::get(stored, type.getElementType());
  Value copy = createBuffer(getOpId(named) + ".ordered", storedType);
  auto permute = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
    return {TransposeOp::create(builder, named->getLoc(), inputs[0], *order)};
  };
  if (failed(launchGroup(named, {type}, {*source}, {storedType}, {copy}, permute)))
    return failure();
  return copy;
}

//===-- names and costs ---------------------------------------------------------------===//

void ProgramBuilder::describe(Operation *instruction, Operation *op, const Twine &key,
                              double flops) {
  Builder builder(op->getContext());
  int64_t bytes = 0;
  auto interface = cast<exec::InstructionOpInterface>(instruction);
  for (Value buffer : interface.getReads())
    bytes += exec::bytesOf(buffer);
  for (Value buffer : interface.getWrites())
    bytes += exec::bytesOf(buffer);
  StringRef id = getOpId(op);
  if (id.empty())
    id = op->getName().stripDialect();
  instruction->setAttr("id", builder.getStringAttr(id));
  instruction->setAttr("key", builder.getStringAttr(key));
  instruction->setAttr("flops", builder.getI64IntegerAttr(static_cast<int64_t>(flops)));
  instruction->setAttr("bytes", builder.getI64IntegerAttr(bytes));
  // Kernels around a message are small beside it; of several kernels the first stands for all.
  if (timeUs && isMessageTime == (interface.getQueue() != exec::Queue::Compute))
    instruction->setAttr("us", std::exchange(timeUs, nullptr));
  // As for the search, the first operand says what is multiplied.
  SmallVector<Value> buffers = interface.getReads();
  llvm::append_range(buffers, interface.getWrites());
  if (buffers.empty())
    return;
  Type element = exec::tensorTypeOf(buffers.front()).getElementType();
  instruction->setAttr("arithmetic", builder.getStringAttr(::autopar::name(dataTypeOf(element))));
}
