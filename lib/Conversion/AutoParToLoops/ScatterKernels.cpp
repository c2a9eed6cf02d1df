// SPDX-License-Identifier: Apache-2.0
// Scatter: a copy of the input (or the input itself, if the result takes its place) into which
// updates are combined in row-major order. Slices are split over iterations by their elements (on a
// GPU, slices over warps: EmitGpuScatter.cpp), so that the order of updates to one element never
// changes.
#include "GpuThreads.h"
#include "LoopNest.h"
#include "ScatterEmitter.h"

#include "autopar/Interfaces/TensorLayout.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

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

struct ScatterModel : KernelLoweringOpInterface::ExternalModel<ScatterModel, ScatterOp> {
  static ScatterShape shapeOfScatter(ScatterOp op) {
    ArrayRef<int64_t> input = shapeOf(op.getInput()), indices = shapeOf(op.getIndices());
    ScatterShape shape;
    int64_t batch = op.getBatchDims(), kept = batch + indices.back();
    shape.batches = llvm::product_of(input.take_front(batch));
    shape.extents = llvm::to_vector(input.slice(batch, indices.back()));
    shape.targets = llvm::product_of(shape.extents);
    shape.slice = llvm::product_of(input.drop_front(kept));
    shape.updates = llvm::product_of(indices.drop_back().drop_front(batch));
    return shape;
  }
  static ScatterEmitter emitterOf(ScatterOp op, ValueRange inputs, Value output) {
    return ScatterEmitter(op.getLoc(), op.getType().getElementType(), op.getKind(),
                          elementTypeOf(op.getIndices()), inputs, output);
  }
  int64_t getKernelExtent(Operation *op, int64_t grain) const {
    return (shapeOfScatter(cast<ScatterOp>(op)).slice + grain - 1) / grain;
  }
  bool changesFirstOperand(Operation *) const { return true; }
  void emitKernel(Operation *op, OpBuilder &builder, ValueRange inputs, ValueRange outputs,
                  Value begin, Value end, int64_t grain) const {
    Location loc = op->getLoc();
    ScatterShape shape = shapeOfScatter(cast<ScatterOp>(op));
    if (shape.slice == 0)
      return;
    ScatterEmitter emitter = emitterOf(cast<ScatterOp>(op), inputs, outputs[0]);
    // This call's part of every slice.
    Value block = indexConstant(builder, loc, grain);
    Value low = arith::MulIOp::create(builder, loc, begin, block);
    Value high =
        arith::MinSIOp::create(builder, loc, arith::MulIOp::create(builder, loc, end, block),
                               indexConstant(builder, loc, shape.slice));
    if (emitter.copies())
      emitLoop(builder, loc, shape.batches * shape.targets, [&](OpBuilder &outer, Value i) {
        Value base = emitter.scaled(outer, i, shape.slice, Value());
        emitLoop(outer, loc, low, high, [&](OpBuilder &b, Value j) {
          emitter.copy(b, arith::AddIOp::create(b, loc, base, j));
        });
      });
    emitLoop(builder, loc, shape.batches, [&](OpBuilder &batchBuilder, Value batch) {
      Value first = emitter.scaled(batchBuilder, batch, shape.targets, Value());
      Value firstUpdate = emitter.scaled(batchBuilder, batch, shape.updates, Value());
      emitLoop(batchBuilder, loc, shape.updates, [&](OpBuilder &outer, Value i) {
        Value number = arith::AddIOp::create(outer, loc, firstUpdate, i);
        Value inside, slice = emitter.target(outer, number, first, shape, inside);
        Value target = emitter.scaled(outer, slice, shape.slice, Value());
        Value source = emitter.scaled(outer, number, shape.slice, Value());
        emitter.guarded(outer, inside, [&](OpBuilder &guard) {
          emitLoop(guard, loc, low, high, [&](OpBuilder &b, Value j) {
            emitter.update(b, arith::AddIOp::create(b, loc, target, j),
                           arith::AddIOp::create(b, loc, source, j));
          });
        });
      });
    });
  }
  SmallVector<int64_t> emitGpuKernel(Operation *op, OpBuilder &builder, ValueRange inputs,
                                     ValueRange outputs) const {
    ScatterShape shape = shapeOfScatter(cast<ScatterOp>(op));
    if (shape.slice == 0 || shape.targets == 0 || shape.batches == 0)
      return {1, kWarpThreads};
    ScatterEmitter emitter = emitterOf(cast<ScatterOp>(op), inputs, outputs[0]);
    GpuGrid grid = emitGpuScatter(builder, emitter, shape);
    return {grid.blocks, grid.threads};
  }
};

/// Updates stay on their line along the dimension, so lines are independent.
struct ScatterElementsModel
    : KernelLoweringOpInterface::ExternalModel<ScatterElementsModel, ScatterElementsOp> {
  int64_t getKernelExtent(Operation *op, int64_t) const {
    auto scatter = cast<ScatterElementsOp>(op);
    SmallVector<int64_t> lines(shapeOf(scatter.getInput()));
    lines[scatter.getDim()] = 1;
    return llvm::product_of(lines);
  }
  bool changesFirstOperand(Operation *) const { return true; }

  static ScatterEmitter emitterOf(ScatterElementsOp op, ValueRange inputs, Value output) {
    return ScatterEmitter(op.getLoc(), op.getType().getElementType(), op.getKind(),
                          elementTypeOf(op.getIndices()), inputs, output);
  }

  /// Lines that lie together and all have updates are batches of slices of one element, which pays
  /// where a warp finds enough of them. Else each line has a thread.
  SmallVector<int64_t> emitGpuKernel(Operation *op, OpBuilder &builder, ValueRange inputs,
                                     ValueRange outputs) const {
    auto scatter = cast<ScatterElementsOp>(op);
    ArrayRef<int64_t> input = shapeOf(scatter.getInput()), part = shapeOf(scatter.getIndices());
    size_t along = scatter.getDim();
    if (along + 1 != input.size() || input.drop_back() != part.drop_back() ||
        part.back() < kWarpThreads || scatter.getType().getNumElements() == 0)
      return {};
    ScatterShape shape;
    shape.batches = llvm::product_of(input.drop_back());
    shape.targets = input.back();
    shape.updates = part.back();
    shape.extents = {input.back()};
    ScatterEmitter emitter = emitterOf(scatter, inputs, outputs[0]);
    GpuGrid grid = emitGpuScatter(builder, emitter, shape);
    return {grid.blocks, grid.threads};
  }

  void emitKernel(Operation *op, OpBuilder &builder, ValueRange inputs, ValueRange outputs,
                  Value begin, Value end, int64_t) const {
    auto scatter = cast<ScatterElementsOp>(op);
    Location loc = op->getLoc();
    ArrayRef<int64_t> shape = shapeOf(scatter.getInput()), part = shapeOf(scatter.getIndices());
    size_t along = scatter.getDim();
    SmallVector<int64_t> strides = denseStrides(shape), partStrides = denseStrides(part),
                         lines(shape);
    lines[along] = 1;
    ScatterEmitter emitter = emitterOf(scatter, inputs, outputs[0]);
    emitLoop(builder, loc, begin, end, [&](OpBuilder &line, Value number) {
      Value target = indexConstant(line, loc, 0), source = target, exists;
      for (auto [dim, index] : llvm::enumerate(emitDelinearize(line, loc, number, lines))) {
        target = emitter.scaled(line, index, strides[dim], target);
        source = emitter.scaled(line, index, partStrides[dim], source);
        if (dim == along || part[dim] == shape[dim])
          continue;
        Value fits = arith::CmpIOp::create(line, loc, arith::CmpIPredicate::ult, index,
                                           indexConstant(line, loc, part[dim]));
        exists = exists ? arith::AndIOp::create(line, loc, exists, fits).getResult() : fits;
      }
      if (emitter.copies())
        emitLoop(line, loc, shape[along], [&](OpBuilder &b, Value i) {
          emitter.copy(b, emitter.scaled(b, i, strides[along], target));
        });
      emitter.guarded(line, exists, [&](OpBuilder &where) {
        emitLoop(where, loc, part[along], [&](OpBuilder &b, Value i) {
          Value update = emitter.scaled(b, i, partStrides[along], source), inside;
          Value index = emitter.position(b, update, shape[along], inside);
          emitter.guarded(b, inside, [&](OpBuilder &guard) {
            emitter.update(guard, emitter.scaled(guard, index, strides[along], target), update);
          });
        });
      });
    });
  }
};

} // namespace

void autopar::attachScatterModels(MLIRContext &context) {
  ScatterOp::attachInterface<ScatterModel>(context);
  ScatterElementsOp::attachInterface<ScatterElementsModel>(context);
}
