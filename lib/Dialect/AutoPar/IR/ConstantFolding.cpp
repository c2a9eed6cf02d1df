// SPDX-License-Identifier: Apache-2.0
// Compile-time evaluation of operations on known operands: data movement and reductions here,
// scalar meaning in ConstantArithmetic.cpp. Operations missing here are simply left to run time.
#include "autopar/Dialect/AutoPar/IR/ConstantFolding.h"

#include "ConstantTable.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/TensorLayout.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::autopar;

namespace {
using Tables = ArrayRef<ConstantTable>;
using Result = std::optional<ConstantTable>;

//===-- data movement ------------------------------------------------------------------------===//

/// result[i] = input[offset + sum i_d * strides_d].
ConstantTable strided(const ConstantTable &input, RankedTensorType type, int64_t offset,
                      ArrayRef<int64_t> strides) {
  if (input.splat) {
    ConstantTable result = input;
    result.type = type;
    return result;
  }
  ConstantTable result = ConstantTable::make(type, type.getNumElements());
  SmallVector<int64_t> index(type.getRank(), 0);
  for (size_t i = 0; i < result.size(); ++i) {
    int64_t from = offset;
    for (auto [position, stride] : llvm::zip(index, strides))
      from += position * stride;
    result.copyElement(i, input, from);
    nextIndex(index, type.getShape());
  }
  return result;
}

Result evaluate(BroadcastOp op, Tables operands) {
  RankedTensorType input = op.getInput().getType();
  SmallVector<int64_t> strides(op.getType().getRank(), 0), from = denseStrides(input.getShape());
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    strides[dim] = input.getDimSize(i) == 1 ? 0 : from[i];
  return strided(operands[0], op.getType(), 0, strides);
}

Result evaluate(TransposeOp op, Tables operands) {
  SmallVector<int64_t> strides, from = denseStrides(op.getInput().getType().getShape());
  for (int64_t dim : op.getPermutation())
    strides.push_back(from[dim]);
  return strided(operands[0], op.getType(), 0, strides);
}

Result evaluate(SliceOp op, Tables operands) {
  SmallVector<int64_t> strides, from = denseStrides(op.getInput().getType().getShape());
  int64_t offset = 0;
  for (int64_t dim = 0; dim < op.getType().getRank(); ++dim) {
    offset += op.getStarts()[dim] * from[dim];
    strides.push_back(op.getSteps()[dim] * from[dim]);
  }
  return strided(operands[0], op.getType(), offset, strides);
}

Result evaluate(ReshapeOp op, Tables operands) {
  ConstantTable result = operands[0];
  result.type = op.getType();
  return result;
}

/// Writes `input` as a block of `result` that starts at `low`.
void placeBlock(ConstantTable &result, const ConstantTable &input, ArrayRef<int64_t> low) {
  if (input.type.getNumElements() == 0)
    return;
  SmallVector<int64_t> index(input.type.getRank(), 0),
      strides = denseStrides(result.type.getShape());
  size_t i = 0;
  do {
    int64_t to = 0;
    for (auto [position, start, stride] : llvm::zip(index, low, strides))
      to += (position + start) * stride;
    result.copyElement(to, input, i++);
  } while (nextIndex(index, input.type.getShape()));
}

Result evaluate(PadOp op, Tables operands) {
  ConstantTable result = ConstantTable::make(op.getType(), op.getType().getNumElements());
  for (size_t i = 0; i < result.size(); ++i)
    result.copyElement(i, operands[1], 0);
  placeBlock(result, operands[0], op.getLow());
  return result;
}

Result evaluate(ConcatOp op, Tables operands) {
  ConstantTable result = ConstantTable::make(op.getType(), op.getType().getNumElements());
  SmallVector<int64_t> low(op.getType().getRank(), 0);
  for (const ConstantTable &operand : operands) {
    placeBlock(result, operand, low);
    low[op.getDim()] += operand.type.getDimSize(op.getDim());
  }
  return result;
}

/// A position that counts from the end if negative, clamped to the extent.
int64_t clampPosition(int64_t position, int64_t extent) {
  if (position < 0)
    position += extent;
  return std::clamp<int64_t>(position, 0, std::max<int64_t>(extent - 1, 0));
}

Result evaluate(GatherOp op, Tables operands) {
  const ConstantTable &input = operands[0], &indices = operands[1];
  int64_t first = op.getDims().front(), count = op.getDims().size(), batch = op.getBatchDims();
  SmallVector<int64_t> inStrides = denseStrides(input.type.getShape()),
                       indexStrides = denseStrides(indices.type.getShape());
  int64_t selected = indices.type.getRank() - 1 - batch;
  ConstantTable result = ConstantTable::make(op.getType(), op.getType().getNumElements());
  if (result.size() && input.type.getNumElements() == 0)
    return std::nullopt;
  SmallVector<int64_t> index(op.getType().getRank(), 0);
  for (size_t i = 0; i < result.size(); ++i, nextIndex(index, op.getType().getShape())) {
    int64_t at = 0, from = 0;
    for (int64_t dim = 0; dim < batch; ++dim)
      at += index[dim] * indexStrides[dim];
    for (int64_t dim = 0; dim < first; ++dim)
      from += index[dim] * inStrides[dim];
    for (int64_t dim = 0; dim < selected; ++dim)
      at += index[first + dim] * indexStrides[batch + dim];
    for (int64_t k = 0; k < count; ++k)
      from += clampPosition(indices.integer(at + k), input.type.getDimSize(first + k)) *
              inStrides[first + k];
    for (int64_t dim = first + count; dim < input.type.getRank(); ++dim)
      from += index[first + selected + dim - first - count] * inStrides[dim];
    result.copyElement(i, input, from);
  }
  return result;
}

Result evaluate(GatherElementsOp op, Tables operands) {
  const ConstantTable &input = operands[0], &indices = operands[1];
  SmallVector<int64_t> strides = denseStrides(input.type.getShape()),
                       index(op.getType().getRank(), 0);
  ConstantTable result = ConstantTable::make(op.getType(), op.getType().getNumElements());
  if (result.size() && input.type.getNumElements() == 0)
    return std::nullopt;
  for (size_t i = 0; i < result.size(); ++i, nextIndex(index, op.getType().getShape())) {
    int64_t from = 0;
    for (int64_t dim = 0; dim < input.type.getRank(); ++dim)
      from += strides[dim] * (dim == static_cast<int64_t>(op.getDim())
                                  ? clampPosition(indices.integer(i), input.type.getDimSize(dim))
                                  : index[dim]);
    result.copyElement(i, input, from);
  }
  return result;
}

/// Copies of the input with every element written out.
ConstantTable expanded(const ConstantTable &input) {
  ConstantTable result = ConstantTable::make(input.type, input.type.getNumElements());
  for (size_t i = 0; i < result.size(); ++i)
    result.copyElement(i, input, i);
  return result;
}

Result evaluate(ScatterOp op, Tables operands) {
  if (op.getKind() != ScatterKind::Assign || op.getBatchDims() != 0)
    return std::nullopt;
  ConstantTable result = expanded(operands[0]);
  const ConstantTable &indices = operands[1], &updates = operands[2];
  int64_t depth = indices.type.getShape().back(),
          slice = llvm::product_of(result.type.getShape().drop_front(depth));
  SmallVector<int64_t> strides = denseStrides(result.type.getShape());
  int64_t rows = depth ? indices.type.getNumElements() / depth : 0;
  if (depth == 0 || result.size() == 0)
    return std::nullopt;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t to = 0;
    for (int64_t k = 0; k < depth; ++k)
      to += clampPosition(indices.integer(row * depth + k), result.type.getDimSize(k)) * strides[k];
    for (int64_t i = 0; i < slice; ++i)
      result.copyElement(to + i, updates, row * slice + i);
  }
  return result;
}

Result evaluate(IotaOp op, Tables) {
  ConstantTable result = ConstantTable::make(op.getType(), op.getType().getNumElements());
  SmallVector<int64_t> index(op.getType().getRank(), 0);
  for (size_t i = 0; i < result.size(); ++i, nextIndex(index, op.getType().getShape())) {
    if (result.isFloat())
      result.floats[i] = static_cast<double>(index[op.getDim()]);
    else
      result.integers[i] = wrapInteger(index[op.getDim()], op.getType().getElementType());
  }
  return result;
}

//===-- reductions ---------------------------------------------------------------------------===//

double combine(ReduceKind kind, double a, double b) {
  switch (kind) {
  case ReduceKind::Sum:
    return a + b;
  case ReduceKind::Prod:
    return a * b;
  case ReduceKind::Max:
    return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
  case ReduceKind::Min:
    return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
  default:
    return a;
  }
}

int64_t combine(ReduceKind kind, int64_t a, int64_t b, bool isUnsigned) {
  auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  bool less = isUnsigned ? ua < ub : a < b;
  switch (kind) {
  case ReduceKind::Sum:
    return static_cast<int64_t>(ua + ub);
  case ReduceKind::Prod:
    return static_cast<int64_t>(ua * ub);
  case ReduceKind::Max:
    return less ? b : a;
  case ReduceKind::Min:
    return less ? a : b;
  case ReduceKind::And:
    return a & b;
  case ReduceKind::Or:
    return a | b;
  }
  return a;
}

/// Strides into a result that lacks `dims`: zero along them.
SmallVector<int64_t> reducedStrides(RankedTensorType input, RankedTensorType result,
                                    ArrayRef<int64_t> dims) {
  SmallVector<int64_t> kept = denseStrides(result.getShape()), strides;
  size_t next = 0;
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    strides.push_back(llvm::is_contained(dims, dim) ? 0 : kept[next++]);
  return strides;
}

Result evaluate(ReduceOp op, Tables operands) {
  const ConstantTable &input = operands[0];
  RankedTensorType inType = op.getInput().getType(), type = op.getType();
  if (inType.getNumElements() == 0)
    return std::nullopt;
  ConstantTable result = ConstantTable::make(type, type.getNumElements());
  std::vector<bool> seen(result.size(), false);
  SmallVector<int64_t> strides = reducedStrides(inType, type, op.getDims()),
                       index(inType.getRank(), 0);
  for (int64_t i = 0; i < inType.getNumElements(); ++i, nextIndex(index, inType.getShape())) {
    int64_t to = 0;
    for (auto [position, stride] : llvm::zip(index, strides))
      to += position * stride;
    if (!seen[to])
      result.copyElement(to, input, i);
    else if (result.isFloat())
      result.floats[to] = combine(op.getKind(), result.floats[to], input.number(i));
    else
      result.integers[to] = wrapInteger(
          combine(op.getKind(), result.integers[to], input.integer(i), input.isUnsigned()),
          type.getElementType());
    seen[to] = true;
  }
  return result;
}

Result evaluate(ArgReduceOp op, Tables operands) {
  const ConstantTable &input = operands[0];
  RankedTensorType inType = op.getInput().getType(), type = op.getType();
  int64_t along = op.getDim();
  if (inType.getNumElements() == 0)
    return std::nullopt;
  ConstantTable result = ConstantTable::make(type, type.getNumElements());
  std::vector<int64_t> best(result.size(), -1);
  SmallVector<int64_t> strides = reducedStrides(inType, type, {along}), index(inType.getRank(), 0);
  for (int64_t i = 0; i < inType.getNumElements(); ++i, nextIndex(index, inType.getShape())) {
    int64_t to = 0;
    for (auto [position, stride] : llvm::zip(index, strides))
      to += position * stride;
    auto order = [&](auto a, auto b) { return a < b ? -1 : a > b ? 1 : 0; };
    int sign = best[to] < 0         ? 1
               : input.isFloat()    ? order(input.number(i), input.number(best[to]))
               : input.isUnsigned() ? order(static_cast<uint64_t>(input.integer(i)),
                                            static_cast<uint64_t>(input.integer(best[to])))
                                    : order(input.integer(i), input.integer(best[to]));
    if (best[to] >= 0 && op.getKind() == ReduceKind::Min)
      sign = -sign;
    if (sign > 0 || (sign == 0 && op.getSelectLast())) {
      best[to] = i;
      result.integers[to] = index[along];
    }
  }
  return result;
}

Result evaluate(CumulativeOp op, Tables operands) {
  if (op.getExclusive())
    return std::nullopt;
  RankedTensorType type = op.getType();
  ConstantTable result = expanded(operands[0]);
  SmallVector<int64_t> strides = denseStrides(type.getShape());
  int64_t stride = strides[op.getDim()], extent = type.getDimSize(op.getDim());
  for (int64_t step = 0, count = type.getNumElements(); step < count; ++step) {
    int64_t i = op.getReverse() ? count - 1 - step : step, position = i / stride % extent;
    if (position == (op.getReverse() ? extent - 1 : 0))
      continue;
    int64_t before = op.getReverse() ? i + stride : i - stride;
    if (result.isFloat())
      result.floats[i] = combine(op.getKind(), result.floats[before], result.floats[i]);
    else
      result.integers[i] = wrapInteger(
          combine(op.getKind(), result.integers[before], result.integers[i], result.isUnsigned()),
          type.getElementType());
  }
  return result;
}

/// The elements that evaluation has to hold at once, against what folding may cost.
bool withinLimits(Operation *op, ArrayRef<DenseElementsAttr> operands,
                  const FoldingLimits &limits) {
  int64_t given = 0;
  bool splats = true;
  for (DenseElementsAttr operand : operands) {
    given += operand.isSplat() ? 1 : operand.getNumElements();
    splats &= operand.isSplat();
  }
  for (Type result : op->getResultTypes()) {
    auto type = cast<RankedTensorType>(result);
    int64_t limit = isa<FloatType>(type.getElementType()) ? limits.floats : limits.integers;
    bool stays = splats && !operands.empty() &&
                 (op->hasTrait<OpTrait::Elementwise>() || isa<ViewOpInterface>(op));
    int64_t count = stays ? 1 : type.getNumElements();
    // A repeated scalar is cheaper to repeat than to store.
    if (splats && isa<BroadcastOp>(op) && count > limits.splats)
      return false;
    if (count > limits.always && (count > limit || count > given))
      return false;
  }
  return true;
}

Result dispatch(Operation *op, Tables operands) {
  if (op->hasTrait<OpTrait::Elementwise>()) {
    bool splat = llvm::all_of(operands, [](const ConstantTable &operand) { return operand.splat; });
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Result result = evaluateElementwise(op, operands, type, splat ? 1 : type.getNumElements());
    if (result)
      result->splat = splat;
    return result;
  }
  return llvm::TypeSwitch<Operation *, Result>(op)
      .Case<BroadcastOp, TransposeOp, SliceOp, ReshapeOp, PadOp, ConcatOp, GatherOp,
            GatherElementsOp, ScatterOp, IotaOp, ReduceOp, ArgReduceOp, CumulativeOp>(
          [&](auto concrete) -> Result { return evaluate(concrete, operands); })
      .Default([](Operation *) -> Result { return std::nullopt; });
}
} // namespace

std::optional<SmallVector<DenseElementsAttr>>
mlir::autopar::evaluateConstant(Operation *op, ArrayRef<DenseElementsAttr> operands,
                                const FoldingLimits &limits) {
  if (op->getNumResults() != 1 || !withinLimits(op, operands, limits))
    return std::nullopt;
  SmallVector<ConstantTable> tables;
  for (DenseElementsAttr operand : operands)
    tables.push_back(ConstantTable::decode(operand));
  Result result = dispatch(op, tables);
  if (!result)
    return std::nullopt;
  return SmallVector<DenseElementsAttr>{result->encode()};
}
