// SPDX-License-Identifier: Apache-2.0
// The pass autopar-gather-first: a lookup in a table that the step makes of fewer bytes (quantized
// embeddings) looks up those, and makes what it found of them.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_GATHERFIRSTPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// How many times as large a table is at least as what it is made of.
constexpr int64_t kGrowth = 2;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool isArithmetic(Operation *op) { return isa_and_nonnull<CastOp, UnaryOp, BinaryOp>(op); }

/// Writes the lookups of what one table is made of.
class Lookup {
public:
  explicit Lookup(GatherOp gather) : gather(gather), builder(gather) {}

  /// Whether little is read instead of a table that is made whole.
  bool pays() {
    return gather.getBatchDims() == 0 && gather.getDims().size() == 1 &&
           isArithmetic(gather.getInput().getDefiningOp()) &&
           gather.getType().getNumElements() < typeOf(gather.getInput()).getNumElements() &&
           canMove(gather.getInput()) && bytes * kGrowth <= tensorBytes(typeOf(gather.getInput()));
  }

  void write() {
    Value found = moved(gather.getInput());
    setId(found.getDefiningOp(), "");
    gather.replaceAllUsesWith(found);
    gather.erase();
  }

private:
  int64_t dim() { return gather.getDims().front(); }

  /// Counts the bytes that are as many as numbers of the table.
  bool canMove(Value value) {
    if (!seen.insert(value).second)
      return true;
    Operation *op = value.getDefiningOp();
    if (isArithmetic(op))
      return llvm::all_of(op->getOperands(), [&](Value operand) { return canMove(operand); });
    if (auto constant = dyn_cast_or_null<autopar::ConstantOp>(op))
      return isa<SplatElementsAttr>(constant.getValue());
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
      return llvm::all_of(llvm::zip(broadcast.getInput().getType().getShape(), broadcast.getDims()),
                          [&](auto pair) {
                            auto [extent, place] = pair;
                            return place != dim() ||
                                   extent == typeOf(gather.getInput()).getDimSize(dim());
                          });
    bytes += tensorBytes(typeOf(value));
    return true;
  }

  /// What the lookup finds in a value of the table's shape.
  Value moved(Value value) {
    if (Value known = done.lookup(value))
      return known;
    return done[value] = moveOnce(value);
  }

  Value moveOnce(Value value) {
    Operation *op = value.getDefiningOp();
    RankedTensorType type = gather.getType().clone(typeOf(value).getElementType());
    if (isArithmetic(op)) {
      SmallVector<Value> operands =
          llvm::map_to_vector(op->getOperands(), [&](Value operand) { return moved(operand); });
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
      return moveBroadcast(broadcast, type);
    return lookUp(value, dim(), type);
  }

  /// Positions take the place of the dimension that is looked up.
  Value moveBroadcast(BroadcastOp broadcast, RankedTensorType type) {
    int64_t positions = typeOf(gather.getIndices()).getRank() - 1;
    Value input = broadcast.getInput();
    SmallVector<int64_t> dims, shape;
    std::optional<int64_t> along;
    for (auto [number, place] : llvm::enumerate(broadcast.getDims())) {
      if (place != dim()) {
        dims.push_back(place < dim() ? place : place + positions - 1);
        shape.push_back(typeOf(input).getDimSize(number));
        continue;
      }
      along = number;
      for (int64_t position = 0; position < positions; ++position) {
        dims.push_back(dim() + position);
        shape.push_back(typeOf(gather.getIndices()).getDimSize(position));
      }
    }
    if (along)
      input = lookUp(input, *along, RankedTensorType::get(shape, type.getElementType()));
    return named(BroadcastOp::create(builder, gather.getLoc(), type, input, dims));
  }

  Value lookUp(Value table, int64_t along, RankedTensorType type) {
    return named(GatherOp::create(builder, gather.getLoc(), type, table, gather.getIndices(),
                                  ArrayRef<int64_t>(along), 0));
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
  DenseSet<Value> seen;
  DenseMap<Value, Value> done;
  int64_t bytes = 0, count = 0;
};

struct GatherFirstPass : mlir::autopar::impl::GatherFirstPassBase<GatherFirstPass> {
  void runOnOperation() override {
    SmallVector<GatherOp> gathers;
    getOperation().walk([&](GatherOp op) { gathers.push_back(op); });
    for (GatherOp gather : gathers)
      if (Lookup lookup(gather); lookup.pays())
        lookup.write();
  }
};

} // namespace
