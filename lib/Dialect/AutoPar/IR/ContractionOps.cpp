// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions: shapes, sharding rules, FLOPs.
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- dot_general --------------------------------------------------------------------------===//

static SmallVector<int64_t> remainingDims(int64_t rank, ArrayRef<int64_t> batch,
                                          ArrayRef<int64_t> contract) {
  SmallVector<int64_t> free;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!llvm::is_contained(batch, dim) && !llvm::is_contained(contract, dim))
      free.push_back(dim);
  return free;
}

SmallVector<int64_t> DotGeneralOp::getLhsFree() {
  return remainingDims(getLhs().getType().getRank(), getLhsBatch(), getLhsContract());
}
SmallVector<int64_t> DotGeneralOp::getRhsFree() {
  return remainingDims(getRhs().getType().getRank(), getRhsBatch(), getRhsContract());
}

void DotGeneralOp::build(OpBuilder &builder, OperationState &state, Value lhs, Value rhs,
                         ArrayRef<int64_t> lhsBatch, ArrayRef<int64_t> rhsBatch,
                         ArrayRef<int64_t> lhsContract, ArrayRef<int64_t> rhsContract) {
  auto lhsType = cast<RankedTensorType>(lhs.getType()),
       rhsType = cast<RankedTensorType>(rhs.getType());
  SmallVector<int64_t> shape;
  for (int64_t dim : lhsBatch)
    shape.push_back(lhsType.getDimSize(dim));
  for (int64_t dim : remainingDims(lhsType.getRank(), lhsBatch, lhsContract))
    shape.push_back(lhsType.getDimSize(dim));
  for (int64_t dim : remainingDims(rhsType.getRank(), rhsBatch, rhsContract))
    shape.push_back(rhsType.getDimSize(dim));
  build(builder, state, RankedTensorType::get(shape, lhsType.getElementType()), lhs, rhs, lhsBatch,
        rhsBatch, lhsContract, rhsContract);
}

LogicalResult DotGeneralOp::verify() {
  RankedTensorType lhs = getLhs().getType(), rhs = getRhs().getType();
  auto matchDims = [&](StringRef what, ArrayRef<int64_t> lhsDims,
                       ArrayRef<int64_t> rhsDims) -> LogicalResult {
    if (lhsDims.size() != rhsDims.size())
      return emitOpError() << "expects as many " << what << " dimensions on both sides, got "
                           << lhsDims.size() << " and " << rhsDims.size();
    for (auto [l, r] : llvm::zip(lhsDims, rhsDims)) {
      if (l < 0 || l >= lhs.getRank() || r < 0 || r >= rhs.getRank())
        return emitOpError() << what << " dimensions " << l << " x " << r << " are out of range";
      if (lhs.getDimSize(l) != rhs.getDimSize(r))
        return emitOpError() << what << " dimensions differ: " << lhs.getDimSize(l) << " and "
                             << rhs.getDimSize(r);
    }
    return success();
  };
  if (failed(matchDims("batch", getLhsBatch(), getRhsBatch())) ||
      failed(matchDims("contracted", getLhsContract(), getRhsContract())))
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t dim : getLhsBatch())
    shape.push_back(lhs.getDimSize(dim));
  for (int64_t dim : getLhsFree())
    shape.push_back(lhs.getDimSize(dim));
  for (int64_t dim : getRhsFree())
    shape.push_back(rhs.getDimSize(dim));
  if (getType().getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "expects result shape [" << shape << "], got " << getType();
  auto isFloat = [](Value value) {
    return isa<FloatType>(cast<RankedTensorType>(value.getType()).getElementType());
  };
  if (getScaledTo() && (!isa<Float8E4M3FNType>(*getScaledTo()) ||
                        !llvm::all_of(getOperands(), isFloat) || !isFloat(getResult())))
    return emitOpError() << "expects floats that are scaled to f8E4M3FN, got " << lhs << " and "
                         << rhs << " scaled to " << *getScaledTo();
  if (std::optional<int64_t> block = getByteBlocks())
    if (!isFloat(getLhs()) || *block < 1 || getLhsContract().size() != 1 ||
        lhs.getDimSize(getLhsContract().front()) % *block)
      return emitOpError() << "expects floats in whole blocks of " << *block
                           << " along one contracted dimension, got " << lhs;
  return success();
}

ShardingRule DotGeneralOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  int64_t result = 0;
  for (auto [l, r] : llvm::zip(getLhsBatch(), getRhsBatch()))
    rule.addFactor({l, r}, {result++}, getLhs().getType().getDimSize(l));
  for (int64_t l : getLhsFree())
    rule.addFactor({l, ShardingRule::absent}, {result++}, getLhs().getType().getDimSize(l));
  for (int64_t r : getRhsFree())
    rule.addFactor({ShardingRule::absent, r}, {result++}, getRhs().getType().getDimSize(r));
  for (auto [l, r] : llvm::zip(getLhsContract(), getRhsContract())) {
    int64_t extent = getLhs().getType().getDimSize(l), block = getByteBlocks().value_or(1);
    int64_t factor =
        rule.addFactor({l, r}, {ShardingRule::absent}, extent / block, FactorKind::Reduction);
    if (block == 1)
      continue;
    // Devices have whole blocks.
    rule.factors[factor].mayBeUneven = false;
    rule.addFactor({l, r}, {ShardingRule::absent}, block, FactorKind::NeedsReplication);
  }
  return rule;
}

double DotGeneralOp::getFlops(ArrayRef<RankedTensorType> operands,
                              ArrayRef<RankedTensorType> results) {
  double flops = 2.0 * results[0].getNumElements();
  for (int64_t dim : getLhsContract())
    flops *= operands[0].getDimSize(dim);
  return flops;
}

Type DotGeneralOp::getFlopsType(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return getScaledTo().value_or(operands[0].getElementType());
}

/// Of an operand as it is multiplied.
static int64_t multipliedBytes(DotGeneralOp op, RankedTensorType operand) {
  return tensorBytes(
      operand.clone(operand.getShape(), op.getScaledTo().value_or(operand.getElementType())));
}

int64_t DotGeneralOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                      ArrayRef<RankedTensorType>) {
  return multipliedBytes(*this, operands[index]);
}

/// Weights are laid in rows and rounded once a step, however many micro-batches it has: that is not
/// counted.
int64_t DotGeneralOp::getBytesAhead(ArrayRef<RankedTensorType> operands) {
  if (!getScaledTo())
    return 0;
  int64_t bytes = 0;
  ArrayRef<int64_t> contracted[] = {getLhsContract(), getRhsContract()};
  for (auto [number, type] : llvm::enumerate(operands)) {
    if (parameterIn(getOperand(number)))
      continue;
    // Read and rounded; what lies across is laid in rows before.
    bool isInRows = llvm::is_contained(contracted[number], type.getRank() - 1);
    bytes += tensorBytes(type) * (isInRows ? 1 : 3) + multipliedBytes(*this, type);
  }
  return bytes;
}

//===-- block_dot ----------------------------------------------------------------------------===//

bool BlockDotOp::isPossible(int64_t columns, int64_t blocks, int64_t bytes, int64_t parts) {
  constexpr int64_t terms = 4; // of a dot product of bytes
  return columns > 0 && columns % columnLanes == 0 && blocks > 0 && llvm::isPowerOf2_64(bytes) &&
         bytes >= terms && bytes * parts <= longestBlock && blocks * bytes % readBytes == 0;
}

LogicalResult BlockDotOp::verify() {
  RankedTensorType lhs = getBytes().getType(), rhs = getWeights().getType();
  auto isByte = [](RankedTensorType type, bool isSigned) {
    Type element = type.getElementType();
    return isSigned ? element.isSignlessInteger(8) : element.isUnsignedInteger(8);
  };
  if (!isByte(lhs, true) || lhs.getRank() != 4 || !isByte(rhs, false) || rhs.getRank() != 3)
    return emitOpError() << "expects i8 [rows, parts, blocks, bytes] and ui8 [columns, blocks, "
                            "bytes], got "
                         << lhs << " and " << rhs;
  int64_t rows = lhs.getDimSize(0), parts = lhs.getDimSize(1), columns = rhs.getDimSize(0),
          blocks = rhs.getDimSize(1), bytes = rhs.getDimSize(2);
  if (lhs.getShape().drop_front(2) != rhs.getShape().drop_front())
    return emitOpError() << "expects blocks of as many bytes on both sides, got " << lhs << " and "
                         << rhs;
  if (parts != 1 && parts != 2 && parts != 4)
    return emitOpError() << "expects 1, 2 or 4 numbers in each byte of the weights, got " << parts;
  if (!isPossible(columns, blocks, bytes, parts))
    return emitOpError() << "expects columns in " << columnLanes << "s, of " << readBytes
                         << "s of bytes, in blocks of a power of two up to " << longestBlock
                         << " numbers, got " << rhs;
  auto expect = [&](StringRef name, Value value, ArrayRef<int64_t> shape) -> LogicalResult {
    auto type = cast<RankedTensorType>(value.getType());
    if (type.getElementType().isF32() && type.getShape() == shape)
      return success();
    return emitOpError() << "expects " << name << " of f32 [" << shape << "], got " << type;
  };
  if (failed(expect("scales of rows", getRowScales(), {rows, blocks})) ||
      failed(
          expect("scales of weights", getScales(), {columns / columnLanes, blocks, columnLanes})) ||
      failed(expect("a result", getResult(), {rows, columns})))
    return failure();
  if (!getZeros())
    return success();
  RankedTensorType zeros = getZeros().getType();
  bool isNumber = zeros.getElementType().isF32() || isByte(zeros, false);
  int64_t each[] = {columns / columnLanes, blocks, columnLanes},
          packed[] = {each[0], (blocks + parts - 1) / parts, columnLanes};
  bool isPacked = isByte(zeros, false) && zeros.getShape() == ArrayRef<int64_t>(packed);
  if (!isNumber ||
      (zeros.getRank() != 0 && !isPacked && zeros.getShape() != ArrayRef<int64_t>(each)))
    return emitOpError() << "expects zero points of f32 or ui8, one or [" << ArrayRef<int64_t>(each)
                         << "], or " << parts << " in a byte, got " << zeros;
  return expect("sums of rows", getSums(), {rows, blocks});
}

double BlockDotOp::getFlops(ArrayRef<RankedTensorType> operands,
                            ArrayRef<RankedTensorType> results) {
  ArrayRef<int64_t> lhs = operands[0].getShape();
  return 2.0 * results[0].getNumElements() * llvm::product_of(lhs.drop_front());
}

//===-- convolution --------------------------------------------------------------------------===//

static int64_t dilated(int64_t extent, int64_t dilation) {
  return extent == 0 ? 0 : (extent - 1) * dilation + 1;
}

/// Of a convolution or one of its gradients: what it reads, filters and yields.
struct ConvolutionTypes {
  RankedTensorType input, filter, result;
};

template <typename Op>
static LogicalResult verifyConvolution(Op op, const ConvolutionTypes &types) {
  auto [input, filter, result] = types;
  int64_t spatial = input.getRank() - 2;
  if (spatial < 1 || filter.getRank() != input.getRank() || result.getRank() != input.getRank())
    return op.emitOpError("expects input, filter and result of one rank of at least 3");
  for (ArrayRef<int64_t> list : {op.getStrides(), op.getPadBegin(), op.getPadEnd(),
                                 op.getInputDilation(), op.getFilterDilation()})
    if (static_cast<int64_t>(list.size()) != spatial)
      return op.emitOpError() << "expects " << spatial << " entries per spatial attribute, got "
                              << list.size();
  int64_t groups = op.getGroups();
  if (groups < 1 || input.getDimSize(1) != filter.getDimSize(1) * groups ||
      filter.getDimSize(0) % groups)
    return op.emitOpError() << "channels do not fit: input " << input.getDimSize(1) << ", filter "
                            << filter.getDimSize(1) << " x " << groups << " groups, "
                            << filter.getDimSize(0) << " out channels";
  if (result.getDimSize(0) != input.getDimSize(0) || result.getDimSize(1) != filter.getDimSize(0))
    return op.emitOpError("batch or out channels of the result do not fit");
  for (int64_t i = 0; i < spatial; ++i) {
    if (op.getStrides()[i] < 1 || op.getInputDilation()[i] < 1 || op.getFilterDilation()[i] < 1)
      return op.emitOpError("expects positive strides and dilations");
    int64_t padded = dilated(input.getDimSize(i + 2), op.getInputDilation()[i]) +
                     op.getPadBegin()[i] + op.getPadEnd()[i];
    int64_t window = dilated(filter.getDimSize(i + 2), op.getFilterDilation()[i]);
    int64_t expected = padded < window ? 0 : (padded - window) / op.getStrides()[i] + 1;
    if (result.getDimSize(i + 2) != expected)
      return op.emitOpError() << "spatial dimension " << i << " of the result should be "
                              << expected << ", got " << result.getDimSize(i + 2);
  }
  return success();
}

/// Where an operation has the dimensions of a factor: of its two operands, of its result.
struct FactorPlaces {
  int64_t first = ShardingRule::absent, second = ShardingRule::absent,
          result = ShardingRule::absent;
};

/// The factors of samples, groups, out channels and channels. A channel of some group is of no use
/// to another: only whole groups are distributed.
static ShardingRule channelFactors(Operation *op, int64_t samples, int64_t groups,
                                   RankedTensorType filter, FactorPlaces sample, FactorPlaces group,
                                   FactorPlaces out, FactorPlaces channel) {
  ShardingRule rule = ShardingRule::emptyFor(op);
  auto add = [&](FactorPlaces at, int64_t extent, bool isWithinGroup) {
    FactorKind kind = groups > 1 && isWithinGroup         ? FactorKind::NeedsReplication
                      : at.result == ShardingRule::absent ? FactorKind::Reduction
                                                          : FactorKind::PassThrough;
    rule.addFactor({at.first, at.second}, {at.result}, extent, kind);
  };
  add(sample, samples, false);
  if (groups > 1)
    add(group, groups, false);
  add(out, filter.getDimSize(0) / groups, true);
  add(channel, filter.getDimSize(1), true);
  rule.complete(op);
  return rule;
}

template <typename Op>
static FailureOr<SmallVector<Value>> partitionConvolution(Op op, OpBuilder &builder,
                                                          ValueRange localOperands,
                                                          PartitionContext &context) {
  SmallVector<Value> results = context.cloneLocal(op, builder, localOperands);
  if (op.getGroups() > 1)
    cast<Op>(results[0].getDefiningOp()).setGroups(op.getGroups() / context.shardCount(1));
  return results;
}

static double convolutionFlops(RankedTensorType output, RankedTensorType filter) {
  return 2.0 * output.getNumElements() * filter.getNumElements() /
         std::max<int64_t>(filter.getDimSize(0), 1);
}

LogicalResult ConvolutionOp::verify() {
  return verifyConvolution(*this, {getInput().getType(), getFilter().getType(), getType()});
}
LogicalResult ConvolutionInputGradOp::verify() {
  return verifyConvolution(*this, {getType(), getFilter().getType(), getGradient().getType()});
}
LogicalResult ConvolutionFilterGradOp::verify() {
  return verifyConvolution(*this, {getInput().getType(), getType(), getGradient().getType()});
}

constexpr int64_t kAbsent = ShardingRule::absent;

ShardingRule ConvolutionOp::getShardingRule() {
  ShardingRule rule =
      channelFactors(*this, getInput().getType().getDimSize(0), getGroups(), getFilter().getType(),
                     {0, kAbsent, 0}, {1, 0, 1}, {kAbsent, 0, 1}, {1, 1, kAbsent});
  for (auto [i, stride] : llvm::enumerate(getStrides())) {
    // Whether the last windows reach where the next position would be.
    int64_t spread = getInputDilation()[i];
    rule.addWindow(static_cast<int64_t>(i) + 2, stride, spread,
                   getPadEnd()[i] >= spread ? BehindEnd::Identity : BehindEnd::Anything);
  }
  return rule;
}
ShardingRule ConvolutionInputGradOp::getShardingRule() {
  ShardingRule rule =
      channelFactors(*this, getType().getDimSize(0), getGroups(), getFilter().getType(),
                     {0, kAbsent, 0}, {1, 0, 1}, {1, 0, kAbsent}, {kAbsent, 1, 1});
  for (auto [i, stride] : llvm::enumerate(getStrides())) {
    int64_t dim = static_cast<int64_t>(i) + 2,
            next = getGradient().getType().getDimSize(dim) * stride - getPadBegin()[i];
    rule.addWindow(dim, /*stride=*/1, /*spread=*/stride,
                   next < getType().getDimSize(dim) ? BehindEnd::Identity : BehindEnd::Anything);
  }
  return rule;
}
ShardingRule ConvolutionFilterGradOp::getShardingRule() {
  return channelFactors(*this, getInput().getType().getDimSize(0), getGroups(), getType(),
                        {0, 0, kAbsent}, {1, 1, 0}, {kAbsent, 1, 0}, {1, kAbsent, 1});
}

FailureOr<SmallVector<Value>> ConvolutionOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                       PartitionContext &context) {
  return partitionConvolution(*this, builder, localOperands, context);
}
FailureOr<SmallVector<Value>> ConvolutionInputGradOp::partition(OpBuilder &builder,
                                                                ValueRange localOperands,
                                                                PartitionContext &context) {
  return partitionConvolution(*this, builder, localOperands, context);
}
FailureOr<SmallVector<Value>> ConvolutionFilterGradOp::partition(OpBuilder &builder,
                                                                 ValueRange localOperands,
                                                                 PartitionContext &context) {
  return partitionConvolution(*this, builder, localOperands, context);
}

double ConvolutionOp::getFlops(ArrayRef<RankedTensorType> operands,
                               ArrayRef<RankedTensorType> results) {
  return convolutionFlops(results[0], operands[1]);
}
double ConvolutionInputGradOp::getFlops(ArrayRef<RankedTensorType> operands,
                                        ArrayRef<RankedTensorType>) {
  return convolutionFlops(operands[0], operands[1]);
}
double ConvolutionFilterGradOp::getFlops(ArrayRef<RankedTensorType> operands,
                                         ArrayRef<RankedTensorType> results) {
  return convolutionFlops(operands[1], results[0]);
}
