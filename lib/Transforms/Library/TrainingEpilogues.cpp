// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/TrainingEpilogues.h"

#include "Stages/Recompute.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Transforms/LibraryContraction.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

/// Rows of what the library reads or stores beside a result have a multiple of so many elements.
static constexpr int64_t kStep = 8;

std::optional<EpilogueMode> mlir::autopar::epilogueModeFromName(StringRef name) {
  return llvm::StringSwitch<std::optional<EpilogueMode>>(name)
      .Case("auto", EpilogueMode::Automatic)
      .Case("kernels", EpilogueMode::Kernels)
      .Default(std::nullopt);
}

FailureOr<EpilogueMode> mlir::autopar::epilogueModeOf(Operation *op, StringRef name) {
  if (std::optional<EpilogueMode> mode = epilogueModeFromName(name))
    return *mode;
  return op->emitError() << "unknown mode \"" << name << "\"; expected auto or kernels";
}

/// One matrix of bf16 or f16 by another, of multiples of eight rows and columns. Over one term the
/// library has neither gradients nor sums.
static bool isEven(DotGeneralOp product) {
  RankedTensorType lhs = product.getLhs().getType(), rhs = product.getRhs().getType();
  Type element = lhs.getElementType();
  return (element.isBF16() || element.isF16()) && isLibraryContraction(product) &&
         extentOf(lhs, product.getLhsBatch()) == 1 && extentOf(lhs, product.getLhsContract()) > 1 &&
         extentOf(lhs, product.getLhsFree()) % kStep == 0 &&
         extentOf(rhs, product.getRhsFree()) % kStep == 0;
}

bool mlir::autopar::takesActivationInTraining(DotGeneralOp product, UnaryKind activation) {
  return (activation == UnaryKind::GeluTanh || activation == UnaryKind::Relu) && isEven(product) &&
         product.getType().getElementType() == product.getLhs().getType().getElementType();
}

UnaryOp mlir::autopar::activationInTraining(DotGeneralOp product, Value given) {
  if (!takesActivationInTraining(product, UnaryKind::GeluTanh))
    return {};
  for (Operation *user : given.getUsers()) {
    auto gelu = dyn_cast<UnaryOp>(user);
    if (!gelu || gelu.getKind() != UnaryKind::GeluTanh)
      continue;
    bool isAlone = isComputedAgain(gelu) || llvm::any_of(gelu->getUsers(), [](Operation *user) {
                     return isa<CastOp>(user) && isComputedAgain(user);
                   });
    if (!isAlone || isComputedAgain(product))
      return gelu;
  }
  return {};
}

DotGeneralOp mlir::autopar::productTaking(UnaryGradOp gradient, bool throughCasts) {
  Value multiplied = gradient.getGradient();
  if (multiplied == gradient.getInput())
    return {};
  auto isPassed = [&](Operation *op) {
    return isa_and_nonnull<ReshapeOp>(op) || (throughCasts && isa_and_nonnull<CastOp>(op));
  };
  while (multiplied.hasOneUse() && isPassed(multiplied.getDefiningOp()))
    multiplied = multiplied.getDefiningOp()->getOperand(0);
  auto product = multiplied.getDefiningOp<DotGeneralOp>();
  bool fits =
      product && multiplied.hasOneUse() && takesActivationInTraining(product, gradient.getKind());
  return fits ? product : DotGeneralOp();
}

/// Whether a value is a constant that is repeated or cast.
static bool isConstant(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<BroadcastOp, CastOp, ReshapeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op && op->hasTrait<OpTrait::ConstantLike>();
}

bool mlir::autopar::hasOtherEpilogue(DotGeneralOp product) {
  if (!product.getResult().hasOneUse())
    return false;
  Operation *user = *product->user_begin();
  auto binary = dyn_cast<BinaryOp>(user);
  bool isScale = binary && binary.getKind() != BinaryKind::Add &&
                 llvm::any_of(binary->getOperands(), isConstant);
  return isScale || isa<UnaryOp, UnaryGradOp>(user);
}

/// The first sum of an operand of `product` over its contracted dimensions that is wanted and of
/// the product's type.
static ReduceOp firstSum(DotGeneralOp product, Value operand,
                         function_ref<bool(ReduceOp)> isWanted) {
  auto sorted = [](ArrayRef<int64_t> dims) {
    SmallVector<int64_t> list(dims);
    llvm::sort(list);
    return list;
  };
  SmallVector<int64_t> contracted =
      sorted(product.getLhs() == operand ? product.getLhsContract() : product.getRhsContract());
  ReduceOp first;
  auto consider = [&](Operation *user) {
    auto sum = dyn_cast<ReduceOp>(user);
    if (sum && sum.getKind() == ReduceKind::Sum && sorted(sum.getDims()) == contracted &&
        sum.getType().getElementType() == product.getType().getElementType() &&
        sum->getBlock() == product->getBlock() && isWanted(sum) &&
        (!first || sum->isBeforeInBlock(first)))
      first = sum;
  };
  for (Operation *user : operand.getUsers()) {
    consider(user);
    if (auto cast = dyn_cast<CastOp>(user); cast && cast.isWidening())
      llvm::for_each(cast->getUsers(), consider);
  }
  return first;
}

llvm::MapVector<DotGeneralOp, ReduceOp>
mlir::autopar::sumsOfProducts(Block &block, function_ref<bool(DotGeneralOp, ReduceOp)> isWanted) {
  llvm::MapVector<DotGeneralOp, ReduceOp> sums;
  DenseSet<Operation *> taken;
  for (auto product : block.getOps<DotGeneralOp>()) {
    if (product.getLhs() == product.getRhs() || !isEven(product))
      continue;
    for (Value operand : {product.getRhs(), product.getLhs()}) {
      ReduceOp sum = firstSum(product, operand, [&](ReduceOp one) {
        return !taken.contains(one) && isWanted(product, one);
      });
      if (!sum)
        continue;
      taken.insert(sum);
      sums[product] = sum;
      break;
    }
  }
  return sums;
}
