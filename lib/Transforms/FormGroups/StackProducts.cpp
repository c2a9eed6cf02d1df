// SPDX-License-Identifier: Apache-2.0
// The pass autopar-stack-products: a sum of products of few terms each is one product of what they
// multiply, stacked. Steps of a recurrence add to the gradient of a weight one by one; each would
// read and write all of it for the rows of one step.
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Stages.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_STACKPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Products from which on stacking pays.
constexpr size_t kManyProducts = 4;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool isSum(Operation *op) {
  auto binary = dyn_cast_if_present<BinaryOp>(op);
  return binary && binary.getKind() == BinaryKind::Add;
}

/// Whether nothing reads a value but one more sum.
bool isTermOnly(Value value) { return value.hasOneUse() && isSum(*value.user_begin()); }

/// A product that is nothing but a term, perhaps cast to the type of the sum.
DotGeneralOp productOf(Value term) {
  if (auto cast = term.getDefiningOp<CastOp>(); cast && term.hasOneUse())
    term = cast.getInput();
  return term.hasOneUse() ? term.getDefiningOp<DotGeneralOp>() : DotGeneralOp();
}

/// Whether copying what it multiplies moves fewer elements than adding its result to a sum, as
/// where it has few terms: k (m + n) < m n.
bool hasFewTerms(DotGeneralOp product) {
  return product.getLhsBatch().empty() && !product.getScaledTo() && !product.getByteBlocks() &&
         isa<FloatType>(product.getType().getElementType()) &&
         typeOf(product.getLhs()).getNumElements() + typeOf(product.getRhs()).getNumElements() <
             product.getType().getNumElements();
}

/// Whether both run at one time on one mesh.
bool areTogether(Operation *one, Operation *other) {
  return llvm::all_of(ArrayRef<StringRef>{"autopar.phase", kStageAttribute},
                      [&](StringRef name) { return one->getAttr(name) == other->getAttr(name); });
}

/// Products with equal keys are stacked.
using Kind = std::tuple<Type, Type, Attribute, Attribute>;
Kind kindOf(DotGeneralOp product) {
  return {product.getLhs().getType(), product.getRhs().getType(), product.getLhsContractAttr(),
          product.getRhsContractAttr()};
}

/// All terms of the sums that end in `root`, from its left to its right.
SmallVector<Value> termsOf(Operation *root) {
  SmallVector<Value> terms, open = llvm::to_vector(llvm::reverse(root->getOperands()));
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (isSum(value.getDefiningOp()) && value.hasOneUse())
      llvm::append_range(open, llvm::reverse(value.getDefiningOp()->getOperands()));
    else
      terms.push_back(value);
  }
  return terms;
}

class Stacking {
public:
  explicit Stacking(Operation *root) : root(root), builder(root) {}

  /// Writes the sum anew where some of its terms are to be stacked.
  void run() {
    SmallVector<Value> terms = termsOf(root), rest;
    llvm::MapVector<Kind, SmallVector<DotGeneralOp>> kinds;
    for (Value term : terms)
      if (DotGeneralOp product = stackable(term))
        kinds[kindOf(product)].push_back(product);
    kinds.remove_if([](auto &kind) { return kind.second.size() < kManyProducts; });
    if (kinds.empty())
      return;
    for (Value term : terms)
      if (DotGeneralOp product = stackable(term); !product || !kinds.contains(kindOf(product)))
        rest.push_back(term);
    for (auto &[kind, products] : kinds)
      rest.push_back(stacked(products));
    Value sum = rest.front();
    for (Value term : ArrayRef(rest).drop_front())
      sum = madeFrom(root, BinaryOp::create(builder, root->getLoc(), BinaryKind::Add, sum, term),
                     "/stacked");
    root->getResult(0).replaceAllUsesWith(sum);
    eraseUnread(root);
  }

private:
  /// The product that a term is, if it may be stacked; else null.
  DotGeneralOp stackable(Value term) const {
    DotGeneralOp product = productOf(term);
    return product && hasFewTerms(product) && areTogether(product, root) ? product : DotGeneralOp();
  }

  Value stacked(ArrayRef<DotGeneralOp> products) {
    DotGeneralOp first = products.front();
    auto sides = [&](auto side) {
      // Of gradients the last step comes first.
      return llvm::map_to_vector(llvm::reverse(products), side);
    };
    Value lhs = stack(sides([](DotGeneralOp op) { return Value(op.getLhs()); }), "/lhs"),
          rhs = stack(sides([](DotGeneralOp op) { return Value(op.getRhs()); }), "/rhs");
    auto behind = [](ArrayRef<int64_t> dims) {
      SmallVector<int64_t> all{0};
      for (int64_t dim : dims)
        all.push_back(dim + 1);
      return all;
    };
    return madeFrom(root,
                    DotGeneralOp::create(builder, root->getLoc(), root->getResult(0).getType(), lhs,
                                         rhs, ArrayRef<int64_t>(), ArrayRef<int64_t>(),
                                         behind(first.getLhsContract()),
                                         behind(first.getRhsContract())),
                    "/product");
  }

  /// The values one behind the other along a new first dimension, which may be there already: what
  /// the steps of a recurrence read is a slice of one value, whose gradient is such a stack.
  Value stack(ArrayRef<Value> values, StringRef suffix) {
    SmallVector<Value> parts = llvm::map_to_vector(values, [&](Value value) {
      SmallVector<int64_t> shape{1};
      llvm::append_range(shape, typeOf(value).getShape());
      RankedTensorType type = typeOf(value).clone(shape);
      for (Operation *user : value.getUsers())
        if (isa<ReshapeOp>(user) && user->getResult(0).getType() == type)
          return moved(user);
      return madeFrom(root, ReshapeOp::create(builder, root->getLoc(), type, value),
                      suffix + ".part");
    });
    for (Operation *user : parts.front().getUsers())
      if (auto concat = dyn_cast<ConcatOp>(user);
          concat && concat.getDim() == 0 && llvm::equal(concat.getInputs(), parts))
        return moved(concat);
    SmallVector<int64_t> shape(typeOf(parts.front()).getShape());
    shape.front() = static_cast<int64_t>(parts.size());
    return madeFrom(
        root,
        ConcatOp::create(builder, root->getLoc(), typeOf(parts.front()).clone(shape), parts, 0),
        suffix);
  }

  /// The result of an operation whose operands stand in front of the root, now there itself.
  Value moved(Operation *op) {
    if (!op->isBeforeInBlock(root))
      op->moveBefore(root);
    return op->getResult(0);
  }

  static void eraseUnread(Operation *op) {
    SmallVector<Operation *> open{op};
    while (!open.empty()) {
      Operation *unread = open.pop_back_val();
      llvm::SmallSetVector<Operation *, 2> producers;
      for (Value operand : unread->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          producers.insert(producer);
      unread->erase();
      for (Operation *producer : producers)
        if (producer->use_empty() && isa<BinaryOp, CastOp, DotGeneralOp>(producer))
          open.push_back(producer);
    }
  }

  Operation *root;
  OpBuilder builder;
};

struct StackProductsPass : mlir::autopar::impl::StackProductsPassBase<StackProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> sums;
    for (Operation &op : getOperation().getBody().front())
      if (isSum(&op) && !isTermOnly(op.getResult(0)))
        sums.push_back(&op);
    for (Operation *sum : sums)
      Stacking(sum).run();
  }
};

} // namespace
