// SPDX-License-Identifier: Apache-2.0
// A concatenation of very many parts (the steps of a recurrence) is several kernels: each takes as
// many pointers as every GPU passes to one, and writes its stretch of the result.
#include "LibraryCall.h"

#include "autopar/Transforms/ManyParts.h"
#include "autopar/Transforms/Views.h"

using namespace mlir;
using namespace mlir::autopar;

/// The types of what `types` become by kMostParts each, along `dim`.
static SmallVector<RankedTensorType> stretchesOf(ArrayRef<RankedTensorType> types, size_t dim) {
  SmallVector<RankedTensorType> stretches;
  for (; !types.empty(); types = types.drop_front(std::min(types.size(), kMostParts))) {
    SmallVector<int64_t> shape(types.front().getShape());
    for (RankedTensorType part : types.drop_front().take_front(kMostParts - 1))
      shape[dim] += part.getDimSize(dim);
    stretches.push_back(types.front().clone(shape));
  }
  return stretches;
}

LogicalResult mlir::autopar::lowerConcat(ProgramBuilder &program, ConcatOp op) {
  RankedTensorType type = op.getType();
  size_t dim = op.getDim();
  SmallVector<Value> parts;
  SmallVector<RankedTensorType> types;
  for (Value part : op.getInputs()) {
    FailureOr<Value> buffer = program.rowMajorBuffer(part);
    if (failed(buffer))
      return failure();
    parts.push_back(*buffer);
    types.push_back(cast<RankedTensorType>(part.getType()));
  }
  auto join = [&](ArrayRef<RankedTensorType> types, ArrayRef<Value> from, RankedTensorType whole,
                  Value to) {
    auto build = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
      return {ConcatOp::create(builder, op.getLoc(), whole, inputs, dim)};
    };
    return program.launchGroup(op, types, from, {whole}, {to}, build);
  };

  SmallVector<RankedTensorType> stretches = stretchesOf(types, dim);
  // Where a stretch's elements lie side by side, and where a kernel may write them.
  bool liesTogether = llvm::product_of(type.getShape().take_front(dim)) == 1 &&
                      llvm::all_of(stretches, [](RankedTensorType stretch) {
                        return exec::tensorBytes(stretch) % kKernelAlignment == 0;
                      });
  Value result = program.createRowMajorResult(op.getResult());
  SmallVector<Value> buffers;
  int64_t offset = 0;
  for (auto [number, stretch] : llvm::enumerate(stretches)) {
    size_t first = number * kMostParts, count = std::min(parts.size() - first, kMostParts);
    Value buffer = liesTogether
                       ? program.viewFrom({result, {}}, offset, type.getElementType(), op).buffer
                       : program.createBuffer(getOpId(op) + ".stretch", stretch);
    if (failed(join(ArrayRef(types).slice(first, count), ArrayRef(parts).slice(first, count),
                    stretch, buffer)))
      return failure();
    offset += stretch.getNumElements();
    buffers.push_back(buffer);
  }
  return liesTogether ? success() : join(stretches, buffers, type, result);
}
