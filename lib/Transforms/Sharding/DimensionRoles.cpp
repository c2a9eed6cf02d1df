// SPDX-License-Identifier: Apache-2.0
// One walk: a factor has the highest role among the dimensions it covers, a result dimension that
// of its factor. State that is worked on beside experts is theirs. What products by expert read is
// by expert back to where it was made, so that it may be moved before it is rearranged.
#include "DimensionRoles.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

/// How many operands a factor covers a dimension of.
static size_t operandsWith(const ShardingRule &rule, int64_t factor) {
  return llvm::count_if(rule.operands, [&](const ShardingRule::Tensor &tensor) {
    return llvm::any_of(tensor, [&](const ShardingRule::Dimension &dimension) {
      return llvm::is_contained(dimension, factor);
    });
  });
}

bool mlir::autopar::isProduct(const ShardingRule &rule) {
  for (auto [index, factor] : llvm::enumerate(rule.factors))
    if (factor.kind == FactorKind::Reduction && operandsWith(rule, index) > 1)
      return true;
  return false;
}

/// Whether a value is a parameter or state, or made of such alone.
bool DimensionRoles::isOfArguments(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (madeOfArguments.contains(op))
      return true;
    if (op->getNumOperands() != 1)
      return false;
    value = op->getOperand(0);
  }
  return !isFed(cast<BlockArgument>(value));
}

DimensionRoles::DimensionRoles(func::FuncOp function)
    : madeOfArguments(madeOfParameters(function)) {
  readInputs(function);
  findExperts(function);
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return roles.contains(operand); }))
      continue;
    ShardingRule rule = shardingRuleOf(&op);
    SmallVector<DimensionRole> factors = ofFactors(&op, rule);
    auto rolesIn = [&](const ShardingRule::Tensor &tensor) {
      SmallVector<DimensionRole, 4> own;
      for (const ShardingRule::Dimension &dimension : tensor)
        own.push_back(dimension.empty() ? DimensionRole::Model : factors[dimension.front()]);
      return own;
    };
    for (OpResult result : op.getResults())
      if (SmallVector<DimensionRole, 4> own = rolesIn(rule.results[result.getResultNumber()]);
          llvm::any_of(own, [](DimensionRole role) { return role != DimensionRole::Model; })) {
        for (auto [role, known] : llvm::zip(own, of(result)))
          role = std::max(role, known); // experts
        roles[result] = own;
      }
    for (auto [operand, tensor] : llvm::zip(op.getOperands(), rule.operands))
      if (isOfArguments(operand) && !roles.contains(operand))
        for (auto [dim, role] : llvm::enumerate(rolesIn(tensor)))
          if (role == DimensionRole::Expert)
            markExperts(operand, dim);
    for (auto [operand, tensor] : llvm::zip(op.getOperands(), rule.operands))
      for (auto [dim, role] : llvm::enumerate(rolesIn(tensor)))
        if (role == DimensionRole::Expert)
          markRepeated(operand, dim);
  }
}

void DimensionRoles::readInputs(func::FuncOp function) {
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
}

void DimensionRoles::findExperts(func::FuncOp function) {
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (llvm::none_of(op.getOperands(), [&](Value operand) { return isOfArguments(operand); }))
      continue;
    ShardingRule rule = shardingRuleOf(&op);
    if (!isProduct(rule))
      continue;
    for (auto [operand, tensor] : llvm::zip(op.getOperands(), rule.operands))
      for (auto [dim, factors] : llvm::enumerate(tensor))
        if (isOfArguments(operand) && !factors.empty() &&
            rule.factors[factors.front()].kind == FactorKind::PassThrough &&
            operandsWith(rule, factors.front()) > 1)
          markExpertsOf(op, rule, factors.front());
  }
}

void DimensionRoles::markExpertsOf(Operation &op, const ShardingRule &rule, int64_t factor) {
  for (auto [operand, tensor] : llvm::zip(op.getOperands(), rule.operands))
    for (auto [dim, factors] : llvm::enumerate(tensor))
      if (!factors.empty() && factors.front() == factor)
        markExperts(operand, dim);
}

/// Of a value, and of what it is made of by operations of one operand or of parameters alone. What
/// is fed has the roles of inputs.
void DimensionRoles::markExperts(Value value, unsigned dim) {
  if (auto argument = dyn_cast<BlockArgument>(value); argument && isFed(argument))
    return;
  auto &own = roles[value];
  own.resize(tensorTypeOf(value).getRank(), DimensionRole::Model);
  own[dim] = DimensionRole::Expert;
  Operation *op = value.getDefiningOp();
  if (!op || (op->getNumOperands() != 1 && !madeOfArguments.contains(op)))
    return;
  ShardingRule rule = shardingRuleOf(op);
  const ShardingRule::Dimension &factors =
      rule.results[cast<OpResult>(value).getResultNumber()][dim];
  if (factors.empty())
    return;
  for (auto [operand, tensor] : llvm::zip(op->getOperands(), rule.operands))
    for (auto [source, ofSource] : llvm::enumerate(tensor))
      if (llvm::is_contained(ofSource, factors.front()))
        markExperts(operand, source);
}

/// Of a value that is the same for all experts, as far as operations of one operand lead. False
/// where the dimension is one of something else.
bool DimensionRoles::markRepeated(Value value, unsigned dim) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumOperands() != 1)
    return false;
  ShardingRule rule = shardingRuleOf(op);
  const ShardingRule::Dimension &factors =
      rule.results[cast<OpResult>(value).getResultNumber()][dim];
  if (factors.size() != 1)
    return false;
  bool isRepeated = operandsWith(rule, factors.front()) == 0;
  for (auto [source, ofSource] : llvm::enumerate(rule.operands.front()))
    if (ofSource == factors)
      isRepeated = markRepeated(op->getOperand(0), source);
  if (!isRepeated)
    return false;
  auto &own = roles[value];
  own.resize(tensorTypeOf(value).getRank(), DimensionRole::Model);
  own[dim] = DimensionRole::Expert;
  return true;
}

bool DimensionRoles::hasSamples(Value value) const {
  return llvm::any_of(of(value),
                      [](DimensionRole role) { return role >= DimensionRole::Position; });
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
        // Behind samples, in the same dimension, stand their positions; behind experts, what each
        // of them has.
        DimensionRole part = place == 0                      ? role
                             : role == DimensionRole::Batch  ? DimensionRole::Position
                             : role == DimensionRole::Expert ? DimensionRole::Model
                                                             : role;
        factors[factor] = std::max(factors[factor], part);
      }
  }
  // What an operation repeats counts what its readers take it for.
  for (auto [result, tensor] : llvm::zip(op->getResults(), rule.results))
    for (auto [dim, role] : llvm::enumerate(of(result)))
      if (tensor[dim].size() == 1 && operandsWith(rule, tensor[dim].front()) == 0)
        factors[tensor[dim].front()] = std::max(factors[tensor[dim].front()], role);
  return factors;
}
