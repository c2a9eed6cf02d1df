// SPDX-License-Identifier: Apache-2.0
// Operations that move elements to positions which the operation tells: shapes, sharding rules,
// folds, strides of views.
#include "SameElementType.h"

#include <numeric>

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t absent = ShardingRule::absent;

//===-- broadcast ----------------------------------------------------------------------------===//

LogicalResult BroadcastOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (failed(sameElementType(*this, input, result)))
    return failure();
  if (static_cast<int64_t>(getDims().size()) != input.getRank())
    return emitOpError() << "expects one entry in dims per operand dimension, got "
                         << getDims().size();
  for (auto [i, dim] : llvm::enumerate(getDims())) {
    if (dim < 0 || dim >= result.getRank() || (i && getDims()[i - 1] >= dim))
      return emitOpError("expects ascending dims within the result");
    if (input.getDimSize(i) != 1 && input.getDimSize(i) != result.getDimSize(dim))
      return emitOpError() << "operand dimension " << i << " of extent " << input.getDimSize(i)
                           << " does not fit result extent " << result.getDimSize(dim);
  }
  return success();
}

ShardingRule BroadcastOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType input = getInput().getType(), result = getType();
  SmallVector<int64_t> source(result.getRank(), absent);
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (input.getDimSize(i) == result.getDimSize(dim))
      source[dim] = i;
  for (int64_t dim = 0; dim < result.getRank(); ++dim)
    rule.addFactor({source[dim]}, {dim}, result.getDimSize(dim));
  rule.complete(*this);
  return rule;
}

//===-- reshape ------------------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  if (getInput().getType().getNumElements() != getType().getNumElements())
    return emitOpError() << "expects as many elements, got " << getInput().getType() << " and "
                         << getType();
  return sameElementType(*this, getInput().getType(), getType());
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto producer = getInput().getDefiningOp<ReshapeOp>()) {
    setOperand(producer.getInput());
    return getResult();
  }
  return {};
}

std::optional<ViewLayout> ReshapeOp::getLayout(ArrayRef<int64_t> operandStrides) {
  std::optional<SmallVector<int64_t>> strides =
      reshapedStrides(getInput().getType().getShape(), operandStrides, getType().getShape());
  return strides ? std::optional<ViewLayout>({*strides}) : std::nullopt;
}

std::optional<SmallVector<int64_t>> ReshapeOp::getOperandStrides(ArrayRef<int64_t> resultStrides) {
  return reshapedStrides(getType().getShape(), resultStrides, getInput().getType().getShape());
}

/// Common factors of both shapes, major to minor, by greatest common divisors; where the shapes do
/// not divide, the dimensions involved need replication.
ShardingRule ReshapeOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  ArrayRef<int64_t> in = getInput().getType().getShape(), out = getType().getShape();
  if (getType().getNumElements() == 0) {
    rule.complete(*this);
    return rule;
  }
  size_t i = 0, o = 0;
  int64_t inRest = in.empty() ? 1 : in[0], outRest = out.empty() ? 1 : out[0];
  auto needWhole = [&]() {
    int64_t inProduct = inRest, outProduct = outRest;
    rule.addFactor({static_cast<int64_t>(i)}, {absent}, inRest, FactorKind::NeedsReplication);
    rule.addFactor({absent}, {static_cast<int64_t>(o)}, outRest, FactorKind::NeedsReplication);
    while (inProduct != outProduct) {
      if (inProduct < outProduct) {
        inProduct *= in[++i];
        rule.addFactor({static_cast<int64_t>(i)}, {absent}, in[i], FactorKind::NeedsReplication);
      } else {
        outProduct *= out[++o];
        rule.addFactor({absent}, {static_cast<int64_t>(o)}, out[o], FactorKind::NeedsReplication);
      }
    }
    inRest = outRest = 1;
  };
  while (i < in.size() && o < out.size()) {
    if (inRest == 1) {
      if (++i < in.size())
        inRest = in[i];
    } else if (outRest == 1) {
      if (++o < out.size())
        outRest = out[o];
    } else if (int64_t common = std::gcd(inRest, outRest); common == 1) {
      needWhole();
    } else {
      rule.addFactor({static_cast<int64_t>(i)}, {static_cast<int64_t>(o)}, common);
      inRest /= common;
      outRest /= common;
    }
  }
  rule.complete(*this);
  return rule;
}

//===-- transpose ----------------------------------------------------------------------------===//

void TransposeOp::build(OpBuilder &builder, OperationState &state, Value input,
                        ArrayRef<int64_t> permutation) {
  auto type = cast<RankedTensorType>(input.getType());
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(type.getDimSize(dim));
  build(builder, state, RankedTensorType::get(shape, type.getElementType()), input, permutation);
}

LogicalResult TransposeOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (failed(sameElementType(*this, input, result)))
    return failure();
  SmallVector<int64_t> sorted(getPermutation());
  llvm::sort(sorted);
  if (sorted != llvm::to_vector(llvm::seq<int64_t>(0, input.getRank())))
    return emitOpError() << "expects a permutation of " << input.getRank() << " dimensions";
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    if (result.getRank() != input.getRank() || result.getDimSize(i) != input.getDimSize(dim))
      return emitOpError() << "result " << result << " does not fit";
  return success();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getType().getRank())))
    return getInput();
  return {};
}

std::optional<ViewLayout> TransposeOp::getLayout(ArrayRef<int64_t> operandStrides) {
  ViewLayout layout;
  for (int64_t from : getPermutation())
    layout.strides.push_back(operandStrides[from]);
  return layout;
}

std::optional<SmallVector<int64_t>>
TransposeOp::getOperandStrides(ArrayRef<int64_t> resultStrides) {
  SmallVector<int64_t> strides(resultStrides.size());
  for (auto [stride, from] : llvm::zip(resultStrides, getPermutation()))
    strides[from] = stride;
  return strides;
}

ShardingRule TransposeOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    rule.addFactor({dim}, {static_cast<int64_t>(i)}, getType().getDimSize(i));
  return rule;
}

//===-- slice, pad, concat, dynamic_slice ----------------------------------------------------===//

LogicalResult SliceOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (failed(sameElementType(*this, input, result)))
    return failure();
  if (result.getRank() != input.getRank() ||
      static_cast<int64_t>(getStarts().size()) != input.getRank() ||
      static_cast<int64_t>(getSteps().size()) != input.getRank())
    return emitOpError() << "expects one start and step per dimension";
  for (int64_t dim = 0; dim < input.getRank(); ++dim) {
    int64_t first = getStarts()[dim], step = getSteps()[dim], extent = result.getDimSize(dim);
    int64_t last = first + (extent - 1) * step;
    if (step == 0)
      return emitOpError("expects steps other than zero");
    if (extent > 0 && (std::min(first, last) < 0 || std::max(first, last) >= input.getDimSize(dim)))
      return emitOpError() << "positions " << first << " to " << last << " leave dimension " << dim
                           << " of extent " << input.getDimSize(dim);
  }
  return success();
}

static bool isWholeDim(SliceOp op, int64_t dim) {
  return op.getStarts()[dim] == 0 && op.getSteps()[dim] == 1 &&
         op.getType().getDimSize(dim) == op.getInput().getType().getDimSize(dim);
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    if (!isWholeDim(*this, dim))
      return {};
  return getInput();
}

bool SliceOp::hasAllElements() { return false; }

std::optional<ViewLayout> SliceOp::getLayout(ArrayRef<int64_t> operandStrides) {
  ViewLayout layout;
  for (auto [start, step, stride] : llvm::zip(getStarts(), getSteps(), operandStrides)) {
    layout.offset += start * stride;
    layout.strides.push_back(step * stride);
  }
  return layout;
}

ShardingRule SliceOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    if (isWholeDim(*this, dim))
      rule.addFactor({dim}, {dim}, getType().getDimSize(dim));
  rule.complete(*this);
  return rule;
}

LogicalResult PadOp::verify() {
  RankedTensorType input = getInput().getType(), result = getType();
  if (failed(sameElementType(*this, input, result)) ||
      failed(sameElementType(*this, input, getValue().getType())))
    return failure();
  if (getValue().getType().getRank() != 0)
    return emitOpError("expects a scalar pad value");
  if (result.getRank() != input.getRank() ||
      static_cast<int64_t>(getLow().size()) != input.getRank())
    return emitOpError("expects one entry in low per dimension");
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (getLow()[dim] < 0 || getLow()[dim] + input.getDimSize(dim) > result.getDimSize(dim))
      return emitOpError() << "input does not fit into dimension " << dim << " of the result";
  return success();
}

ShardingRule PadOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    if (getType().getDimSize(dim) == getInput().getType().getDimSize(dim))
      rule.addFactor({dim, absent}, {dim}, getType().getDimSize(dim));
  rule.complete(*this);
  return rule;
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("expects at least one operand");
  RankedTensorType result = getType();
  int64_t dim = getDim(), extent = 0;
  if (dim < 0 || dim >= result.getRank())
    return emitOpError() << "dimension " << dim << " is out of range for " << result;
  for (Value input : getInputs()) {
    auto type = cast<RankedTensorType>(input.getType());
    if (failed(sameElementType(*this, type, result)))
      return failure();
    if (type.getRank() != result.getRank())
      return emitOpError("expects operands and result of one rank");
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (i != dim && type.getDimSize(i) != result.getDimSize(i))
        return emitOpError() << "operand " << type << " does not fit result " << result;
    extent += type.getDimSize(dim);
  }
  if (extent != result.getDimSize(dim))
    return emitOpError() << "expects extent " << extent << " along dimension " << dim << ", got "
                         << result;
  return success();
}

ShardingRule ConcatOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  for (int64_t dim = 0; dim < getType().getRank(); ++dim)
    if (dim != static_cast<int64_t>(getDim()))
      rule.addFactor(SmallVector<int64_t>(getInputs().size(), dim), {dim},
                     getType().getDimSize(dim));
  rule.complete(*this);
  return rule;
}

LogicalResult DynamicSliceOp::verify() {
  RankedTensorType input = getInput().getType();
  if (failed(sameElementType(*this, input, getType())))
    return failure();
  if (static_cast<int64_t>(getStarts().size()) != input.getRank() ||
      getType().getRank() != input.getRank())
    return emitOpError("expects one start per dimension");
  for (Value start : getStarts())
    if (cast<RankedTensorType>(start.getType()) !=
        RankedTensorType::get({}, IntegerType::get(getContext(), 64)))
      return emitOpError("expects starts to be i64 scalars");
  return success();
}
ShardingRule DynamicSliceOp::getShardingRule() { return ShardingRule::replicated(*this); }

int64_t DynamicSliceOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                        ArrayRef<RankedTensorType> results) {
  int64_t bytes = tensorBytes(operands[index]);
  return index == 0 ? std::min(bytes, tensorBytes(results[0])) : bytes;
}
