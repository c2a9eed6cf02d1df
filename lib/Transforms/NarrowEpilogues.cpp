// SPDX-License-Identifier: Apache-2.0
// The pass autopar-narrow-epilogues. Mixed precision computes what stands between products in f32
// and stores it narrow; a library that sums in f32 does just that with its own epilogue, of which
// type and rounding are the result's.
#include "CompositeMatching.h"

#include "autopar/Transforms/LibraryActivationGradient.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_NARROWEPILOGUESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// One f32 operation behind a product, and what the library makes of it.
struct Link {
  enum Kind { Bias, Residual, Activation, Gradient } kind;
  Operation *op;
  Value other; ///< what it reads besides: the vector of a bias in f32, else narrow
};

/// Follows what is done to a product in f32, as far as the library can, and writes it narrow.
class EpilogueNarrower {
public:
  EpilogueNarrower(DotGeneralOp product, bool takesGradients)
      : product(product), takesGradients(takesGradients), current(product.getResult()),
        element(product.getType().getElementType()) {}

  void run() {
    while (CastOp wide = onlyWidening()) {
      SmallVector<Link> links = linksFrom(wide);
      if (links.empty())
        return;
      narrow(wide, links);
    }
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

  /// What follows in f32 until it is stored narrow; nothing where that is more than the library
  /// does.
  SmallVector<Link> linksFrom(CastOp wide) {
    SmallVector<Link> links;
    for (Value value = wide; !hasActivation; value = links.back().op->getResult(0)) {
      std::optional<Link> link = linkTo(*value.user_begin(), value);
      if (!link)
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

  std::optional<Link> linkTo(Operation *op, Value value) {
    if (auto add = dyn_cast<BinaryOp>(op))
      return linkToAdd(add, value);
    if (auto unary = dyn_cast<UnaryOp>(op)) {
      hasActivation = unary.getKind() == UnaryKind::Relu || unary.getKind() == UnaryKind::GeluTanh;
      return hasActivation ? std::optional<Link>({Link::Activation, op, {}}) : std::nullopt;
    }
    auto gradient = dyn_cast<UnaryGradOp>(op);
    if (!gradient || !takesGradients || hasBias || hasResidual || gradient.getGradient() != value ||
        !takesActivationGradient(product, gradient.getKind()))
      return std::nullopt;
    Value at = narrowOf(gradient.getInput());
    hasActivation = static_cast<bool>(at);
    return at ? std::optional<Link>({Link::Gradient, op, at}) : std::nullopt;
  }

  std::optional<Link> linkToAdd(BinaryOp add, Value value) {
    if (add.getKind() != BinaryKind::Add || add.getLhs() == add.getRhs() || hasResidual)
      return std::nullopt;
    Value other = add.getLhs() == value ? add.getRhs() : add.getLhs();
    if (Value addend = narrowOf(other)) {
      hasResidual = true;
      return Link{Link::Residual, add, addend};
    }
    Value vector = hasBias ? Value() : biasOf(other);
    hasBias = true;
    return vector ? std::optional<Link>({Link::Bias, add, vector}) : std::nullopt;
  }

  /// What is repeated along everything but the columns of the product.
  Value biasOf(Value value) const {
    auto repeated = value.getDefiningOp<BroadcastOp>();
    if (!repeated)
      return {};
    ArrayRef<int64_t> shape = repeated.getType().getShape();
    int64_t count = repeated.getInput().getType().getRank();
    bool isWhole = repeated.getInput().getType().getShape() == shape.take_back(count);
    auto last = llvm::seq<int64_t>(int64_t(shape.size()) - count, int64_t(shape.size()));
    return count > 0 && isWhole && llvm::equal(repeated.getDims(), last) ? repeated.getInput()
                                                                         : Value();
  }

  bool isStoredNarrow(Value value) const {
    auto narrows = [&](Operation *user) {
      auto cast = dyn_cast<CastOp>(user);
      return cast && cast.getType().getElementType() == element;
    };
    return !value.use_empty() && llvm::all_of(value.getUsers(), narrows);
  }

  /// The narrow value of which `wide` is the f32 form.
  Value narrowOf(Value wide) const {
    auto cast = wide.getDefiningOp<CastOp>();
    bool isForm = cast && cast.getInput().getType().getElementType() == element;
    return isForm ? cast.getInput() : Value();
  }

  RankedTensorType narrowType(Value value) const {
    return RankedTensorType::get(cast<RankedTensorType>(value.getType()).getShape(), element);
  }

  void narrow(CastOp wide, ArrayRef<Link> links) {
    current = wide.getInput();
    for (const Link &link : links) {
      current = narrowed(link);
      current.getDefiningOp()->setDiscardableAttrs(link.op->getDiscardableAttrDictionary());
    }
    Operation *last = links.back().op;
    for (Operation *store : llvm::make_early_inc_range(last->getUsers())) {
      store->getResult(0).replaceAllUsesWith(current);
      store->erase();
    }
    for (const Link &link : llvm::reverse(links))
      link.op->erase();
    wide->erase();
  }

  Value narrowed(const Link &link) {
    OpBuilder builder(link.op);
    Location loc = link.op->getLoc();
    RankedTensorType type = narrowType(link.op->getResult(0));
    switch (link.kind) {
    case Link::Bias: {
      int64_t rank = type.getRank(), count = cast<RankedTensorType>(link.other.getType()).getRank();
      auto rounded = CastOp::create(builder, loc, narrowType(link.other), link.other);
      rounded->setDiscardableAttrs(link.op->getDiscardableAttrDictionary());
      nameAfter(rounded, link.op, "bias");
      Value repeated = BroadcastOp::create(builder, loc, type, rounded,
                                           llvm::to_vector(llvm::seq<int64_t>(rank - count, rank)));
      return BinaryOp::create(builder, loc, type, BinaryKind::Add, current, repeated);
    }
    case Link::Residual:
      return BinaryOp::create(builder, loc, type, BinaryKind::Add, current, link.other);
    case Link::Activation:
      return UnaryOp::create(builder, loc, type, cast<UnaryOp>(link.op).getKind(), current);
    case Link::Gradient:
      return UnaryGradOp::create(builder, loc, type, cast<UnaryGradOp>(link.op).getKind(),
                                 link.other, current);
    }
    llvm_unreachable("all kinds are listed");
  }

  DotGeneralOp product;
  bool takesGradients;
  Value current;
  Type element;
  bool hasBias = false, hasResidual = false, hasActivation = false;
};

struct NarrowEpiloguesPass : mlir::autopar::impl::NarrowEpiloguesPassBase<NarrowEpiloguesPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<ActivationGradientMode> chosen =
        activationGradientModeOf(getOperation(), activations);
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
      EpilogueNarrower(product, *chosen == ActivationGradientMode::Automatic).run();
  }
};

} // namespace
