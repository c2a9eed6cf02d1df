// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "KernelTraffic.h"

#include "Fusion/CheapArithmetic.h"
#include "Fusion/FusionClusters.h"
#include "Fusion/RepeatInUsers.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/LibraryEpilogue.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;

static bool isLight(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  return cost && cost.isLight();
}

/// What groups clone is never stored, but for the function's own results. Other cheap operations
/// are where all users compute too: in another light operation, or in the loop of one that reads
/// each element once.
bool mlir::autopar::livesInUsers(Operation *op) {
  auto cast = dyn_cast<CastOp>(op);
  bool isWideOutput =
      cast && cast.isWidening() && llvm::any_of(cast->getUsers(), [](Operation *user) {
        return user->hasTrait<OpTrait::IsTerminator>();
      });
  if (op->getNumOperands() > 0 && isFluid(op) && !isWideOutput)
    return true;
  if (!isLight(op))
    return false;
  Value result = op->getResult(0);
  bool isRead = result.hasOneUse() && llvm::all_of(result.getUsers(), [&](Operation *user) {
                  return isLight(user) || readsOnce(user, result);
                });
  return isRead || op->hasTrait<OpTrait::ConstantLike>() || isCheaperInUsers(op);
}

/// The one user of a value, seen through views and casts that no other kernel reads either.
static Operation *onlyUser(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!isa<CastOp, ReshapeOp>(user))
      return user;
    value = user->getResult(0);
  }
  return nullptr;
}

/// Whether a row operation gives each element to the one light operation behind it.
static bool isHandedOn(Value value) {
  Operation *op = value.getDefiningOp();
  auto lowering = dyn_cast_or_null<ElementLoweringOpInterface>(op);
  if (!lowering || isFixed(op) || op->getNumResults() != 1)
    return false;
  RowDomain rows = lowering.getRowDomain();
  Operation *user = rows && !rows.reduces ? onlyUser(value) : nullptr;
  return user && isLight(user) && readsOnce(user, value);
}

/// Whether products compute it as they store their results, for any library.
static bool isEpilogue(Operation *op) {
  if (auto binary = dyn_cast<BinaryOp>(op))
    return binary.getKind() == BinaryKind::Add;
  if (auto unary = dyn_cast<UnaryOp>(op))
    return isEpilogueActivation(unary.getKind());
  return isa<CastOp, ReshapeOp, AccumulateOp>(op);
}

/// Whether a product stores the value, which only one reads: its result or what its epilogue made
/// of that.
static bool isOfProduct(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !value.hasOneUse())
    return false;
  return isa<DotGeneralOp>(op) || (isEpilogue(op) && llvm::any_of(op->getOperands(), isOfProduct));
}

static double bytesOf(Value value) { return static_cast<double>(tensorBytes(tensorTypeOf(value))); }

namespace {
/// What one kernel reads.
class Reads {
public:
  explicit Reads(bool isInProduct) : isInProduct(isInProduct) {}

  /// Bytes from memory for one of `value`: none of what has been read before.
  double of(Value value) {
    Operation *op = value.getDefiningOp();
    bool isAtHand =
        isHandedOn(value) || (isInProduct && isOfProduct(value) && isa<DotGeneralOp>(op));
    if (isAtHand || !seen.insert(value).second)
      return 0;
    if (!op || !livesInUsers(op))
      return 1;
    double bytes = 0, own = bytesOf(value);
    for (Value operand : op->getOperands())
      bytes += std::min(bytesOf(operand), own) * of(operand);
    return own > 0 ? bytes / own : 1;
  }

private:
  bool isInProduct;
  DenseSet<Value> seen;
};
} // namespace

KernelTraffic mlir::autopar::kernelTrafficOf(Operation *op) {
  KernelTraffic traffic{{}, SmallVector<double, 2>(op->getNumResults(), 1)};
  auto cast = dyn_cast<CastOp>(op);
  bool isInProduct = isEpilogue(op) && !(cast && cast.isWidening()) &&
                     llvm::any_of(op->getOperands(), isOfProduct);
  if (isInProduct)
    llvm::fill(traffic.writes, 0);
  for (auto [share, result] : llvm::zip_equal(traffic.writes, op->getResults()))
    if (isHandedOn(result))
      share = 0;
  // Other kernels read what lies in memory.
  bool isInKernel = isLight(op) || (isa<ElementLoweringOpInterface>(op) && !isFixed(op));
  Reads reads(isInProduct);
  for (Value operand : op->getOperands())
    traffic.reads.push_back(isInKernel ? reads.of(operand) : 1);
  return traffic;
}
