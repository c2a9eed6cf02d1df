// SPDX-License-Identifier: Apache-2.0
// One walk: a factor has the highest role among the dimensions it covers, a result dimension that
// of its factor.
#include "DimensionRoles.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

DimensionRoles::DimensionRoles(func::FuncOp function) {
  std::optional<int64_t> batch;
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    // Micro-batches stand in front of the batch.
    int64_t first =
        function.getArgAttr(argument.getArgNumber(), "autopar.micro_batches") != nullptr;
    if (!type || !isFed(argument) || type.getRank() <= first)
      continue;
    if (batch.value_or(type.getDimSize(first)) != type.getDimSize(first))
      continue;
    batch = type.getDimSize(first);
    SmallVector<DimensionRole, 4> own(type.getRank(), type.getElementType().isInteger()
                                                          ? DimensionRole::Position
                                                          : DimensionRole::Model);
    own[first] = DimensionRole::Batch;
    if (first)
      own.front() = DimensionRole::Model;
    roles[argument] = own;
  }
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return roles.contains(operand); }))
      continue;
    ShardingRule rule = shardingRuleOf(&op);
    SmallVector<DimensionRole> factors = ofFactors(&op, rule);
    for (OpResult result : op.getResults()) {
      SmallVector<DimensionRole, 4> own;
      for (const ShardingRule::Dimension &dimension : rule.results[result.getResultNumber()])
        own.push_back(dimension.empty() ? DimensionRole::Model : factors[dimension.front()]);
      if (llvm::any_of(own, [](DimensionRole role) { return role != DimensionRole::Model; }))
        roles[result] = own;
    }
  }
}

ArrayRef<DimensionRole> DimensionRoles::of(Value value) const {
  auto it = roles.find(value);
  return it == roles.end() ? ArrayRef<DimensionRole>() : ArrayRef<DimensionRole>(it->second);
}

SmallVector<DimensionRole> DimensionRoles::ofFactors(Operation *op,
                                                     const ShardingRule &rule) const {
  SmallVector<DimensionRole> factors(rule.factors.size(), DimensionRole::Model);
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands)) {
    ArrayRef<DimensionRole> own = of(operand);
    for (auto [dim, role] : llvm::enumerate(own))
      for (auto [place, factor] : llvm::enumerate(tensor[dim])) {
        // Behind samples, in the same dimension, stand their positions.
        DimensionRole part =
            place > 0 && role == DimensionRole::Batch ? DimensionRole::Position : role;
        factors[factor] = std::max(factors[factor], part);
      }
  }
  return factors;
}
