// SPDX-License-Identifier: Apache-2.0
// The pass autopar-compute-padded: what is computed element by element between padded values is
// computed padded. So the loss of an odd vocabulary reads and writes aligned rows, and the gradient
// of its logits is not copied into padding.
#include "Stages/MadeFrom.h"

#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_COMPUTEPADDEDPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool hasShape(Value value, ArrayRef<int64_t> shape) { return typeOf(value).getShape() == shape; }

/// Everything that is computed along one padded dimension, from slices of what is padded to
/// reductions and to values that are padded again.
class PaddedRegion {
public:
  /// The region that a pad ends; nothing where something in it is not known in the padding, or
  /// where somebody reads an unpadded value of it.
  static std::optional<PaddedRegion> endingIn(PadOp pad) {
    PaddedRegion region(pad);
    if (region.dim < 0 || !region.include(pad.getInput()))
      return std::nullopt;
    for (size_t next = 0; next < region.ops.size(); ++next)
      for (Operation *user : region.ops[next]->getUsers())
        if (!region.includeUser(user))
          return std::nullopt;
    return region;
  }

  void computePadded() {
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    for (Operation *op : ops)
      widened.map(op->getResult(0), widen(op));
    for (ReduceOp reduction : reductions) {
      Type element = typeOf(reduction.getInput()).getElementType();
      TypedAttr identity = identityOf(static_cast<ReductionKind>(reduction.getKind()), element);
      reduction.getInputMutable().assign(
          masked(reduction, reduction.getInput(), [&](OpBuilder &builder) {
            return ConstantOp::create(
                builder, reduction.getLoc(),
                DenseElementsAttr::get(RankedTensorType::get({}, element), identity));
          }));
    }
    for (PadOp pad : pads) {
      pad.getResult().replaceAllUsesWith(
          masked(pad, pad.getInput(), [&](OpBuilder &) { return pad.getValue(); }));
      pad.erase();
    }
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }

private:
  explicit PaddedRegion(PadOp pad)
      : narrow(typeOf(pad.getInput()).getShape()), wide(pad.getType().getShape()) {
    for (auto [i, extent] : llvm::enumerate(narrow)) {
      if (extent == wide[i])
        continue;
      bool isOnly = dim < 0 && pad.getLow()[i] == 0;
      dim = isOnly ? static_cast<int64_t>(i) : -1;
      if (!isOnly)
        return;
    }
  }

  /// Adds a value of the narrow shape and what it is made of.
  bool include(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || !hasShape(value, narrow))
      return false;
    if (llvm::is_contained(ops, op))
      return true;
    ops.push_back(op);
    if (auto slice = dyn_cast<SliceOp>(op))
      return hasShape(slice.getInput(), wide) &&
             llvm::all_of(slice.getStarts(), [](int64_t start) { return start == 0; }) &&
             llvm::all_of(slice.getSteps(), [](int64_t step) { return step == 1; });
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      for (auto [extent, place] :
           llvm::zip(typeOf(broadcast.getInput()).getShape(), broadcast.getDims()))
        if (place == dim && extent != 1)
          return false;
      return true;
    }
    if (auto constant = dyn_cast<ConstantOp>(op))
      return isa<SplatElementsAttr>(constant.getValue());
    if (isa<IotaOp>(op))
      return true;
    return op->hasTrait<OpTrait::Elementwise>() &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return include(operand); });
  }

  bool includeUser(Operation *user) {
    if (llvm::is_contained(ops, user))
      return true;
    if (auto pad = dyn_cast<PadOp>(user)) {
      bool isSame =
          hasShape(pad, wide) && llvm::all_of(pad.getLow(), [](int64_t low) { return low == 0; });
      if (isSame)
        pads.insert(pad);
      return isSame;
    }
    if (auto reduction = dyn_cast<ReduceOp>(user)) {
      reductions.insert(reduction);
      return llvm::is_contained(reduction.getDims(), dim);
    }
    return user->hasTrait<OpTrait::Elementwise>() && include(user->getResult(0));
  }

  Value widen(Operation *op) {
    if (auto slice = dyn_cast<SliceOp>(op))
      return slice.getInput();
    OpBuilder builder(op);
    Type element = typeOf(op->getResult(0)).getElementType();
    Operation *made = builder.clone(*op, widened);
    made->getResult(0).setType(RankedTensorType::get(wide, element));
    if (auto constant = dyn_cast<ConstantOp>(made))
      constant.setValueAttr(cast<SplatElementsAttr>(constant.getValue())
                                .resizeSplat(cast<ShapedType>(constant.getType())));
    return made->getResult(0);
  }

  /// The padded value, with the scalar that `fill` gives in its padding.
  Value masked(Operation *reader, Value value, function_ref<Value(OpBuilder &)> fill) {
    OpBuilder builder(reader);
    Location loc = reader->getLoc();
    auto named = [&](Operation *made, StringRef suffix) { return madeFrom(reader, made, suffix); };
    auto indices = RankedTensorType::get(wide, builder.getI32Type());
    auto spread = [&](Value scalar, Type element, StringRef suffix) {
      return named(BroadcastOp::create(builder, loc, RankedTensorType::get(wide, element), scalar,
                                       ArrayRef<int64_t>{}),
                   suffix);
    };
    Value position = named(IotaOp::create(builder, loc, indices, dim), "/position");
    auto end = DenseElementsAttr::get(RankedTensorType::get({}, builder.getI32Type()),
                                      static_cast<int32_t>(narrow[dim]));
    Value extent = spread(ConstantOp::create(builder, loc, end), builder.getI32Type(), "/extent");
    Value isInside = named(CompareOp::create(builder, loc, indices.clone(builder.getI1Type()),
                                             ComparePredicate::Lt, position, extent),
                           "/inside");
    Value padded = widened.lookup(value);
    Value filling = spread(fill(builder), typeOf(padded).getElementType(), "/filling");
    return named(SelectOp::create(builder, loc, padded.getType(), isInside, padded, filling),
                 "/masked");
  }

  SmallVector<int64_t> narrow, wide;
  int64_t dim = -1; ///< along which they differ
  SmallVector<Operation *> ops;
  llvm::SetVector<ReduceOp> reductions;
  llvm::SetVector<PadOp> pads;
  IRMapping widened;
};

struct ComputePaddedPass : mlir::autopar::impl::ComputePaddedPassBase<ComputePaddedPass> {
  void runOnOperation() override {
    // One region may end in several pads.
    for (bool changes = true; changes;) {
      changes = false;
      for (PadOp pad : llvm::to_vector(getOperation().getOps<PadOp>()))
        if (std::optional<PaddedRegion> region = PaddedRegion::endingIn(pad)) {
          region->computePadded();
          changes = true;
          break;
        }
    }
  }
};

} // namespace
