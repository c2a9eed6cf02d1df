// SPDX-License-Identifier: Apache-2.0
// The pass autopar-raise-composites. Its patterns stand in the files RaiseComposites*.cpp, by
// family.
#include "CompositeMatching.h"
#include "autopar/Transforms/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <unordered_map>

namespace mlir::autopar {
#define GEN_PASS_DEF_RAISECOMPOSITESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Shares operations that compute the same: exporters compute a mask or table once per layer. What
/// every user computes for itself anyway is told to be equal but left alone, so that each user has
/// its own sharding.
class EqualOperations {
public:
  void share(Block &block) {
    for (Operation &op : llvm::make_early_inc_range(block)) {
      if (!isa_and_nonnull<AutoParDialect>(op.getDialect()) || op.getNumRegions() != 0 ||
          !isMemoryEffectFree(&op))
        continue;
      Operation *first = findOrInsert(&op);
      if (first == &op)
        continue;
      if (op.hasTrait<LightOp>()) {
        for (auto [result, equal] : llvm::zip(op.getResults(), first->getResults()))
          numbers[result] = equal;
        continue;
      }
      op.replaceAllUsesWith(first);
      op.erase();
    }
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

private:
  static constexpr auto flags =
      OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs;

  /// The first value equal to `value`.
  Value number(Value value) const {
    auto known = numbers.find(value);
    return known == numbers.end() ? value : known->second;
  }

  Operation *findOrInsert(Operation *op) {
    auto hash = OperationEquivalence::computeHash(
        op, [&](Value value) { return hash_value(number(value)); },
        OperationEquivalence::ignoreHashValue, flags);
    SmallVector<Operation *, 1> &bucket = buckets[hash];
    for (Operation *other : bucket)
      if (OperationEquivalence::isEquivalentTo(
              op, other, [&](Value a, Value b) { return success(number(a) == number(b)); },
              /*markEquivalent=*/nullptr, flags))
        return other;
    bucket.push_back(op);
    return op;
  }

  DenseMap<Value, Value> numbers;
  std::unordered_map<size_t, SmallVector<Operation *, 1>> buckets;
};

struct RaiseCompositesPass : mlir::autopar::impl::RaiseCompositesPassBase<RaiseCompositesPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateArithmeticPatterns(patterns);
    populateDataMovementPatterns(patterns);
    populateGroupedProductPatterns(patterns);
    populateActivationPatterns(patterns);
    populateRowPatterns(patterns);
    GreedyRewriteConfig config;
    // Operands before users, so that a composite finds its parts simplified.
    config.setUseTopDownTraversal(true);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config))) {
      getOperation().emitOpError("is still changing after " + Twine(config.getMaxIterations()) +
                                 " rounds of raising composites");
      return signalPassFailure();
    }
    for (Block &block : getOperation().getBody())
      EqualOperations().share(block);
  }
};

} // namespace
