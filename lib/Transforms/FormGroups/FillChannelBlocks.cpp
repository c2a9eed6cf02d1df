// SPDX-License-Identifier: Apache-2.0
// The pass autopar-fill-channel-blocks: the library of the CPU is fastest where activations lie in
// blocks of channels. A convolution to fewer than fill them, whose result only convolutions read
// again, gets channels of zeros, and their filters zeros for these.
#include "Stages/MadeFrom.h"

#include "autopar/Dialect/AutoPar/IR/ConstantFolding.h"
#include "autopar/Transforms/AtLoad.h"
#include "autopar/Transforms/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_FILLCHANNELBLOCKSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t kChannels = 1; ///< the dimension

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

int64_t channelsOf(Value value) { return typeOf(value).getDimSize(kChannels); }

/// From a convolution to the convolutions that read what becomes of its result.
class Activations {
public:
  /// Nothing where somebody else reads it, or may not be given more channels.
  static std::optional<Activations> of(ConvolutionOp convolution, int64_t block) {
    Activations found(convolution);
    for (size_t next = 0; next < found.values.size(); ++next)
      for (OpOperand &use : found.values[next].getUses())
        if (!found.include(use, block))
          return std::nullopt;
    return found.readers.empty() || !found.areNumbersInFilledChannels() ? std::nullopt
                                                                        : std::optional(found);
  }

  /// Whether all filters are still made once, at load.
  bool isMadeAtLoad(int64_t channels) {
    auto isSmall = [&](Value filter, int64_t dim) {
      SmallVector<int64_t> shape(typeOf(filter).getShape());
      shape[dim] = channels;
      auto pad = filter.getDefiningOp<PadOp>(); // of its other channels
      Value parameter = pad ? pad.getInput() : filter;
      return isFixedParameter(parameter) &&
             mayBeMadeAtLoad(parameter.getType(), typeOf(filter).clone(shape));
    };
    return isSmall(convolution.getFilter(), 0) && llvm::all_of(readers, [&](ConvolutionOp reader) {
             return isSmall(reader.getFilter(), kChannels);
           });
  }

  void widen(int64_t channels) {
    fill(convolution, convolution.getFilterMutable(), 0, channels);
    for (ConvolutionOp reader : readers)
      fill(reader, reader.getFilterMutable(), kChannels, channels);
    for (Operation *op : elementwise)
      for (OpOperand &operand : op->getOpOperands())
        if (!values.contains(operand.get()))
          operand.set(widened(op, operand.get(), channels));
    for (Value value : values)
      value.setType(withChannels(value, channels));
  }

private:
  explicit Activations(ConvolutionOp convolution) : convolution(convolution) {
    values.insert(convolution.getResult());
  }

  bool include(OpOperand &use, int64_t block) {
    Operation *user = use.getOwner();
    if (auto reader = dyn_cast<ConvolutionOp>(user)) {
      readers.insert(reader);
      return use.getOperandNumber() == 0 && reader.getGroups() == 1 &&
             channelsOf(reader.getResult()) % block == 0;
    }
    if (!llvm::is_contained(elementwise, user))
      elementwise.push_back(user);
    values.insert_range(user->getResults());
    return user->hasTrait<OpTrait::Elementwise>() && user->getNumResults() == 1;
  }

  /// What is computed of the zeros there: readers multiply it with zeros, and 0 times what is no
  /// number or infinite is not 0.
  bool areNumbersInFilledChannels() {
    DenseMap<Value, DenseElementsAttr> filled;
    filled[convolution.getResult()] = zeros(convolution.getType());
    llvm::sort(elementwise, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *op : elementwise) {
      auto fillingOf = [&](Value operand) {
        return values.contains(operand) ? filled.lookup(operand) : filling(operand);
      };
      DenseElementsAttr result;
      if (auto select = dyn_cast<SelectOp>(op); select && isForAllChannels(select.getCondition()))
        result = fillingOf(select.getOnTrue()) == fillingOf(select.getOnFalse())
                     ? fillingOf(select.getOnTrue())
                     : DenseElementsAttr();
      else
        result = evaluate(op, llvm::map_to_vector(op->getOperands(), fillingOf));
      if (!result || !isFiniteSplat(result))
        return false;
      filled[op->getResult(0)] = result;
    }
    return true;
  }

  static DenseElementsAttr evaluate(Operation *op, ArrayRef<DenseElementsAttr> operands) {
    if (llvm::is_contained(operands, DenseElementsAttr()))
      return nullptr;
    auto results = evaluateConstant(op, operands);
    return results ? results->front() : DenseElementsAttr();
  }

  static DenseElementsAttr zeros(RankedTensorType type) {
    return cast<DenseElementsAttr>(Builder(type.getContext()).getZeroAttr(type));
  }

  static bool isFiniteSplat(DenseElementsAttr value) {
    return value.isSplat() &&
           (!isa<FloatType>(value.getElementType()) || value.getSplatValue<APFloat>().isFinite());
  }

  /// What filled channels get of a value from elsewhere: the number that it is everywhere, or zeros
  /// behind numbers per channel; null for others.
  static DenseElementsAttr filling(Value value) {
    if (auto constant = value.getDefiningOp<ConstantOp>())
      return dyn_cast<SplatElementsAttr>(constant.getValue());
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    if (auto number = broadcast ? broadcast.getInput().getDefiningOp<ConstantOp>() : ConstantOp())
      if (auto splat = dyn_cast<SplatElementsAttr>(number.getValue());
          splat && isForAllChannels(value))
        return splat.resizeSplat(typeOf(value));
    bool isPerChannel = broadcast && broadcast.getDims() == ArrayRef<int64_t>{kChannels} &&
                        broadcast.getInput().getType().getNumElements() == channelsOf(value);
    return isPerChannel ? zeros(typeOf(value)) : DenseElementsAttr();
  }

  /// Whether a value from elsewhere repeats one thing for every channel.
  static bool isForAllChannels(Value value) {
    auto broadcast = value.getDefiningOp<BroadcastOp>();
    return broadcast && !llvm::is_contained(broadcast.getDims(), kChannels);
  }

  static RankedTensorType withChannels(Value value, int64_t channels) {
    SmallVector<int64_t> shape(typeOf(value).getShape());
    shape[kChannels] = channels;
    return typeOf(value).clone(shape);
  }

  Value widened(Operation *reader, Value value, int64_t channels) {
    OpBuilder builder(reader);
    Operation *op = value.getDefiningOp();
    RankedTensorType type = withChannels(value, channels);
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto splat = cast<SplatElementsAttr>(constant.getValue());
      return madeFrom(
          op,
          ConstantOp::create(builder, op->getLoc(),
                             DenseElementsAttr::get(type, splat.getSplatValue<Attribute>())),
          "/filled");
    }
    auto broadcast = cast<BroadcastOp>(op);
    Value input = broadcast.getInput();
    if (!isForAllChannels(value))
      input = padded(builder, op, input, {channels});
    return madeFrom(op,
                    BroadcastOp::create(builder, op->getLoc(), type, input, broadcast.getDims()),
                    "/filled");
  }

  static void fill(ConvolutionOp op, OpOperand &filter, int64_t dim, int64_t channels) {
    OpBuilder builder(op);
    SmallVector<int64_t> shape(typeOf(filter.get()).getShape());
    shape[dim] = channels;
    filter.set(padded(builder, op, filter.get(), shape));
  }

  static Value padded(OpBuilder &builder, Operation *op, Value value, ArrayRef<int64_t> shape) {
    RankedTensorType type = typeOf(value);
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Value zero = madeFrom(
        op,
        ConstantOp::create(builder, op->getLoc(), cast<ElementsAttr>(builder.getZeroAttr(scalar))),
        "/zero");
    return madeFrom(op,
                    PadOp::create(builder, op->getLoc(), type.clone(shape), value, zero,
                                  SmallVector<int64_t>(type.getRank(), 0)),
                    "/padded");
  }

  ConvolutionOp convolution;
  llvm::SetVector<Value> values; ///< with its channels
  SmallVector<Operation *> elementwise;
  llvm::SetVector<ConvolutionOp> readers;
};

struct FillChannelBlocksPass
    : mlir::autopar::impl::FillChannelBlocksPassBase<FillChannelBlocksPass> {
  using Base::Base;

  /// Readers before what they read: they are filled themselves, perhaps.
  void runOnOperation() override {
    auto convolutions = llvm::to_vector(getOperation().getOps<ConvolutionOp>());
    for (ConvolutionOp convolution : llvm::reverse(convolutions))
      fill(convolution);
  }

private:
  void fill(ConvolutionOp convolution) {
    int64_t channels = channelsOf(convolution.getResult()), filled = llvm::alignTo(channels, block);
    int64_t inputs = channelsOf(convolution.getInput());
    bool readsBlocks = inputs % block == 0 || inputs < block;
    if (block <= 1 || channels == filled || filled > 2 * channels || !readsBlocks ||
        convolution.getGroups() != 1 || !convolution.getType().getElementType().isF32())
      return;
    std::optional<Activations> activations = Activations::of(convolution, block);
    if (activations && activations->isMadeAtLoad(filled))
      activations->widen(filled);
  }
};

} // namespace
