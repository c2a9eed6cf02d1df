// SPDX-License-Identifier: Apache-2.0
// Construction of sharding rules.
#include "autopar/Interfaces/ShardingRule.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

StringRef mlir::autopar::stringifyReduction(ReductionKind kind) {
  static constexpr StringLiteral names[] = {"sum", "prod", "max", "min", "and", "or"};
  return names[static_cast<uint32_t>(kind)];
}

std::optional<ReductionKind> mlir::autopar::symbolizeReduction(StringRef word) {
  return llvm::StringSwitch<std::optional<ReductionKind>>(word)
      .Case("sum", ReductionKind::Sum)
      .Case("prod", ReductionKind::Prod)
      .Case("max", ReductionKind::Max)
      .Case("min", ReductionKind::Min)
      .Case("and", ReductionKind::And)
      .Case("or", ReductionKind::Or)
      .Default(std::nullopt);
}

StringRef mlir::autopar::stringifyFactorKind(FactorKind kind) {
  switch (kind) {
  case FactorKind::PassThrough:
    return "pass-through";
  case FactorKind::Reduction:
    return "reduction";
  case FactorKind::NeedsReplication:
    return "needs-replication";
  }
  return "";
}

int64_t ShardingRule::addFactor(ArrayRef<int64_t> operandDims, ArrayRef<int64_t> resultDims,
                                int64_t size, FactorKind kind, ReductionKind reduction) {
  int64_t index = factors.size();
  factors.push_back({size, kind, reduction});
  auto place = [&](SmallVector<Tensor> &tensors, ArrayRef<int64_t> dims) {
    for (auto [tensor, dim] : llvm::zip_equal(tensors, dims))
      if (dim != absent)
        tensor[dim].push_back(index);
  };
  place(operands, operandDims);
  place(results, resultDims);
  return index;
}

int64_t ShardingRule::addUnreducedFactor(ReductionKind reduction) {
  Factor &factor = factors.emplace_back(Factor{unreducedExtent, FactorKind::Reduction, reduction});
  factor.partialOperands = {0};
  return factors.size() - 1;
}

ShardingRule ShardingRule::emptyFor(Operation *op) {
  ShardingRule rule;
  auto shape = [](SmallVector<Tensor> &tensors, TypeRange types) {
    for (Type type : types)
      tensors.emplace_back(isa<RankedTensorType>(type) ? cast<RankedTensorType>(type).getRank()
                                                       : 0);
  };
  shape(rule.operands, op->getOperandTypes());
  shape(rule.results, op->getResultTypes());
  return rule;
}

ShardingRule ShardingRule::elementwise(Operation *op) {
  ShardingRule rule = emptyFor(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    rule.addFactor(SmallVector<int64_t>(op->getNumOperands(), dim),
                   SmallVector<int64_t>(op->getNumResults(), dim), type.getDimSize(dim));
  return rule;
}

ShardingRule ShardingRule::replicated(Operation *op) {
  ShardingRule rule = emptyFor(op);
  rule.complete(op);
  return rule;
}

void ShardingRule::addWindow(int64_t dim, int64_t stride, int64_t spread, BehindEnd behind,
                             ReductionKind reduction) {
  int64_t positions = operands[0][dim].front(), places = results[0][dim].front();
  factors[positions].behind = behind;
  factors[positions].reduction = reduction;
  windows.push_back({positions, places, stride, spread});
}

void ShardingRule::complete(Operation *op) {
  auto cover = [&](SmallVector<Tensor> &tensors, TypeRange types) {
    for (auto [tensor, type] : llvm::zip_equal(tensors, types))
      for (auto [dim, dimension] : llvm::enumerate(tensor)) {
        if (dimension.empty()) {
          dimension.push_back(factors.size());
          factors.push_back(
              {cast<RankedTensorType>(type).getDimSize(dim), FactorKind::NeedsReplication});
        }
        if (dimension.size() > 1)
          for (int64_t factor : dimension)
            factors[factor].mayBeUneven = false;
      }
  };
  cover(operands, op->getOperandTypes());
  cover(results, op->getResultTypes());
}
