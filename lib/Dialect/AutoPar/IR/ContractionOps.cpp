// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions: shapes, sharding rules, FLOPs.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- dot_general
//-------------------------------------------------------------------------------===//

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
  for (auto [l, r] : llvm::zip(getLhsContract(), getRhsContract()))
    rule.addFactor({l, r}, {ShardingRule::absent}, getLhs().getType().getDimSize(l),
                   FactorKind::Reduction);
  return rule;
}

double DotGeneralOp::getFlops(ArrayRef<RankedTensorType> operands,
                              ArrayRef<RankedTensorType> results) {
  double flops = 2.0 * results[0].getNumElements();
  for (int64_t dim : getLhsContract())
    flops *= operands[0].getDimSize(dim);
  return flops;
}

//===-- convolution
//-------------------------------------------------------------------------------===//

static int64_t dilated(int64_t extent, int64_t dilation) {
  return extent == 0 ? 0 : (extent - 1) * dilation + 1;
}

LogicalResult ConvolutionOp::verify() {
  RankedTensorType input = getInput().getType(), filter = getFilter().getType(), result = getType();
  int64_t spatial = input.getRank() - 2;
  if (spatial < 1 || filter.getRank() != input.getRank() || result.getRank() != input.getRank())
    return emitOpError("expects input, filter and result of one rank of at least 3");
  for (ArrayRef<int64_t> list :
       {getStrides(), getPadBegin(), getPadEnd(), getInputDilation(), getFilterDilation()})
    if (static_cast<int64_t>(list.size()) != spatial)
      return emitOpError() << "expects " << spatial << " entries per spatial attribute, got "
                           << list.size();
  int64_t groups = getGroups();
  if (groups < 1 || input.getDimSize(1) != filter.getDimSize(1) * groups ||
      filter.getDimSize(0) % groups)
    return emitOpError() << "channels do not fit: input " << input.getDimSize(1) << ", filter "
                         << filter.getDimSize(1) << " x " << groups << " groups, "
                         << filter.getDimSize(0) << " out channels";
  if (result.getDimSize(0) != input.getDimSize(0) || result.getDimSize(1) != filter.getDimSize(0))
    return emitOpError("batch or out channels of the result do not fit");
  for (int64_t i = 0; i < spatial; ++i) {
    if (getStrides()[i] < 1 || getInputDilation()[i] < 1 || getFilterDilation()[i] < 1)
      return emitOpError("expects positive strides and dilations");
    int64_t padded =
        dilated(input.getDimSize(i + 2), getInputDilation()[i]) + getPadBegin()[i] + getPadEnd()[i];
    int64_t window = dilated(filter.getDimSize(i + 2), getFilterDilation()[i]);
    int64_t expected = padded < window ? 0 : (padded - window) / getStrides()[i] + 1;
    if (result.getDimSize(i + 2) != expected)
      return emitOpError() << "spatial dimension " << i << " of the result should be " << expected
                           << ", got " << result.getDimSize(i + 2);
  }
  return success();
}

ShardingRule ConvolutionOp::getShardingRule() {
  constexpr int64_t absent = ShardingRule::absent;
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType input = getInput().getType(), filter = getFilter().getType();
  int64_t groups = getGroups();
  rule.addFactor({0, absent}, {0}, input.getDimSize(0));
  if (groups > 1)
    rule.addFactor({1, 0}, {1}, groups);
  int64_t outPerGroup = filter.getDimSize(0) / groups;
  if (groups == 1) {
    rule.addFactor({absent, 0}, {1}, outPerGroup);
    rule.addFactor({1, 1}, {absent}, filter.getDimSize(1), FactorKind::Reduction);
  } else {
    // Channels within a group stay together: only whole groups are distributed.
    rule.addFactor({absent, 0}, {1}, outPerGroup, FactorKind::NeedsReplication);
    rule.addFactor({1, 1}, {absent}, filter.getDimSize(1), FactorKind::NeedsReplication);
  }
  rule.complete(*this);
  return rule;
}

FailureOr<SmallVector<Value>> ConvolutionOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                       PartitionContext &context) {
  SmallVector<Value> results = context.cloneLocal(*this, builder, localOperands);
  if (getGroups() > 1)
    cast<ConvolutionOp>(results[0].getDefiningOp()).setGroups(getGroups() / context.shardCount(1));
  return results;
}

double ConvolutionOp::getFlops(ArrayRef<RankedTensorType> operands,
                               ArrayRef<RankedTensorType> results) {
  RankedTensorType filter = operands[1];
  return 2.0 * results[0].getNumElements() * filter.getNumElements() /
         std::max<int64_t>(filter.getDimSize(0), 1);
}
