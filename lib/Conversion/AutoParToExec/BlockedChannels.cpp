// SPDX-License-Identifier: Apache-2.0
// Activations of convolutions in blocks of channels, [N, C / block, spatial..., block], the layout
// in which the library is fastest; of bytes, all channels are one block. Kernels between
// convolutions (pooling, activations, scaling by channel, global averages) are rewritten to work on
// the blocks, so that nothing is reordered.
#include "ProgramBuilder.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- values in blocks ----------------------------------------------------------------------===//

bool ProgramBuilder::isBlockable(RankedTensorType type) const {
  if (type.getRank() < 3 || type.getRank() > 5 || type.getNumElements() == 0)
    return false;
  int64_t block = blockOf(type);
  Type element = type.getElementType();
  bool isMoved = element.isF32() || element.isBF16() || element.isF16() || element.isInteger(1) ||
                 element.isInteger(8) ||
                 element.isInteger(32); // by the library, from one layout to another
  return options.channelBlock > 1 && isMoved && type.getDimSize(1) % block == 0;
}

RankedTensorType ProgramBuilder::blockedType(RankedTensorType type) const {
  SmallVector<int64_t> shape(type.getShape());
  shape[1] /= blockOf(type);
  shape.push_back(blockOf(type));
  return RankedTensorType::get(shape, type.getElementType());
}

exec::Layout ProgramBuilder::blockedLayout() const {
  if (hasChannelsLast)
    return exec::Layout::ChannelsLast;
  return options.channelBlock == 16 ? exec::Layout::Blocked16 : exec::Layout::Blocked8;
}

void ProgramBuilder::reorder(Value from, exec::Layout fromLayout, Value to, exec::Layout toLayout,
                             Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto instruction =
      exec::ReorderOp::create(step(), value.getLoc(), from, to, type, fromLayout, toLayout);
  Operation *named = value.getDefiningOp() ? value.getDefiningOp() : function;
  describe(instruction, named, "reorder", 0);
}

FailureOr<Value> ProgramBuilder::blockedBuffer(Value value) {
  if (Value known = knownBlocked(value))
    return known;
  auto scope = placeWith(value);
  FailureOr<Value> plain = rowMajorBuffer(value);
  if (failed(plain))
    return failure();
  Operation *named = value.getDefiningOp() ? value.getDefiningOp() : function;
  Value buffer = createBuffer(getOpId(named) + ".blocked",
                              blockedType(cast<RankedTensorType>(value.getType())));
  reorder(*plain, exec::Layout::Plain, buffer, blockedLayout(), value);
  blocked[value] = buffer;
  return buffer;
}

Value ProgramBuilder::createBlockedResult(Value result) {
  Operation *producer = result.getDefiningOp();
  Value buffer = createBuffer(producer ? getOpId(producer) : StringRef(),
                              blockedType(cast<RankedTensorType>(result.getType())));
  blocked[result] = buffer;
  return buffer;
}

//===-- groups on blocks ----------------------------------------------------------------------===//

namespace {
/// Rewrites the body of a group: values of shape [N, C, spatial...] become blocked ones, all others
/// stay.
class BlockedBody {
public:
  BlockedBody(ProgramBuilder &program, GroupOp group) : program(program), group(group) {}

  /// Whether every operation has a form on blocks. Decides which values are blocked.
  bool plan() {
    for (auto [argument, input] : llvm::zip(group.getBody().getArguments(), group.getInputs()))
      if (program.knownBlocked(input))
        types.insert(argument.getType());
    for (Operation &op : group.getBody().front().without_terminator())
      if (((op.hasTrait<OpTrait::Elementwise>() && !isa<CompareOp>(op)) || isa<PoolOp>(op)) &&
          types.contains(op.getOperand(0).getType()) && isActivation(op.getResult(0)))
        types.insert(op.getResult(0).getType());
      else if (auto select = dyn_cast<SelectOp>(op);
               select && types.contains(select.getType()) && isActivation(select.getCondition()))
        types.insert(select.getCondition().getType());
      else if (auto slice = dyn_cast<SliceOp>(op);
               slice && types.contains(slice.getInput().getType()) && takesBlocks(slice))
        types.insert(slice.getType());
      else if (auto pad = dyn_cast<PadOp>(op); pad && types.contains(pad.getInput().getType()) &&
                                               keepsChannels(pad) && isActivation(pad.getResult()))
        types.insert(pad.getType());
    for (Value argument : group.getBody().getArguments())
      if (types.contains(argument.getType()))
        blocked.insert(argument);
    for (Operation &op : group.getBody().front().without_terminator())
      if (!planOperation(op))
        return false;
    return true;
  }
  bool isBlocked(Value value) const { return blocked.contains(value); }

  SmallVector<Value> build(OpBuilder &builder, ValueRange inputs) {
    for (auto [argument, input] : llvm::zip(group.getBody().getArguments(), inputs))
      mapping.map(argument, input);
    for (Operation &op : group.getBody().front().without_terminator())
      buildOperation(builder, op);
    auto yield = cast<YieldOp>(group.getBody().front().getTerminator());
    return llvm::map_to_vector(yield.getValues(),
                               [&](Value value) { return mapping.lookup(value); });
  }

private:
  bool isActivation(Value value) const {
    return program.isBlockable(cast<RankedTensorType>(value.getType()));
  }

  bool planOperation(Operation &op) {
    bool any = llvm::any_of(op.getOperands(), [&](Value operand) { return isBlocked(operand); });
    bool resultIsActivation = op.getNumResults() == 1 && types.contains(op.getResult(0).getType());
    if (auto constant = dyn_cast<autopar::ConstantOp>(op)) {
      auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
      if (resultIsActivation && (!dense || !dense.isSplat()))
        return false;
      if (resultIsActivation)
        blocked.insert(op.getResult(0));
      return true;
    }
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      if (!resultIsActivation)
        return !any;
      if (any || !fitsBlocks(broadcast))
        return false;
      blocked.insert(op.getResult(0));
      return true;
    }
    if (!any)
      return !resultIsActivation;
    if (auto reduce = dyn_cast<ReduceOp>(op))
      return yieldsRows(reduce);
    if (auto slice = dyn_cast<SliceOp>(op)) {
      blocked.insert(slice.getResult());
      return takesBlocks(slice);
    }
    if (auto pad = dyn_cast<PadOp>(op)) {
      blocked.insert(pad.getResult());
      return resultIsActivation && keepsChannels(pad);
    }
    resultIsActivation |= isa<CompareOp>(op) && isActivation(op.getResult(0));
    bool fits = op.hasTrait<OpTrait::Elementwise>() && resultIsActivation &&
                llvm::all_of(op.getOperands(), [&](Value operand) { return isBlocked(operand); });
    if (auto pool = dyn_cast<PoolOp>(op))
      fits = resultIsActivation && pool.getWindow()[0] == 1 && pool.getWindow()[1] == 1 &&
             pool.getStrides()[0] == 1 && pool.getStrides()[1] == 1 &&
             pool.getInput().getType().getShape().take_front(2) ==
                 pool.getType().getShape().take_front(2);
    if (fits)
      blocked.insert(op.getResult(0));
    return fits;
  }

  /// Repetition of something that has no positions behind its channels: per channel, per sample and
  /// channel, per position of all channels, or a scalar.
  static bool fitsBlocks(BroadcastOp op) {
    bool hasChannels = false, isBehind = false;
    for (auto [extent, dim] : llvm::zip(op.getInput().getType().getShape(), op.getDims())) {
      hasChannels |= extent != 1 && dim == 1;
      isBehind |= extent != 1 && dim > 1;
    }
    return !(hasChannels && isBehind);
  }

  /// Whether it takes whole blocks of channels, and all of every other dimension.
  bool takesBlocks(SliceOp op) const {
    SmallVector<int64_t> shape(op.getInput().getType().getShape());
    shape[1] = op.getType().getDimSize(1);
    auto isOne = [](int64_t step) { return step == 1; };
    return isActivation(op.getResult()) && op.getType().getShape() == ArrayRef(shape) &&
           llvm::all_of(op.getSteps(), isOne) &&
           op.getStarts()[1] % program.blockOf(op.getType()) == 0 &&
           program.blockOf(op.getType()) == program.blockOf(op.getInput().getType());
  }

  static bool keepsChannels(PadOp op) {
    return op.getInput().getType().getDimSize(1) == op.getType().getDimSize(1);
  }

  /// Whether nothing is left behind the channels, so that the elements of a block are neighbours in
  /// the result, as they are in rows: statistics of a batch, global averages, norms.
  static bool yieldsRows(ReduceOp op) {
    int64_t rank = op.getInput().getType().getRank();
    return reducesChannels(op) || llvm::all_of(llvm::seq<int64_t>(2, rank), [&](int64_t dim) {
             return llvm::is_contained(op.getDims(), dim);
           });
  }
  static bool reducesChannels(ReduceOp op) { return llvm::is_contained(op.getDims(), 1); }

  Value buildReduce(OpBuilder &builder, ReduceOp op) {
    RankedTensorType type = op.getType();
    SmallVector<int64_t> dims(op.getDims()), shape;
    Value input = mapping.lookup(op.getInput());
    auto blocks = cast<RankedTensorType>(input.getType());
    if (reducesChannels(op))
      dims.push_back(blocks.getRank() - 1);
    for (auto [dim, extent] : llvm::enumerate(blocks.getShape()))
      if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
        shape.push_back(extent);
    Value sum =
        ReduceOp::create(builder, op.getLoc(), type.clone(shape), op.getKind(), input, dims);
    return ReshapeOp::create(builder, op.getLoc(), type, sum);
  }

  void buildOperation(OpBuilder &builder, Operation &op) {
    Location loc = op.getLoc();
    Value result = op.getNumResults() == 1 ? op.getResult(0) : Value();
    if (auto reduce = dyn_cast<ReduceOp>(op); reduce && isBlocked(reduce.getInput())) {
      mapping.map(result, buildReduce(builder, reduce));
      return;
    }
    if (!result || !isBlocked(result)) {
      builder.clone(op, mapping);
      return;
    }
    RankedTensorType type = program.blockedType(cast<RankedTensorType>(result.getType()));
    if (auto constant = dyn_cast<autopar::ConstantOp>(op)) {
      auto dense = cast<DenseElementsAttr>(constant.getValue());
      mapping.map(result,
                  autopar::ConstantOp::create(builder, loc, dense.resizeSplat(type)).getResult());
    } else if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      mapping.map(result, buildBroadcast(builder, broadcast, type));
    } else if (auto slice = dyn_cast<SliceOp>(op)) {
      SmallVector<int64_t> starts(slice.getStarts()), steps(type.getRank(), 1);
      starts[1] /= program.blockOf(slice.getType());
      starts.push_back(0);
      mapping.map(result, SliceOp::create(builder, loc, type, mapping.lookup(slice.getInput()),
                                          starts, steps)
                              .getResult());
    } else if (auto pad = dyn_cast<PadOp>(op)) {
      SmallVector<int64_t> low(pad.getLow());
      low.push_back(0);
      mapping.map(result, PadOp::create(builder, loc, type, mapping.lookup(pad.getInput()),
                                        mapping.lookup(pad.getValue()), low)
                              .getResult());
    } else if (auto pool = dyn_cast<PoolOp>(op)) {
      auto extended = [](ArrayRef<int64_t> list, int64_t last) {
        SmallVector<int64_t> longer(list);
        longer.push_back(last);
        return longer;
      };
      mapping.map(result,
                  PoolOp::create(builder, loc, type, pool.getKind(),
                                 mapping.lookup(pool.getInput()), extended(pool.getWindow(), 1),
                                 extended(pool.getStrides(), 1), extended(pool.getPadBegin(), 0),
                                 extended(pool.getPadEnd(), 0), extended(pool.getDilations(), 1))
                      .getResult());
    } else {
      builder.clone(op, mapping)->getResult(0).setType(type);
    }
  }

  /// [.., C, ..] with C / block and block apart, so that both repeat into the blocked type.
  Value buildBroadcast(OpBuilder &builder, BroadcastOp op, RankedTensorType type) {
    int64_t block = type.getShape().back();
    SmallVector<int64_t> shape, dims;
    bool hasChannels = false;
    for (auto [extent, dim] : llvm::zip(op.getInput().getType().getShape(), op.getDims())) {
      if (extent == 1)
        continue;
      hasChannels |= dim == 1;
      shape.push_back(dim == 1 ? extent / block : extent);
      dims.push_back(dim);
    }
    if (hasChannels) {
      shape.push_back(block);
      dims.push_back(type.getRank() - 1);
    }
    Value input = mapping.lookup(op.getInput());
    auto split = RankedTensorType::get(shape, type.getElementType());
    if (input.getType() != split)
      input = ReshapeOp::create(builder, op.getLoc(), split, input);
    return BroadcastOp::create(builder, op.getLoc(), type, input, dims);
  }

  ProgramBuilder &program;
  GroupOp group;
  DenseSet<Type> types; ///< those whose values lie in blocks
  DenseSet<Value> blocked;
  IRMapping mapping;
};
} // namespace

FailureOr<bool> mlir::autopar::lowerBlockedGroup(ProgramBuilder &program, GroupOp group) {
  bool readsBlocks = llvm::any_of(
      group.getInputs(), [&](Value input) { return program.knownBlocked(input) != nullptr; });
  BlockedBody body(program, group);
  if (!readsBlocks || !body.plan())
    return false;
  SmallVector<RankedTensorType> inputTypes, resultTypes;
  SmallVector<Value> inputs, outputs;
  for (auto [input, argument] : llvm::zip(group.getInputs(), group.getBody().getArguments())) {
    auto type = cast<RankedTensorType>(input.getType());
    bool isBlocked = body.isBlocked(argument);
    FailureOr<Value> buffer =
        isBlocked ? program.blockedBuffer(input) : program.rowMajorBuffer(input);
    if (failed(buffer))
      return failure();
    inputs.push_back(*buffer);
    inputTypes.push_back(isBlocked ? program.blockedType(type) : type);
  }
  auto yield = cast<YieldOp>(group.getBody().front().getTerminator());
  for (auto [value, result] : llvm::zip(yield.getValues(), group.getResults())) {
    auto type = cast<RankedTensorType>(result.getType());
    bool isBlocked = body.isBlocked(value);
    outputs.push_back(isBlocked ? program.createBlockedResult(result)
                                : program.createRowMajorResult(result));
    resultTypes.push_back(isBlocked ? program.blockedType(type) : type);
  }
  auto build = [&](OpBuilder &builder, ValueRange values) { return body.build(builder, values); };
  if (failed(program.launchGroup(group, inputTypes, inputs, resultTypes, outputs, build)))
    return failure();
  return true;
}
