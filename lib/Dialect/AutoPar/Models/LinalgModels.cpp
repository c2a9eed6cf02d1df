// SPDX-License-Identifier: Apache-2.0
// linalg structured operations: loops are factors, indexing maps say which dimensions they cover.
#include "Models.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

/// The combiner of the value yielded to init `index`, where it is one that collectives know.
static std::optional<ReductionKind> reductionOf(linalg::LinalgOp op, unsigned index) {
  SmallVector<Operation *> combiners;
  if (!matchReduction(op.getRegionOutputArgs(), index, combiners) || combiners.size() != 1)
    return std::nullopt;
  return llvm::TypeSwitch<Operation *, std::optional<ReductionKind>>(combiners[0])
      .Case<arith::AddFOp, arith::AddIOp>([](Operation *) { return ReductionKind::Sum; })
      .Case<arith::MulFOp, arith::MulIOp>([](Operation *) { return ReductionKind::Prod; })
      .Case<arith::MaximumFOp, arith::MaxSIOp>([](Operation *) { return ReductionKind::Max; })
      .Case<arith::MinimumFOp, arith::MinSIOp>([](Operation *) { return ReductionKind::Min; })
      .Default([](Operation *) { return std::nullopt; });
}

/// Whether every rank may start from this init without counting it twice: it is filled with the
/// identity of the reduction.
static bool startsFromIdentity(Value init, ReductionKind reduction) {
  auto fill = init.getDefiningOp<linalg::FillOp>();
  if (!fill)
    return false;
  Attribute value;
  if (!matchPattern(fill.getInputs()[0], m_Constant(&value)))
    return false;
  if (auto number = dyn_cast<FloatAttr>(value)) {
    const APFloat &x = number.getValue();
    switch (reduction) {
    case ReductionKind::Sum:
      return x.isZero();
    case ReductionKind::Prod:
      return x.isExactlyValue(1.0);
    case ReductionKind::Max:
      return x.isInfinity() && x.isNegative();
    case ReductionKind::Min:
      return x.isInfinity() && !x.isNegative();
    default:
      return false;
    }
  }
  auto number = dyn_cast<IntegerAttr>(value);
  return number && ((reduction == ReductionKind::Sum && number.getValue().isZero()) ||
                    (reduction == ReductionKind::Prod && number.getValue().isOne()));
}

static ShardingRule linalgRule(linalg::LinalgOp op) {
  ShardingRule rule = ShardingRule::emptyFor(op);
  SmallVector<int64_t> extents = op.getStaticLoopRanges();
  SmallVector<utils::IteratorType> iterators = op.getIteratorTypesArray();
  std::optional<ReductionKind> reduction =
      op.getNumDpsInits() == 1 ? reductionOf(op, 0) : std::nullopt;
  bool completes = reduction && startsFromIdentity(op.getDpsInits()[0], *reduction);
  for (auto [extent, iterator] : llvm::zip_equal(extents, iterators)) {
    Factor factor;
    factor.size = extent;
    factor.mayBeUneven = false; // Other compilers' code does not know about padding.
    if (iterator == utils::IteratorType::reduction) {
      factor.kind = completes ? FactorKind::Reduction : FactorKind::NeedsReplication;
      factor.reduction = reduction.value_or(ReductionKind::Sum);
    }
    rule.factors.push_back(factor);
  }
  // A loop that appears in a compound expression (a convolution's window), or whose number the body
  // reads, has to stay whole.
  auto keepWhole = [&](unsigned loop) { rule.factors[loop].kind = FactorKind::NeedsReplication; };
  op->walk([&](linalg::IndexOp index) { keepWhole(index.getDim()); });
  auto place = [&](ShardingRule::Tensor &tensor, AffineMap map) {
    for (auto [dimension, expression] : llvm::zip(tensor, map.getResults()))
      if (auto dim = dyn_cast<AffineDimExpr>(expression))
        dimension.push_back(dim.getPosition());
      else
        expression.walk([&](AffineExpr part) {
          if (auto dim = dyn_cast<AffineDimExpr>(part))
            keepWhole(dim.getPosition());
        });
  };
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (auto [index, map] : llvm::enumerate(maps))
    place(rule.operands[index], map);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    place(rule.results[i], maps[op.getNumDpsInputs() + i]);
  rule.complete(op);
  return rule;
}

namespace {

template <typename Op>
struct LinalgShardingModel : ShardingRuleOpInterface::ExternalModel<LinalgShardingModel<Op>, Op> {
  ShardingRule getShardingRule(Operation *op) const {
    // Buffers and scalars are not sharded; run-time extents cannot be.
    bool isStatic = llvm::all_of(op->getOperandTypes(), [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return !isa<ShapedType>(type) || (tensor && tensor.hasStaticShape());
    });
    return isStatic && op->getNumResults() ? linalgRule(cast<linalg::LinalgOp>(op))
                                           : ShardingRule::replicated(op);
  }
};

template <typename Op>
struct LinalgCostModel : CostOpInterface::ExternalModel<LinalgCostModel<Op>, Op> {
  double getFlops(Operation *op, ArrayRef<RankedTensorType> operands,
                  ArrayRef<RankedTensorType> results) const {
    // The share of the iteration space that the local shapes stand for, times the body's
    // arithmetic.
    auto linalgOp = cast<linalg::LinalgOp>(op);
    double whole = 1, share = 1;
    for (int64_t extent : linalgOp.getStaticLoopRanges())
      whole *= extent;
    for (auto [operand, local] : llvm::zip(op->getOperandTypes(), operands))
      if (auto type = dyn_cast<RankedTensorType>(operand); type && local)
        share = std::min(share, static_cast<double>(local.getNumElements()) /
                                    std::max<int64_t>(type.getNumElements(), 1));
    double arithmetic = 0;
    for (Operation &inner : linalgOp.getBlock()->without_terminator())
      arithmetic += inner.getDialect() != op->getDialect();
    return whole * share * std::max(arithmetic, 1.0);
  }
};

template <typename... Ops>
void attachAll(MLIRContext *context) {
  (Ops::template attachInterface<LinalgShardingModel<Ops>, LinalgCostModel<Ops>>(*context), ...);
}

} // namespace

void mlir::autopar::registerLinalgModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attachAll<
#define GET_OP_LIST
#include "mlir/Dialect/Linalg/IR/LinalgStructuredOps.cpp.inc"
        >(context);
  });
}
