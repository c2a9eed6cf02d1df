// SPDX-License-Identifier: Apache-2.0
// The pass autopar-gather-first: a lookup in a table that the step makes of fewer bytes (quantized
// embeddings) looks up those, and makes what it found of them.
#include "GatherFirst.h"

#include "autopar/Dialect/AutoPar/IR/PaddingIndex.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Transforms/MadeOfLess.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_GATHERFIRSTPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool isArithmetic(Operation *op) { return isa_and_nonnull<CastOp, UnaryOp, BinaryOp>(op); }

/// A dimension of a value along which is looked up.
using Place = std::pair<Value, int64_t>;

/// The dimension of what is reshaped that is dimension `dim` of the result, with what lies before
/// and behind it.
std::optional<int64_t> dimBefore(ReshapeOp reshape, int64_t dim) {
  ArrayRef<int64_t> from = reshape.getInput().getType().getShape(),
                    to = reshape.getType().getShape();
  int64_t before = llvm::product_of(to.take_front(dim));
  for (auto [place, extent] : llvm::enumerate(from))
    if (extent == to[dim] && llvm::product_of(from.take_front(place)) == before)
      return place;
  return std::nullopt;
}

/// Writes the lookups of what one table is made of.
class Lookup {
public:
  explicit Lookup(GatherOp gather)
      : gather(gather), builder(gather),
        positions(gather.getIndices().getType().getShape().drop_back()) {}

  /// Whether the table is made of fewer bytes, all of which can be looked up instead.
  bool isOfLess() {
    return gather.getBatchDims() == 0 && gather.getDims().size() == 1 &&
           isArithmetic(gather.getInput().getDefiningOp()) &&
           canMove({gather.getInput(), gather.getDims().front()}) &&
           isMuchLess(bytes, tensorBytes(typeOf(gather.getInput())));
  }

  void write() {
    Value found = moved({gather.getInput(), gather.getDims().front()});
    setId(found.getDefiningOp(), "");
    gather.replaceAllUsesWith(found);
    gather.erase();
  }

private:
  /// Counts the bytes of what is looked up instead.
  bool canMove(Place place) {
    if (!seen.insert(place).second)
      return true;
    auto [value, dim] = place;
    Operation *op = value.getDefiningOp();
    if (isArithmetic(op))
      return llvm::all_of(op->getOperands(), [&, dim = dim](Value operand) {
        return canMove({operand, dim});
      });
    if (auto constant = dyn_cast_or_null<autopar::ConstantOp>(op))
      return isa<SplatElementsAttr>(constant.getValue());
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
      auto source = llvm::find(broadcast.getDims(), dim);
      if (source == broadcast.getDims().end())
        return true;
      int64_t along = source - broadcast.getDims().begin();
      return typeOf(broadcast.getInput()).getDimSize(along) == typeOf(value).getDimSize(dim) &&
             canMove({broadcast.getInput(), along});
    }
    if (std::optional<Place> whole = throughView(place))
      return canMove(*whole);
    bytes += tensorBytes(typeOf(value));
    return true;
  }

  /// Of a view that has all of the dimension, where that is in what it looks at.
  static std::optional<Place> throughView(Place place) {
    auto [value, dim] = place;
    if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      std::optional<int64_t> before = dimBefore(reshape, dim);
      return before ? std::optional(Place(reshape.getInput(), *before)) : std::nullopt;
    }
    auto slice = value.getDefiningOp<SliceOp>();
    bool hasAll = slice && slice.getStarts()[dim] == 0 && slice.getSteps()[dim] == 1 &&
                  slice.getInput().getType().getDimSize(dim) == slice.getType().getDimSize(dim);
    return hasAll ? std::optional(Place(slice.getInput(), dim)) : std::nullopt;
  }

  /// What the lookup finds in a value along a dimension of it.
  Value moved(Place place) {
    if (Value known = done.lookup(place))
      return known;
    return done[place] = moveOnce(place);
  }

  Value moveOnce(Place place) {
    auto [value, dim] = place;
    Operation *op = value.getDefiningOp();
    RankedTensorType type = found(value, dim);
    if (isArithmetic(op)) {
      SmallVector<Value> operands =
          llvm::map_to_vector(op->getOperands(), [&, dim = dim](Value operand) {
            return moved({operand, dim});
          });
      Operation *copy = builder.clone(*op);
      copy->setOperands(operands);
      copy->getResult(0).setType(type);
      return named(copy);
    }
    if (auto constant = dyn_cast_or_null<autopar::ConstantOp>(op)) {
      auto numbers = cast<SplatElementsAttr>(constant.getValue());
      return named(
          autopar::ConstantOp::create(builder, gather.getLoc(), numbers.resizeSplat(type)));
    }
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
      return moveBroadcast(broadcast, dim, type);
    std::optional<Place> whole = throughView(place);
    if (!whole)
      return lookUp(place, type);
    if (isa<ReshapeOp>(op))
      return named(ReshapeOp::create(builder, gather.getLoc(), type, moved(*whole)));
    auto slice = cast<SliceOp>(op);
    return named(SliceOp::create(builder, gather.getLoc(), type, moved(*whole),
                                 spread(slice.getStarts(), dim, 0),
                                 spread(slice.getSteps(), dim, 1)));
  }

  /// Positions take the place of the dimension that is looked up.
  Value moveBroadcast(BroadcastOp broadcast, int64_t dim, RankedTensorType type) {
    int64_t more = static_cast<int64_t>(positions.size()) - 1;
    Value input = broadcast.getInput();
    SmallVector<int64_t> dims;
    for (auto [number, place] : llvm::enumerate(broadcast.getDims())) {
      if (place != dim) {
        dims.push_back(place < dim ? place : place + more);
        continue;
      }
      input = moved({broadcast.getInput(), static_cast<int64_t>(number)});
      for (int64_t position = 0; position <= more; ++position)
        dims.push_back(dim + position);
    }
    return named(BroadcastOp::create(builder, gather.getLoc(), type, input, dims));
  }

  Value lookUp(Place place, RankedTensorType type) {
    auto lookUp = GatherOp::create(builder, gather.getLoc(), type, place.first, gather.getIndices(),
                                   ArrayRef<int64_t>(place.second), 0);
    if (Attribute padding = gather->getAttr(kPaddingIndexAttribute))
      lookUp->setAttr(kPaddingIndexAttribute, padding);
    return named(lookUp);
  }

  /// `list` with `number` for each dimension of positions instead of the one that is looked up.
  SmallVector<int64_t> spread(ArrayRef<int64_t> list, int64_t dim, int64_t number) const {
    SmallVector<int64_t> result(list.take_front(dim));
    result.append(positions.size(), number);
    llvm::append_range(result, list.drop_front(dim + 1));
    return result;
  }
  /// The type of what is found in a value.
  RankedTensorType found(Value value, int64_t dim) const {
    ArrayRef<int64_t> shape = typeOf(value).getShape();
    SmallVector<int64_t> result(shape.take_front(dim));
    llvm::append_range(result, positions);
    llvm::append_range(result, shape.drop_front(dim + 1));
    return typeOf(value).clone(result);
  }

  Value named(Operation *op) {
    setId(op, ("/found." + Twine(count++)).str());
    return op->getResult(0);
  }

  void setId(Operation *op, StringRef suffix) {
    op->removeAttr("autopar.id");
    if (!getOpId(gather).empty())
      setOpId(op, getOpId(gather) + suffix);
  }

  GatherOp gather;
  OpBuilder builder;
  ArrayRef<int64_t> positions; ///< extents of the positions that are looked up
  DenseSet<Place> seen;
  DenseMap<Place, Value> done;
  int64_t bytes = 0, count = 0;
};

struct GatherFirstPass : mlir::autopar::impl::GatherFirstPassBase<GatherFirstPass> {
  void runOnOperation() override {
    SmallVector<GatherOp> gathers;
    getOperation().walk([&](GatherOp op) { gathers.push_back(op); });
    for (GatherOp gather : gathers)
      if (gather.getType().getNumElements() < typeOf(gather.getInput()).getNumElements())
        gatherFirst(gather);
  }
};

} // namespace

void mlir::autopar::gatherFirst(GatherOp gather) {
  if (Lookup lookup(gather); lookup.isOfLess())
    lookup.write();
}
