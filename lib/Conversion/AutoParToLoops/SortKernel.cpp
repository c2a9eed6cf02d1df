// SPDX-License-Identifier: Apache-2.0
// The k best elements of a row, sorted. The outputs hold a heap with the worst of the best on top,
// into which the row is fed; then the heap is taken apart from the worst on. n log k steps, no
// scratch. On a GPU threads share a row (EmitGpuTopK.cpp, EmitGpuBlockSort.cpp).
#include "EmitGpuTopK.h"
#include "LoweringModels.h"
#include "RowAddress.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// An element and where it stood.
struct Ranked {
  Value value, index;
};

class HeapEmitter {
public:
  HeapEmitter(TopKOp op, Value values, Value indices)
      : op(op), loc(op.getLoc()), element(op.getValues().getType().getElementType()),
        address(shapeOf(op.getValues()), op.getDim()), values(values), indices(indices) {}

  /// Emits the row's heap; `read` gives an input element.
  void emitRow(OpBuilder &builder, Value row, int64_t length,
               function_ref<Ranked(OpBuilder &, Value)> read);

private:
  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Ranked at(OpBuilder &b, Value position) {
    Value offset = address.element(b, loc, base, position);
    return {loadScalar(b, loc, values, offset, element),
            loadScalar(b, loc, indices, offset, b.getI64Type())};
  }
  void put(OpBuilder &b, Value position, Ranked item) {
    Value offset = address.element(b, loc, base, position);
    storeScalar(b, loc, item.value, values, offset, element);
    storeScalar(b, loc, item.index, indices, offset, b.getI64Type());
  }
  /// Whether `a` belongs before `c`; of equal elements the one at the lower position does.
  Value isBetter(OpBuilder &b, Ranked a, Ranked c) {
    Scalars s(b, loc, element), positions(b, loc, b.getI64Type());
    Value lower = positions.compare("lt", a.index, c.index);
    Value ties = s.math<arith::AndIOp>(isEqual(s, a.value, c.value), lower);
    return s.math<arith::OrIOp>(wins(s, a.value, c.value), ties);
  }
  /// NaN is the greatest, and equal to NaN.
  Value isEqual(Scalars &s, Value a, Value c) {
    Value equal = s.compare("eq", a, c);
    if (!s.isFloat())
      return equal;
    Value areNan = s.math<arith::AndIOp>(s.compare("ne", a, a), s.compare("ne", c, c));
    return s.math<arith::OrIOp>(equal, areNan);
  }
  Value wins(Scalars &s, Value a, Value c) {
    bool smallest = op.getSmallest();
    if (!s.isFloat())
      return s.compare(smallest ? "lt" : "gt", a, c);
    // True where either is NaN: one loses to no number among the largest, and wins over none among
    // the smallest.
    auto either = smallest ? arith::CmpFPredicate::ULT : arith::CmpFPredicate::UGT;
    Value differs = arith::CmpFOp::create(s.builder, loc, either, a, c);
    Value number = smallest ? a : c;
    return s.math<arith::AndIOp>(differs, s.compare("eq", number, number));
  }
  Value parentOf(OpBuilder &b, Value position) {
    Value above = arith::SubIOp::create(b, loc, position, constant(b, 1));
    return arith::DivUIOp::create(b, loc, above, constant(b, 2));
  }
  void siftUp(OpBuilder &b, Value position, Ranked item);
  void siftDown(OpBuilder &b, Value size, Ranked item);

  TopKOp op;
  Location loc;
  Type element;
  RowAddress address;
  Value values, indices, base;
};

/// Puts `item` where it belongs between `position` and the top: worse elements above.
void HeapEmitter::siftUp(OpBuilder &b, Value position, Ranked item) {
  auto loop = scf::WhileOp::create(
      b, loc, TypeRange{b.getIndexType()}, ValueRange{position},
      [&](OpBuilder &b, Location, ValueRange args) {
        Value isInner =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, args[0], constant(b, 0));
        auto moves = scf::IfOp::create(b, loc, TypeRange{b.getI1Type()}, isInner, true, true);
        OpBuilder then = OpBuilder::atBlockEnd(moves.thenBlock());
        Value parent = parentOf(then, args[0]);
        scf::YieldOp::create(then, loc, isBetter(then, at(then, parent), item));
        OpBuilder otherwise = OpBuilder::atBlockEnd(moves.elseBlock());
        Value no = arith::ConstantOp::create(otherwise, loc, otherwise.getBoolAttr(false));
        scf::YieldOp::create(otherwise, loc, no);
        scf::ConditionOp::create(b, loc, moves.getResult(0), args);
      },
      [&](OpBuilder &b, Location, ValueRange args) {
        Value parent = parentOf(b, args[0]);
        put(b, args[0], at(b, parent));
        scf::YieldOp::create(b, loc, parent);
      });
  put(b, loop.getResult(0), item);
}

/// Puts `item` on top of a heap of `size` elements and lets it sink: the worse child rises.
void HeapEmitter::siftDown(OpBuilder &b, Value size, Ranked item) {
  auto loop = scf::WhileOp::create(
      b, loc, TypeRange{b.getIndexType(), b.getIndexType()},
      ValueRange{constant(b, 0), constant(b, 0)},
      [&](OpBuilder &b, Location, ValueRange args) {
        Value left = arith::AddIOp::create(
            b, loc, arith::MulIOp::create(b, loc, args[0], constant(b, 2)), constant(b, 1));
        Value right = arith::AddIOp::create(b, loc, left, constant(b, 1));
        Value hasLeft = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, left, size);
        auto sinks = scf::IfOp::create(b, loc, TypeRange{b.getI1Type(), b.getIndexType()}, hasLeft,
                                       true, true);
        OpBuilder then = OpBuilder::atBlockEnd(sinks.thenBlock());
        Value hasRight = arith::CmpIOp::create(then, loc, arith::CmpIPredicate::ult, right, size);
        // Without a right child the left one is compared with itself.
        Value other = arith::SelectOp::create(then, loc, hasRight, right, left);
        Value leftIsBetter = isBetter(then, at(then, left), at(then, other));
        Value child = arith::SelectOp::create(then, loc, leftIsBetter, other, left);
        Value isWorse = isBetter(then, item, at(then, child));
        scf::YieldOp::create(then, loc, ValueRange{isWorse, child});
        OpBuilder otherwise = OpBuilder::atBlockEnd(sinks.elseBlock());
        Value no = arith::ConstantOp::create(otherwise, loc, otherwise.getBoolAttr(false));
        scf::YieldOp::create(otherwise, loc, ValueRange{no, left});
        scf::ConditionOp::create(b, loc, sinks.getResult(0),
                                 ValueRange{args[0], sinks.getResult(1)});
      },
      [&](OpBuilder &b, Location, ValueRange args) {
        put(b, args[0], at(b, args[1]));
        scf::YieldOp::create(b, loc, ValueRange{args[1], args[1]});
      });
  put(b, loop.getResult(0), item);
}

void HeapEmitter::emitRow(OpBuilder &builder, Value row, int64_t length,
                          function_ref<Ranked(OpBuilder &, Value)> read) {
  base = address.base(builder, loc, row);
  Value zero = constant(builder, 0), one = constant(builder, 1);
  Value k = constant(builder, address.length), n = constant(builder, length);
  auto loop = [&](Value from, Value to, function_ref<void(OpBuilder &, Value)> body) {
    scf::ForOp::create(builder, loc, from, to, one, ValueRange{},
                       [&](OpBuilder &b, Location, Value i, ValueRange) {
                         body(b, i);
                         scf::YieldOp::create(b, loc);
                       });
  };
  loop(zero, k, [&](OpBuilder &b, Value i) { siftUp(b, i, read(b, i)); });
  loop(k, n, [&](OpBuilder &b, Value i) {
    Ranked item = read(b, i);
    auto enters = scf::IfOp::create(b, loc, isBetter(b, item, at(b, zero)), false);
    OpBuilder then = OpBuilder::atBlockBegin(enters.thenBlock());
    siftDown(then, k, item);
  });
  loop(one, k, [&](OpBuilder &b, Value i) {
    Value last = arith::SubIOp::create(b, loc, k, i);
    Ranked worst = at(b, zero), item = at(b, last);
    put(b, last, worst);
    siftDown(b, last, item);
  });
}

struct TopKModel : KernelLoweringOpInterface::ExternalModel<TopKModel, TopKOp> {
  int64_t getKernelExtent(Operation *op, int64_t) const {
    return RowAddress(shapeOf(op->getOperand(0)), cast<TopKOp>(op).getDim()).rows;
  }
  void emitKernel(Operation *op, OpBuilder &builder, ValueRange inputs, ValueRange outputs,
                  Value begin, Value end, int64_t) const {
    auto topK = cast<TopKOp>(op);
    Location loc = op->getLoc();
    RowAddress address(shapeOf(topK.getInput()), topK.getDim());
    if (shapeOf(topK.getValues())[topK.getDim()] == 0)
      return;
    Type element = topK.getInput().getType().getElementType();
    scf::ForOp::create(builder, loc, begin, end, indexConstant(builder, loc, 1), ValueRange{},
                       [&](OpBuilder &rowBuilder, Location, Value row, ValueRange) {
                         Value base = address.base(rowBuilder, loc, row);
                         HeapEmitter heap(topK, outputs[0], outputs[1]);
                         heap.emitRow(rowBuilder, row, address.length, [&](OpBuilder &b, Value i) {
                           Value offset = address.element(b, loc, base, i);
                           Value position = arith::IndexCastOp::create(b, loc, b.getI64Type(), i);
                           return Ranked{loadScalar(b, loc, inputs[0], offset, element), position};
                         });
                         scf::YieldOp::create(rowBuilder, loc);
                       });
  }
  SmallVector<int64_t> emitGpuKernel(Operation *op, OpBuilder &builder, ValueRange inputs,
                                     ValueRange outputs) const {
    RankedRows rows(cast<TopKOp>(op), inputs[0], outputs[0], outputs[1]);
    if (rows.rows() == 0 || rows.kept() == 0)
      return {};
    std::optional<GpuGrid> grid = emitGpuTopK(builder, rows);
    if (!grid)
      return {};
    return {grid->blocks, grid->threads};
  }
};

} // namespace

void autopar::attachSortModels(MLIRContext &context) {
  TopKOp::attachInterface<TopKModel>(context);
}
