// SPDX-License-Identifier: Apache-2.0
// Grouped products become one library call: rows are read and written where they lie, as long as
// the elements of a row lie side by side; matrices and the rows' groups lie in order.
#include "LibraryCall.h"
#include "MadeMatrices.h"

#include "autopar/CpuMath/PackedSize.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

FailureOr<StridedView> readRows(ProgramBuilder &program, Value value) {
  StridedView view = program.viewOf(value);
  if (hasContiguousRows(typeOf(value), view.strides))
    return view;
  FailureOr<Value> ordered = program.rowMajorBuffer(value);
  if (failed(ordered))
    return failure();
  return StridedView{*ordered, denseStrides(typeOf(value).getShape())};
}

/// Emits the call on operands that lie ready. The right side is made where it is null.
template <typename Op>
LogicalResult emit(ProgramBuilder &program, Op op, Value lhs, Value rhs, Value group, Value result,
                   exec::GroupedProductGeometryAttr geometry, const MatrixKernel &maker = {}) {
  auto bytes = ::autopar::cpumath::scratchBytes(exec::toArtifact(geometry),
                                                static_cast<int32_t>(program.settings().threads));
  if (!bytes)
    return op.emitOpError() << "has no library call: " << bytes.status().message();
  Value scratch = program.createScratch(op, *bytes);
  auto call = exec::GroupedProductOp::create(program.step(), op.getLoc(), lhs, rhs, maker.inputs,
                                             group, result, scratch, geometry, {}, {}, {}, {});
  Builder builder(op.getContext());
  if (!rhs) {
    call.setMaker(maker.kernel.symbol());
    call.setExtent(maker.kernel.extent);
    call.setMatrixSteps(maker.matrixSteps);
    call.setColumnSteps(maker.columnSteps);
  }
  SmallVector<RankedTensorType> operands = llvm::map_to_vector(op->getOperands(), typeOf);
  program.describe(call, op, "grouped_product", op.getFlops(operands, {op.getType()}));
  // The view of a strided operand spans more than what is read, and not all matrices are.
  int64_t touched = exec::tensorBytes(op.getType());
  for (unsigned index = 0; index < operands.size(); ++index)
    if (rhs || index != 1) // the matrices
      touched += op.getTouchedBytes(index, operands, {op.getType()});
  for (Value input : maker.inputs)
    touched += exec::tensorBytes(exec::tensorTypeOf(input));
  call->setAttr("bytes", builder.getI64IntegerAttr(touched));
  return success();
}

} // namespace

LogicalResult mlir::autopar::lowerGroupedProduct(ProgramBuilder &program, GroupedDotOp op) {
  FailureOr<StridedView> lhs = readRows(program, op.getLhs());
  FailureOr<std::optional<MatrixKernel>> maker = makerOf(program, op);
  if (failed(lhs) || failed(maker))
    return failure();
  FailureOr<Value> matrices = *maker ? Value() : program.rowMajorBuffer(op.getRhs()),
                   group = program.rowMajorBuffer(op.getGroup());
  if (failed(matrices) || failed(group))
    return failure();
  StridedView rows = program.createResult(op.getResult(), [&](ArrayRef<int64_t> strides) {
    return hasContiguousRows(op.getType(), strides);
  });
  auto geometry = exec::GroupedProductGeometryAttr::get(
      op.getContext(), ofContiguousRows(op.getLhs().getType(), *lhs),
      ofContiguousRows(op.getType(), rows), op.getRhs().getType(),
      op.getGroup().getType().getElementType(), op.getTransposed(),
      /*gradient=*/false, *maker ? (*maker)->columns : 0);
  return emit(program, op, lhs->buffer, *matrices, *group, rows.buffer, geometry,
              maker->value_or(MatrixKernel()));
}

LogicalResult mlir::autopar::lowerGroupedProductGradient(ProgramBuilder &program,
                                                         GroupedDotRhsGradOp op) {
  FailureOr<StridedView> lhs = readRows(program, op.getLhs()),
                         rows = readRows(program, op.getGradient());
  FailureOr<Value> group = program.rowMajorBuffer(op.getGroup());
  if (failed(lhs) || failed(rows) || failed(group))
    return failure();
  Value matrices = program.createRowMajorResult(op.getResult());
  auto geometry = exec::GroupedProductGeometryAttr::get(
      op.getContext(), ofContiguousRows(op.getLhs().getType(), *lhs),
      ofContiguousRows(op.getGradient().getType(), *rows), op.getType(),
      op.getGroup().getType().getElementType(), /*transposed=*/false,
      /*gradient=*/true, /*madeColumns=*/0);
  return emit(program, op, lhs->buffer, rows->buffer, *group, matrices, geometry);
}
