// SPDX-License-Identifier: Apache-2.0
// The pass autopar-narrow-epilogues. Mixed precision computes what stands between products in f32
// and stores it narrow; a library that sums in f32 does just that with its own epilogue, of which
// type and rounding are the result's.
#include "Prepare/StandIns.h"

#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/LibraryEpilogue.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/TrainingEpilogues.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_NARROWEPILOGUESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Follows what is done to a product in f32, as far as the library can, and writes it narrow.
class EpilogueNarrower : EpilogueGrammar {
public:
  EpilogueNarrower(DotGeneralOp product, bool trains)
      : EpilogueGrammar(product), trains(trains), current(product.getResult()),
        element(product.getType().getElementType()) {}

  void run() {
    while (CastOp wide = onlyWidening()) {
      SmallVector<EpilogueStep> links = linksFrom(wide);
      if (links.empty())
        return;
      narrow(wide, links);
    }
    if (CastOp wide = wideningOfActivation())
      narrow(wide, linksFrom(wide));
  }

private:
  /// The f32 form of the current value, if one operation reads it and nothing else does.
  CastOp onlyWidening() const {
    Value value = current;
    while (value.hasOneUse() && isa<ReshapeOp>(*value.user_begin()))
      value = value.user_begin()->getResult(0);
    auto cast = value.hasOneUse() ? dyn_cast<CastOp>(*value.user_begin()) : CastOp();
    bool widens = cast && cast.getType().getElementType().isF32() && cast->hasOneUse();
    return widens ? cast : CastOp();
  }

  /// The f32 form of the current value that only a gelu reads, where its gradient or others read
  /// the value too: the library stores both what it is given and the result.
  CastOp wideningOfActivation() const {
    if (hasEnded() || !trains)
      return {};
    for (Operation *user : current.getUsers()) {
      auto cast = dyn_cast<CastOp>(user);
      if (!cast || !cast.getType().getElementType().isF32() || !cast->hasOneUse())
        continue;
      UnaryOp gelu = activationInTraining(mlir::cast<DotGeneralOp>(contraction), cast);
      if (gelu && isStoredNarrow(gelu.getResult()))
        return cast;
    }
    return {};
  }

  /// What follows in f32 until it is stored narrow; nothing where that is more than the library
  /// does.
  SmallVector<EpilogueStep> linksFrom(CastOp wide) {
    SmallVector<EpilogueStep> links;
    for (Value value = wide; !hasEnded(); value = links.back().op->getResult(0)) {
      std::optional<EpilogueStep> link = next(*value.user_begin(), value);
      if (!link || !isNarrowed(*link))
        return {};
      links.push_back(*link);
      Value result = link->op->getResult(0);
      if (isStoredNarrow(result))
        return links;
      if (!result.hasOneUse())
        return {};
    }
    return {};
  }

  /// A scale stays in f32.
  bool isNarrowed(const EpilogueStep &step) const {
    auto unary = dyn_cast<UnaryOp>(step.op);
    return step.kind != EpilogueStep::Scale && (trains || step.kind != EpilogueStep::Gradient) &&
           (!unary || isEpilogueActivation(unary.getKind(), Target::Cuda));
  }

  bool isStoredNarrow(Value value) const {
    auto narrows = [&](Operation *user) {
      auto cast = dyn_cast<CastOp>(user);
      return cast && cast.getType().getElementType() == element;
    };
    return !value.use_empty() && llvm::all_of(value.getUsers(), narrows);
  }

  /// The narrow value of which `wide` is the f32 form.
  Value residualOf(Value wide) const override {
    auto cast = wide.getDefiningOp<CastOp>();
    bool isForm = cast && cast.getInput().getType().getElementType() == element;
    return isForm ? cast.getInput() : Value();
  }

  RankedTensorType narrowType(Value value) const {
    return RankedTensorType::get(cast<RankedTensorType>(value.getType()).getShape(), element);
  }

  void narrow(CastOp wide, ArrayRef<EpilogueStep> links) {
    current = wide.getInput();
    for (const EpilogueStep &link : links) {
      current = narrowed(link);
      current.getDefiningOp()->setDiscardableAttrs(link.op->getDiscardableAttrDictionary());
    }
    Operation *last = links.back().op;
    for (Operation *store : llvm::make_early_inc_range(last->getUsers())) {
      store->getResult(0).replaceAllUsesWith(current);
      store->erase();
    }
    for (const EpilogueStep &link : llvm::reverse(links))
      link.op->erase();
    wide->erase();
  }

  Value narrowed(const EpilogueStep &link) {
    OpBuilder builder(link.op);
    Location loc = link.op->getLoc();
    RankedTensorType type = narrowType(link.op->getResult(0));
    switch (link.kind) {
    case EpilogueStep::Bias: {
      int64_t rank = type.getRank(), count = cast<RankedTensorType>(link.other.getType()).getRank();
      auto rounded = CastOp::create(builder, loc, narrowType(link.other), link.other);
      rounded->setDiscardableAttrs(link.op->getDiscardableAttrDictionary());
      nameAfter(rounded, link.op, "bias");
      Value repeated = BroadcastOp::create(builder, loc, type, rounded,
                                           llvm::to_vector(llvm::seq<int64_t>(rank - count, rank)));
      return BinaryOp::create(builder, loc, type, BinaryKind::Add, current, repeated);
    }
    case EpilogueStep::Residual:
      return BinaryOp::create(builder, loc, type, BinaryKind::Add, current, link.other);
    case EpilogueStep::Activation:
      return UnaryOp::create(builder, loc, type, cast<UnaryOp>(link.op).getKind(), current);
    case EpilogueStep::Gradient:
      return UnaryGradOp::create(builder, loc, type, cast<UnaryGradOp>(link.op).getKind(),
                                 link.other, current);
    case EpilogueStep::Scale:
      break;
    }
    llvm_unreachable("a scale stays in f32");
  }

  bool trains; ///< whether it takes what only training needs
  Value current;
  Type element;
};

struct NarrowEpiloguesPass : mlir::autopar::impl::NarrowEpiloguesPassBase<NarrowEpiloguesPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<EpilogueMode> chosen = epilogueModeOf(getOperation(), activations);
    if (failed(chosen))
      return signalPassFailure();
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp product) {
      Type element = product.getType().getElementType();
      if ((element.isBF16() || element.isF16()) && isLibraryContraction(product))
        products.push_back(product);
    });
    // Later products first: an addition of two products is the epilogue of the second.
    for (DotGeneralOp product : llvm::reverse(products))
      EpilogueNarrower(product, *chosen == EpilogueMode::Automatic).run();
  }
};

} // namespace
