// SPDX-License-Identifier: Apache-2.0
// What the kernels of both scatter operations are made of, on flat memrefs.
#pragma once

#include "DataPositions.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::autopar {

/// What a scatter works on: in each of `batches`, `updates` slices of `slice` elements go into
/// `targets` of them, each named by the indices of the dimensions `extents`.
struct ScatterShape {
  int64_t slice = 1, targets = 1, updates = 0, batches = 1;
  SmallVector<int64_t> extents;
};

class ScatterEmitter {
public:
  ScatterEmitter(Location loc, Type element, ScatterKind kind, Type indexType, ValueRange inputs,
                 Value output)
      : loc(loc), element(element), kind(kind), indexType(indexType), input(inputs[0]),
        indices(inputs[1]), updates(inputs[2]), output(output) {}

  /// Whether the result is not the input itself.
  bool copies() const { return input != output; }
  void copy(OpBuilder &b, Value offset) {
    storeScalar(b, loc, loadScalar(b, loc, input, offset, element), output, offset, element);
  }
  Value loadInput(OpBuilder &b, Value offset) { return load(b, input, offset); }
  Value loadOutput(OpBuilder &b, Value offset) { return load(b, output, offset); }
  Value loadUpdate(OpBuilder &b, Value offset) { return load(b, updates, offset); }
  void store(OpBuilder &b, Value value, Value target) {
    storeScalar(b, loc, value, output, target, element);
  }
  void update(OpBuilder &b, Value target, Value source) {
    Value value = loadUpdate(b, source);
    store(b, assigns() ? value : combine(b, loadOutput(b, target), value), target);
  }

  bool assigns() const { return kind == ScatterKind::Assign; }
  /// `old` with an update, before it is stored.
  Value combine(OpBuilder &b, Value old, Value value) {
    Scalars s(b, loc, element);
    switch (kind) {
    case ScatterKind::Assign:
      return value;
    case ScatterKind::Add:
      return s.add(old, value);
    case ScatterKind::Mul:
      return s.mul(old, value);
    case ScatterKind::Max:
      return s.max(old, value);
    case ScatterKind::Min:
      return s.min(old, value);
    }
    llvm_unreachable("unknown scatter kind");
  }
  /// What `combine` leaves everything as it is with: -0 for a sum of floats.
  Value identity(OpBuilder &b) {
    Scalars s(b, loc, element);
    switch (kind) {
    case ScatterKind::Assign:
      break;
    case ScatterKind::Add:
      return s.isFloat() ? s.constant(-0.0) : s.integer(0);
    case ScatterKind::Mul:
      return s.integer(1);
    case ScatterKind::Max:
      return s.lowest();
    case ScatterKind::Min:
      return s.highest();
    }
    llvm_unreachable("assigning has no identity");
  }
  /// As it is when it was stored and read again.
  Value rounded(OpBuilder &b, Value value) {
    return isa<FloatType>(element) && value.getType() != element ? roundTo(b, loc, value, element)
                                                                 : value;
  }
  /// The slice that update `number` goes to, from the first one of its batch on (none: 0), and
  /// (into `inside`) whether there is one.
  Value target(OpBuilder &b, Value number, Value first, const ScatterShape &shape, Value &inside) {
    int64_t depth = shape.extents.size(), stride = shape.targets;
    Value vector = scaled(b, number, depth, Value());
    Value slice = first ? first : indexConstant(b, loc, 0);
    for (auto [k, extent] : llvm::enumerate(shape.extents)) {
      stride /= std::max<int64_t>(extent, 1);
      Value offset = arith::AddIOp::create(b, loc, vector, indexConstant(b, loc, k));
      slice = scaled(b, position(b, offset, extent, inside), stride, slice);
    }
    if (!inside) // without indices there is one slice
      inside = arith::ConstantIntOp::create(b, loc, b.getI1Type(), 1);
    return slice;
  }
  /// The index at `offset`, counted from the end if negative, and (into `inside`) whether it is
  /// valid; 0 where it is not.
  Value position(OpBuilder &b, Value offset, int64_t extent, Value &inside) {
    Value raw = loadScalar(b, loc, indices, offset, indexType);
    auto [index, fits] = emitChecked(b, loc, emitFromEnd(b, loc, raw, extent), extent);
    inside = inside ? Value(arith::AndIOp::create(b, loc, inside, fits)) : fits;
    return index;
  }
  Value scaled(OpBuilder &b, Value a, int64_t factor, Value sum) {
    Value term = arith::MulIOp::create(b, loc, a, indexConstant(b, loc, factor));
    return sum ? Value(arith::AddIOp::create(b, loc, sum, term)) : term;
  }
  void guarded(OpBuilder &b, Value inside, function_ref<void(OpBuilder &)> body) {
    if (!inside)
      return body(b);
    auto branch = scf::IfOp::create(b, loc, inside, false);
    OpBuilder then = OpBuilder::atBlockBegin(branch.thenBlock());
    body(then);
  }

  /// Of an element in memory.
  int64_t elementBytes() const { return (getStorageType(element).getIntOrFloatBitWidth() + 7) / 8; }

  Location loc;
  Type element;

private:
  Value load(OpBuilder &b, Value buffer, Value offset) {
    return loadScalar(b, loc, buffer, offset, element);
  }

  ScatterKind kind;
  Type indexType;
  Value input, indices, updates, output;
};

} // namespace mlir::autopar
