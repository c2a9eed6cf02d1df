// SPDX-License-Identifier: Apache-2.0
// Elements made from nothing: constants of one or a few numbers, positions, random numbers.
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// One number, or a few that are chosen by position; other constants are buffers, inputs of the
/// group.
struct ConstantModel : ElementLoweringOpInterface::ExternalModel<ConstantModel, ConstantOp> {
  int64_t getElementCost(Operation *) const { return 0; }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    SmallVector<int64_t> dims;
    if (!cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue()).isSplat())
      for (auto [dim, extent] : llvm::enumerate(shapeOf(op->getResult(0))))
        if (extent > 1)
          dims.push_back(dim);
    return dims;
  }

  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto value = cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue());
    Location loc = op->getLoc();
    if (value.empty()) // and never read
      return arith::ConstantOp::create(builder, loc,
                                       builder.getZeroAttr(getScalarType(value.getElementType())));
    auto numbers = value.getValues<Attribute>();
    Value chosen = numberOf(builder, loc, *numbers.begin());
    SmallVector<int64_t> dims = getPositionDimensions(op);
    if (dims.empty())
      return chosen;
    Value position;
    for (int64_t dim : dims) {
      Value index = loader.index(builder, dim);
      if (position) {
        Value extent = indexConstant(builder, loc, shapeOf(op->getResult(0))[dim]);
        position = arith::MulIOp::create(builder, loc, position, extent);
        index = arith::AddIOp::create(builder, loc, position, index);
      }
      position = index;
    }
    for (auto [i, number] : llvm::enumerate(llvm::drop_begin(numbers))) {
      Value here = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, position,
                                         indexConstant(builder, loc, i + 1));
      chosen = arith::SelectOp::create(builder, loc, here, numberOf(builder, loc, number), chosen);
    }
    return chosen;
  }

private:
  static Value numberOf(OpBuilder &builder, Location loc, Attribute number) {
    Type scalar = getScalarType(cast<TypedAttr>(number).getType());
    auto type = dyn_cast<FloatType>(scalar);
    if (!type)
      return arith::ConstantOp::create(
          builder, loc, builder.getIntegerAttr(scalar, cast<IntegerAttr>(number).getValue()));
    APFloat value = cast<FloatAttr>(number).getValue();
    bool exact;
    value.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &exact);
    return arith::ConstantOp::create(builder, loc, builder.getFloatAttr(type, value));
  }
};

struct IotaModel : ElementLoweringOpInterface::ExternalModel<IotaModel, IotaOp> {
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    return {static_cast<int64_t>(cast<IotaOp>(op).getDim())};
  }
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto iota = cast<IotaOp>(op);
    Location loc = op->getLoc();
    // A position that becomes a number of 64 bits keeps all of a GPU's positions as wide.
    bool isShort = iota.getType().getDimSize(iota.getDim()) <= std::numeric_limits<int32_t>::max();
    Type number = isShort ? builder.getI32Type() : builder.getI64Type();
    Value position =
        arith::IndexCastOp::create(builder, loc, number, loader.index(builder, iota.getDim()));
    return castScalar(builder, loc, position, number, iota.getType().getElementType());
  }
};

//===-- random -------------------------------------------------------------------------------===//

/// Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3"
/// (SC'11).
class Philox {
public:
  Philox(OpBuilder &builder, Location loc) : words(builder, loc, builder.getI32Type()) {}

  /// Four words from a 64-bit counter (upper counter words zero) and a 64-bit key.
  std::array<Value, 4> draw(Value counter, uint64_t key) {
    OpBuilder &b = words.builder;
    Value high = arith::ShRUIOp::create(b, words.loc, counter, wide(32));
    std::array<Value, 4> state = {narrow(counter), narrow(high), words.integer(0),
                                  words.integer(0)};
    uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
    for (int round = 0; round < 10; ++round) {
      auto [high0, low0] = multiply(state[0], 0xD2511F53);
      auto [high1, low1] = multiply(state[2], 0xCD9E8D57);
      state = {mix(high1, state[1], key0), low1, mix(high0, state[3], key1), low0};
      key0 += 0x9E3779B9;
      key1 += 0xBB67AE85;
    }
    return state;
  }

private:
  Value wide(int64_t value) {
    return arith::ConstantOp::create(words.builder, words.loc,
                                     words.builder.getI64IntegerAttr(value));
  }
  Value narrow(Value value) {
    return arith::TruncIOp::create(words.builder, words.loc, words.getType(), value);
  }
  std::pair<Value, Value> multiply(Value a, uint32_t factor) {
    OpBuilder &b = words.builder;
    Value extended = arith::ExtUIOp::create(b, words.loc, b.getI64Type(), a);
    Value product = arith::MulIOp::create(b, words.loc, extended, wide(factor));
    return {narrow(arith::ShRUIOp::create(b, words.loc, product, wide(32))), narrow(product)};
  }
  Value mix(Value a, Value b, uint32_t key) {
    Value mixed = words.math<arith::XOrIOp>(a, b);
    return words.math<arith::XOrIOp>(mixed, words.integer(key));
  }
  Scalars words;
};

/// The upper bits as a number in [0, 1): as many as f32 or a narrower element type holds, so that
/// rounding does not make 1 of the greatest.
Value toUnit(Scalars &s, Value word, Type element) {
  OpBuilder &b = s.builder;
  int64_t digits = element.isF16() ? 11 : element.isBF16() ? 8 : 24;
  Value shift = arith::ConstantOp::create(b, s.loc, b.getI32IntegerAttr(32 - digits));
  Value bits = arith::ShRUIOp::create(b, s.loc, word, shift);
  Value number = arith::UIToFPOp::create(b, s.loc, s.getType(), bits);
  return s.mul(number, s.constant(std::ldexp(1.0, -digits)));
}

struct RandomModel : ElementLoweringOpInterface::ExternalModel<RandomModel, RandomOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const {
    return AffineMap::get(shapeOf(op->getResult(0)).size(), 0, {}, op->getContext());
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    return llvm::to_vector(llvm::seq<int64_t>(0, shapeOf(op->getResult(0)).size()));
  }
  int64_t getElementCost(Operation *) const { return 64; }

  /// Row-major position in the global shape, as i64.
  static Value emitCounter(RandomOp random, OpBuilder &builder, ElementLoader &loader) {
    Location loc = random.getLoc();
    Scalars s(builder, loc, builder.getI64Type());
    Value counter = s.integer(0);
    for (auto [dim, extent] : llvm::enumerate(random.getGlobalShape())) {
      Value index =
          arith::IndexCastOp::create(builder, loc, s.getType(), loader.index(builder, dim));
      if (!random.getOffsets().empty())
        index = s.add(index, loader.load(builder, dim));
      counter = s.add(s.mul(counter, s.integer(extent)), index);
    }
    return counter;
  }

  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    auto random = cast<RandomOp>(op);
    Location loc = op->getLoc();
    uint64_t key = static_cast<uint64_t>(random.getSeed()) +
                   0x9E3779B97F4A7C15u * static_cast<uint64_t>(random.getStream());
    std::array<Value, 4> words =
        Philox(builder, loc).draw(emitCounter(random, builder, loader), key);
    Type element = random.getType().getElementType();
    if (random.getKind() == RandomKind::Bits)
      return emitBits(builder, loc, words, element);
    Scalars s(builder, loc, element);
    if (random.getKind() == RandomKind::Uniform)
      return toUnit(s, words[0], element);
    // Box and Muller: sqrt(-2 ln u) cos(2 pi v), u in (0, 1].
    Type wide = builder.getF32Type();
    Value u = s.sub(s.constant(1), toUnit(s, words[0], wide)), v = toUnit(s, words[1], wide);
    Value radius = s.math<math::SqrtOp>(s.mul(s.constant(-2), s.math<math::LogOp>(u)));
    return s.mul(radius, s.math<math::CosOp>(s.mul(s.constant(2 * M_PI), v)));
  }

  static Value emitBits(OpBuilder &builder, Location loc, ArrayRef<Value> words, Type element) {
    Type i64 = builder.getI64Type();
    Value low = arith::ExtUIOp::create(builder, loc, i64, words[0]);
    Value high = arith::ExtUIOp::create(builder, loc, i64, words[1]);
    Value shift = arith::ConstantOp::create(builder, loc, builder.getI64IntegerAttr(32));
    Value bits =
        arith::OrIOp::create(builder, loc, low, arith::ShLIOp::create(builder, loc, high, shift));
    Type target = getScalarType(element);
    return target == i64 ? bits : arith::TruncIOp::create(builder, loc, target, bits).getResult();
  }
};

} // namespace

void autopar::attachGenerationModels(MLIRContext &context) {
  ConstantOp::attachInterface<ConstantModel>(context);
  IotaOp::attachInterface<IotaModel>(context);
  RandomOp::attachInterface<RandomModel>(context);
}
