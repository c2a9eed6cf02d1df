// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient become one library call on strided views: transposes that split and
// merge heads around them cost nothing, as long as the elements of a row lie side by side.
#include "LibraryCall.h"

#include "autopar/Artifact/CudaScratch.h"
#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether every row starts at a multiple of 16 bytes, from which a GPU's library reads it.
bool hasAlignedRows(RankedTensorType type, ArrayRef<int64_t> strides) {
  int64_t bytes = exec::tensorBytes(RankedTensorType::get({1}, type.getElementType()));
  for (auto [dim, stride] : llvm::drop_end(llvm::zip(type.getShape(), strides)))
    if (dim > 1 && (stride == 0 || stride * bytes % 16 != 0))
      return false;
  return true;
}

/// Gathers the operands of one call.
class Call {
public:
  Call(ProgramBuilder &program, Operation *op) : program(program), op(op) {}

  /// Rows of a bias may start anywhere.
  LogicalResult read(Value value, bool isBias = false) {
    StridedView view = program.viewOf(value);
    RankedTensorType type = typeOf(value);
    if (!isReadable(type, view, isBias)) {
      FailureOr<Value> ordered = program.rowMajorBuffer(value);
      if (failed(ordered))
        return failure();
      view = {*ordered, denseStrides(type.getShape())};
    }
    inputs.push_back(view.buffer);
    operands.push_back(ofContiguousRows(type, view));
    return success();
  }

  LogicalResult readRows(Value value) {
    FailureOr<Value> buffer = program.rowMajorBuffer(value);
    if (failed(buffer))
      return failure();
    inputs.push_back(*buffer);
    return success();
  }

  LogicalResult readBias(Value value, ArrayRef<int64_t> scores) {
    if (!value)
      return success();
    if (failed(read(value, /*isBias=*/true)))
      return failure();
    exec::StridedAttr attr = operands.pop_back_val();
    SmallVector<int64_t> strides(attr.getStrides());
    for (size_t dim = 0; dim < strides.size(); ++dim)
      if (typeOf(value).getDimSize(dim) == 1 && scores[dim] != 1)
        strides[dim] = 0;
    bias = exec::StridedAttr::get(op->getContext(), attr.getElementType(), scores, strides);
    return success();
  }

  void write(Value result) {
    RankedTensorType type = typeOf(result);
    write(result, program.createResult(result, [&](ArrayRef<int64_t> strides) {
      return isWritable(type, strides);
    }));
  }
  void writeAll() {
    auto fits = [&](Value result, ArrayRef<int64_t> strides) {
      return isWritable(typeOf(result), strides);
    };
    for (auto [result, view] : llvm::zip(op->getResults(), program.createResults(op, fits)))
      write(result, view);
  }
  void writeRows(Value result) { outputs.push_back(program.createRowMajorResult(result)); }

  /// The word of the rank's values that says which of so many parts of a triangle's rows it has.
  LogicalResult readShard(Value shard, IntegerAttr count) {
    if (!shard)
      return success();
    auto [buffer, offset] = exec::rootOf(program.viewOf(shard).buffer);
    if (!buffer || buffer.getBinding() != exec::Binding::RankValues)
      return op->emitOpError("expects the shard of its rows to be an autopar.shard_index");
    shardValue = Builder(op->getContext()).getI64IntegerAttr(offset / 8);
    parts = count;
    return success();
  }

  LogicalResult emit(FloatAttr scale, bool causal, std::optional<int64_t> window, double flops) {
    auto geometry = exec::AttentionGeometryAttr::get(op->getContext(), operands, scale, causal,
                                                     window.value_or(0), bias);
    int64_t scratchBytes = 0;
    if (isForCuda()) {
      scratchBytes = ::autopar::artifact::cudaScratchBytes(exec::toArtifact(geometry));
    } else {
      auto bytes = ::autopar::cpumath::scratchBytes(
          exec::toArtifact(geometry), static_cast<int32_t>(program.settings().threads));
      if (!bytes)
        return op->emitOpError() << "has no library call: " << bytes.status().message();
      scratchBytes = *bytes;
    }
    Value scratch = program.createScratch(op, scratchBytes);
    auto call = exec::AttentionOp::create(program.step(), op->getLoc(), inputs, outputs, scratch,
                                          geometry, shardValue, parts);
    program.describe(call, op, "attention", flops);
    // The view of a strided operand spans more than what is read.
    int64_t bytes = 0;
    for (Value value : op->getOperands())
      bytes += exec::tensorBytes(typeOf(value));
    for (Value value : op->getResults())
      bytes += exec::tensorBytes(typeOf(value));
    call->setAttr("bytes", Builder(op->getContext()).getI64IntegerAttr(bytes));
    return success();
  }

private:
  void write(Value result, const StridedView &view) {
    outputs.push_back(view.buffer);
    operands.push_back(ofContiguousRows(typeOf(result), view));
  }
  bool isForCuda() const { return program.settings().target == Target::Cuda; }
  bool isWritable(RankedTensorType type, ArrayRef<int64_t> strides) const {
    return hasContiguousRows(type, strides) && (!isForCuda() || hasAlignedRows(type, strides));
  }
  bool isReadable(RankedTensorType type, const StridedView &view, bool isBias) const {
    return (isBias ? hasContiguousRows(type, view.strides) : isWritable(type, view.strides)) &&
           (!isForCuda() || exec::rootOf(view.buffer).second % 16 == 0);
  }

  ProgramBuilder &program;
  Operation *op;
  SmallVector<Value> inputs, outputs;
  SmallVector<exec::StridedAttr> operands;
  exec::StridedAttr bias;
  IntegerAttr shardValue, parts; ///< null where the rows are all there are
};

SmallVector<int64_t> scoresOf(Value query, Value key) {
  ArrayRef<int64_t> q = typeOf(query).getShape();
  return {q[0], q[1], q[2], typeOf(key).getDimSize(2)};
}

SmallVector<RankedTensorType> typesOf(ValueRange values) {
  return llvm::map_to_vector(values, [](Value value) { return typeOf(value); });
}

} // namespace

LogicalResult mlir::autopar::lowerAttention(ProgramBuilder &program, AttentionOp op) {
  if (op.getSink())
    return op.emitOpError("expects no sink here: autopar-split-attention-sinks comes before");
  Call call(program, op);
  for (Value value : {op.getQuery(), op.getKey(), op.getValue()})
    if (failed(call.read(value)))
      return failure();
  if (failed(call.readBias(op.getBias(), scoresOf(op.getQuery(), op.getKey()))) ||
      failed(call.readShard(op.getShard(), op.getPartsAttr())))
    return failure();
  call.write(op.getOutput());
  call.writeRows(op.getLogSum());
  return call.emit(op.getScaleAttr(), op.getCausal(), op.getWindow(),
                   op.getFlops(typesOf(op->getOperands()), typesOf(op->getResults())));
}

LogicalResult mlir::autopar::lowerAttentionGrad(ProgramBuilder &program, AttentionGradOp op) {
  Call call(program, op);
  for (Value value : {op.getQuery(), op.getKey(), op.getValue(), op.getOutput()})
    if (failed(call.read(value)))
      return failure();
  if (failed(call.readRows(op.getLogSum())) || failed(call.read(op.getGradient())) ||
      failed(call.readBias(op.getBias(), scoresOf(op.getQuery(), op.getKey()))) ||
      failed(call.readShard(op.getShard(), op.getPartsAttr())))
    return failure();
  call.writeAll();
  return call.emit(op.getScaleAttr(), op.getCausal(), op.getWindow(),
                   op.getFlops(typesOf(op->getOperands()), typesOf(op->getResults())));
}
