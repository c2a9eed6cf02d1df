// SPDX-License-Identifier: Apache-2.0
// Scatter: a copy of the input (or the input itself, if the result takes its place) into which
// updates are combined in row-major order. Slices are split over iterations by their elements, so
// that the order of updates to one element never changes.
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

int64_t product(ArrayRef<int64_t> shape) {
  int64_t result = 1;
  for (int64_t size : shape)
    result *= size;
  return result;
}

SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  return strides;
}

void emitLoop(OpBuilder &builder, Location loc, Value lower, Value upper,
              function_ref<void(OpBuilder &, Value)> body) {
  scf::ForOp::create(builder, loc, lower, upper, indexConstant(builder, loc, 1), ValueRange{},
                     [&](OpBuilder &b, Location, Value i, ValueRange) {
                       body(b, i);
                       scf::YieldOp::create(b, loc);
                     });
}
void emitLoop(OpBuilder &builder, Location loc, int64_t upper,
              function_ref<void(OpBuilder &, Value)> body) {
  emitLoop(builder, loc, indexConstant(builder, loc, 0), indexConstant(builder, loc, upper), body);
}

/// Both scatter operations, on flat memrefs.
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
  void update(OpBuilder &b, Value target, Value source) {
    Value value = loadScalar(b, loc, updates, source, element);
    if (kind != ScatterKind::Assign)
      value = combine(b, loadScalar(b, loc, output, target, element), value);
    storeScalar(b, loc, value, output, target, element);
  }
  /// The index at `offset`, counted from the end if negative, and (into `inside`) whether it is
  /// valid.
  Value position(OpBuilder &b, Value offset, int64_t extent, Value &inside) {
    Value raw = loadScalar(b, loc, indices, offset, indexType);
    Value index = arith::IndexCastOp::create(b, loc, b.getIndexType(), raw);
    Value zero = indexConstant(b, loc, 0), size = indexConstant(b, loc, extent);
    Value isNegative = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, index, zero);
    Value fromEnd = arith::AddIOp::create(b, loc, index, size);
    index = arith::SelectOp::create(b, loc, isNegative, fromEnd, index);
    Value fits = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index, size);
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

  Location loc;

private:
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

  Type element;
  ScatterKind kind;
  Type indexType;
  Value input, indices, updates, output;
};

struct ScatterModel : KernelLoweringOpInterface::ExternalModel<ScatterModel, ScatterOp> {
  static int64_t sliceSize(ScatterOp op) {
    return product(shapeOf(op.getInput()).drop_front(shapeOf(op.getIndices()).back()));
  }
  int64_t getKernelExtent(Operation *op, int64_t grain) const {
    return (sliceSize(cast<ScatterOp>(op)) + grain - 1) / grain;
  }
  bool changesFirstOperand(Operation *) const { return true; }
  void emitKernel(Operation *op, OpBuilder &builder, ValueRange inputs, ValueRange outputs,
                  Value begin, Value end, int64_t grain) const {
    auto scatter = cast<ScatterOp>(op);
    Location loc = op->getLoc();
    ArrayRef<int64_t> shape = shapeOf(scatter.getInput());
    int64_t slice = sliceSize(scatter), depth = shapeOf(scatter.getIndices()).back();
    if (slice == 0)
      return;
    SmallVector<int64_t> strides = stridesOf(shape);
    ScatterEmitter emitter(loc, scatter.getType().getElementType(), scatter.getKind(),
                           elementTypeOf(scatter.getIndices()), inputs, outputs[0]);
    // This call's part of every slice.
    Value block = indexConstant(builder, loc, grain);
    Value low = arith::MulIOp::create(builder, loc, begin, block);
    Value high =
        arith::MinSIOp::create(builder, loc, arith::MulIOp::create(builder, loc, end, block),
                               indexConstant(builder, loc, slice));
    if (emitter.copies())
      emitLoop(builder, loc, product(shape) / slice, [&](OpBuilder &outer, Value i) {
        Value base = emitter.scaled(outer, i, slice, Value());
        emitLoop(outer, loc, low, high, [&](OpBuilder &b, Value j) {
          emitter.copy(b, arith::AddIOp::create(b, loc, base, j));
        });
      });
    int64_t count = product(shapeOf(scatter.getIndices()).drop_back());
    emitLoop(builder, loc, count, [&](OpBuilder &outer, Value i) {
      Value inside, target = indexConstant(outer, loc, 0);
      Value vector = emitter.scaled(outer, i, depth, Value());
      for (int64_t k = 0; k < depth; ++k) {
        Value offset = arith::AddIOp::create(outer, loc, vector, indexConstant(outer, loc, k));
        target = emitter.scaled(outer, emitter.position(outer, offset, shape[k], inside),
                                strides[k], target);
      }
      Value source = emitter.scaled(outer, i, slice, Value());
      emitter.guarded(outer, inside, [&](OpBuilder &guard) {
        emitLoop(guard, loc, low, high, [&](OpBuilder &b, Value j) {
          emitter.update(b, arith::AddIOp::create(b, loc, target, j),
                         arith::AddIOp::create(b, loc, source, j));
        });
      });
    });
  }
};

struct ScatterElementsModel
    : KernelLoweringOpInterface::ExternalModel<ScatterElementsModel, ScatterElementsOp> {
  int64_t getKernelExtent(Operation *, int64_t) const { return 1; }
  bool changesFirstOperand(Operation *) const { return true; }

  void emitKernel(Operation *op, OpBuilder &builder, ValueRange inputs, ValueRange outputs,
                  Value begin, Value end, int64_t) const {
    auto scatter = cast<ScatterElementsOp>(op);
    Location loc = op->getLoc();
    ArrayRef<int64_t> shape = shapeOf(scatter.getInput()), part = shapeOf(scatter.getIndices());
    SmallVector<int64_t> strides = stridesOf(shape);
    ScatterEmitter emitter(loc, scatter.getType().getElementType(), scatter.getKind(),
                           elementTypeOf(scatter.getIndices()), inputs, outputs[0]);
    emitLoop(builder, loc, begin, end, [&](OpBuilder &whole, Value) {
      if (emitter.copies())
        emitLoop(whole, loc, product(shape), [&](OpBuilder &b, Value i) { emitter.copy(b, i); });
      emitLoop(whole, loc, product(part), [&](OpBuilder &b, Value i) {
        Value rest = i, target = indexConstant(b, loc, 0), inside;
        for (size_t dim = part.size(); dim-- > 0;) {
          Value extent = indexConstant(b, loc, std::max<int64_t>(part[dim], 1));
          Value index = arith::RemUIOp::create(b, loc, rest, extent);
          rest = arith::DivUIOp::create(b, loc, rest, extent);
          if (dim == scatter.getDim())
            index = emitter.position(b, i, shape[dim], inside);
          target = emitter.scaled(b, index, strides[dim], target);
        }
        emitter.guarded(b, inside, [&](OpBuilder &guard) { emitter.update(guard, target, i); });
      });
    });
  }
};

} // namespace

void autopar::attachScatterModels(MLIRContext &context) {
  ScatterOp::attachInterface<ScatterModel>(context);
  ScatterElementsOp::attachInterface<ScatterElementsModel>(context);
}
