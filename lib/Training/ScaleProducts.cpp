// SPDX-License-Identifier: Apache-2.0
// The pass autopar-scale-products: which products of the forward function are computed in floats of
// 8 bits. The choice is that of public recipes (torchao's "rowwise_with_gw_hp", torchtitan):
// products with weights, but for the output layer and for what routes tokens to experts, whose
// choice rounding would change. Their gradients follow (ContractionGradients.cpp).
#include "LeadingOn.h"
#include "NamePatterns.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Training/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SCALEPRODUCTSPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Rows of 8 bits that GPUs multiply are a multiple of 16 bytes.
constexpr int64_t kStep = 16;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A product with a weight of 16 bits.
struct WeightProduct {
  DotGeneralOp op;
  BlockArgument weight; ///< null where it is none

  explicit WeightProduct(Operation *any) : op(dyn_cast<DotGeneralOp>(any)) {
    for (Value operand : op ? op->getOperands() : ValueRange())
      if (BlockArgument parameter = parameterIn(operand);
          parameter && typeOf(operand).getElementType().isBF16())
        weight = parameter;
  }
  explicit operator bool() const { return weight != nullptr; }

  /// Whether both what is summed and what is made of a row have even sizes, forward and back.
  bool isEven() {
    RankedTensorType lhs = typeOf(op.getLhs()), rhs = typeOf(op.getRhs());
    bool isLhs = parameterIn(op.getLhs()) == weight;
    return extentOf(lhs, op.getLhsContract()) % kStep == 0 &&
           (isLhs ? extentOf(lhs, op.getLhsFree()) : extentOf(rhs, op.getRhsFree())) % kStep == 0;
  }
};

struct ScaleProductsPass : mlir::autopar::impl::ScaleProductsPassBase<ScaleProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock()) {
      getOperation().emitError("expected a function @main of one block to scale products of");
      return signalPassFailure();
    }
    FailureOr<NamePatterns> kept = NamePatterns::of(getOperation(), "keep-bf16", keep);
    if (failed(kept))
      return signalPassFailure();
    DenseSet<BlockArgument> isKept;
    for (BlockArgument argument : function.getArguments())
      if (isParameter(argument) &&
          kept->match(ParameterNames(argument)) != NamePatterns::Match::None)
        isKept.insert(argument);
    if (failed(kept->checkUsed(getOperation())))
      return signalPassFailure();
    int64_t scaled = 0;
    auto type = TypeAttr::get(Float8E4M3FNType::get(&getContext()));
    Block &block = function.getBody().front();
    DenseSet<Operation *> inner =
        leadingOn(block, [](Operation *op) { return static_cast<bool>(WeightProduct(op)); });
    for (Operation &op : block) {
      WeightProduct product(&op);
      if (product && inner.contains(&op) && product.isEven() && !isKept.contains(product.weight)) {
        product.op.setScaledToAttr(type);
        ++scaled;
      }
    }
    if (scaled == 0) {
      getOperation().emitError()
          << "no product can be computed in 8 bits: expected one of f32 or bf16 with a weight "
             "of rows and columns that are multiples of 16, before the last; compile with "
             "--precision bf16 or f32";
      return signalPassFailure();
    }
    emitRemark(function.getLoc()) << scaled << (scaled == 1 ? " product is" : " products are")
                                  << " computed in floats of 8 bits";
  }
};

} // namespace
