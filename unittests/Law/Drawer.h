// SPDX-License-Identifier: Apache-2.0
// What makers draw from: one module in the making, its random numbers and the values so far.
#pragma once

#include "RandomGraph.h"

namespace autopar_law {

using namespace mlir;
using namespace mlir::autopar;

class Drawer {
public:
  Drawer(MLIRContext &context, uint64_t seed) : builder(&context), random(seed) {
    loc = builder.getUnknownLoc();
  }

  OpBuilder builder;
  Location loc = UnknownLoc::get(builder.getContext());
  std::mt19937_64 random;
  SmallVector<DrawnValue> pool;
  func::FuncOp function;

  int64_t below(int64_t count) { return static_cast<int64_t>(random() % count); }
  int64_t extent() {
    static constexpr int64_t extents[] = {2, 3, 4, 4, 5, 6, 7, 8, 8, 12};
    return extents[below(10)];
  }
  SmallVector<int64_t> shape(int64_t rank) {
    SmallVector<int64_t> extents;
    for (int64_t i = 0; i < rank; ++i)
      extents.push_back(extent());
    return extents;
  }
  Type f32() { return builder.getF32Type(); }
  RankedTensorType type(ArrayRef<int64_t> extents, Type element) {
    return RankedTensorType::get(extents, element);
  }

  /// A new function argument.
  DrawnValue argument(ArrayRef<int64_t> extents, Type element) {
    unsigned index = function.getNumArguments();
    auto argumentType = type(extents, element);
    (void)function.insertArgument(index, argumentType, DictionaryAttr(), loc);
    function.setArgAttr(index, "autopar.name", builder.getStringAttr("x" + std::to_string(index)));
    bool integer = isa<IntegerType>(element);
    return {function.getArgument(index), true, 4, integer ? 0 : 2};
  }

  /// A float value of at least `minRank` dimensions: from the pool, or a new argument.
  DrawnValue floats(int64_t minRank = 1, bool exact = false, int64_t maxRank = 4) {
    for (int attempt = 0; attempt < 4 && !pool.empty(); ++attempt) {
      DrawnValue drawn = pool[below(pool.size())];
      auto drawnType = cast<RankedTensorType>(drawn.value.getType());
      if (isa<FloatType>(drawnType.getElementType()) && drawnType.getRank() >= minRank &&
          drawnType.getRank() <= maxRank && (drawn.exact || !exact) && drawn.bound < 1e4)
        return drawn;
    }
    return argument(shape(minRank + below(std::min<int64_t>(2, maxRank - minRank + 1))), f32());
  }

  static RankedTensorType typeOf(const DrawnValue &drawn) {
    return cast<RankedTensorType>(drawn.value.getType());
  }

  /// Marks a result as no longer exact where its numbers need too many bits.
  DrawnValue exactly(Value value, double bound, int fractionBits, bool exact = true) {
    bool fits = std::ldexp(bound, fractionBits) < 4e6;
    return {value, exact && fits, bound, fractionBits};
  }
  DrawnValue inexactly(Value value, double bound) { return {value, false, bound, 0}; }

  Value scalar(TypedAttr value) {
    return ConstantOp::create(builder, loc,
                              DenseElementsAttr::get(type({}, value.getType()), value));
  }
  Value splat(RankedTensorType of, double value) {
    TypedAttr attr =
        isa<FloatType>(of.getElementType())
            ? TypedAttr(builder.getFloatAttr(of.getElementType(), value))
            : TypedAttr(builder.getIntegerAttr(of.getElementType(), static_cast<int64_t>(value)));
    return BroadcastOp::create(builder, loc, of, scalar(attr), ArrayRef<int64_t>{});
  }
  Value unary(UnaryKind kind, Value value) {
    return UnaryOp::create(builder, loc, value.getType(), kind, value);
  }
  Value binary(BinaryKind kind, Value a, Value b) {
    return BinaryOp::create(builder, loc, a.getType(), kind, a, b);
  }

  /// Indices in [0, extent) of the given shape: an i64 argument taken modulo the extent.
  Value indices(ArrayRef<int64_t> extents, int64_t extent) {
    DrawnValue raw = argument(extents, builder.getI64Type());
    auto indexType = typeOf(raw);
    return binary(BinaryKind::Modulo, raw.value, splat(indexType, extent));
  }
  /// [batch..., count, 1] of positions that are distinct along `count`: iota with an offset.
  Value distinctIndices(ArrayRef<int64_t> batch, int64_t count, int64_t extent) {
    SmallVector<int64_t> shape(batch);
    shape.append({count, 1});
    auto lineType = type(shape, builder.getI64Type());
    Value position = IotaOp::create(builder, loc, lineType, batch.size());
    Value shifted = binary(BinaryKind::Add, position, splat(lineType, below(extent)));
    return binary(BinaryKind::Modulo, shifted, splat(lineType, extent));
  }
};

/// Makes one operation, if what was drawn allows it.
using Maker = std::optional<DrawnValue> (*)(Drawer &);
struct MakerRow {
  llvm::StringLiteral name;
  Maker make;
};

// One file of makers per family of operations.
llvm::ArrayRef<MakerRow> elementwiseMakers();
llvm::ArrayRef<MakerRow> contractionMakers();
llvm::ArrayRef<MakerRow> reductionMakers();
llvm::ArrayRef<MakerRow> movementMakers();
llvm::ArrayRef<MakerRow> generationMakers();
llvm::ArrayRef<MakerRow> microBatchMakers();

/// A tensor of booleans.
std::optional<DrawnValue> makeCompare(Drawer &d);

} // namespace autopar_law
