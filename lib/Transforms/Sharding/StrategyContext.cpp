// SPDX-License-Identifier: Apache-2.0
// Local types by the strategy, everything else as it was.
#include "StrategyContext.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

FailureOr<SmallVector<Value>> StrategyContext::rewrite(OpBuilder &builder,
                                                       ValueRange localOperands) {
  FailureOr<SmallVector<Value>> results = failure();
  if (auto shardable = dyn_cast<ShardingRuleOpInterface>(op))
    results = shardable.partition(builder, localOperands, *this);
  else
    results = cloneLocal(op, builder, localOperands);
  if (failed(results))
    return failure();
  for (Value result : *results)
    if (Operation *made = result.getDefiningOp();
        made && getOpId(made).empty() && !getOpId(op).empty())
      setOpId(made, getOpId(op));
  return results;
}

RankedTensorType StrategyContext::localResultType(unsigned index) const {
  return localType(tensorTypeOf(op->getResult(index)), resultSharding(rule, axes, index), mesh);
}

SmallVector<Value> StrategyContext::cloneLocal(Operation *original, OpBuilder &builder,
                                               ValueRange localOperands) {
  SmallVector<Type> types;
  for (OpResult result : original->getResults())
    types.push_back(isa<RankedTensorType>(result.getType())
                        ? localResultType(result.getResultNumber())
                        : result.getType());
  NamedAttrList attributes(original->getDiscardableAttrDictionary());
  attributes.erase("autopar.strategy");
  Operation *local = Operation::create(
      original->getLoc(), original->getName(), types, localOperands, std::move(attributes),
      original->getPropertiesStorage(), /*successors=*/{}, original->getNumRegions());
  for (auto [region, copy] : llvm::zip_equal(original->getRegions(), local->getRegions())) {
    IRMapping mapping;
    region.cloneInto(&copy, mapping);
  }
  return builder.insert(local)->getResults();
}
