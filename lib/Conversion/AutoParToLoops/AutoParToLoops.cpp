// SPDX-License-Identifier: Apache-2.0
// The pass that shows kernels: for people who read them and for tests.
#include "autopar/Conversion/AutoParToLoops.h"

#include "LoweringModels.h"

#include "autopar/Conversion/Passes.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_AUTOPARTOLOOPSPASS
#include "autopar/Conversion/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

/// Whether `op` becomes a kernel, as opposed to a view, a buffer, a library call or a collective.
static bool becomesKernel(Operation *op) {
  if (auto group = dyn_cast<GroupOp>(op))
    return llvm::none_of(group.getBody().front(),
                         [](Operation &inner) { return isLibraryContraction(&inner); });
  return isa<ElementLoweringOpInterface, KernelLoweringOpInterface>(op) &&
         !op->hasTrait<OpTrait::ConstantLike>() && !isa<ReshapeOp>(op) && !isLibraryContraction(op);
}

namespace {
struct AutoParToLoopsPass : public mlir::autopar::impl::AutoParToLoopsPassBase<AutoParToLoopsPass> {
  using Base::Base;
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    auto kernels = ModuleOp::create(builder, module.getLoc(), StringRef("kernels"));
    for (func::FuncOp function : functions) {
      int64_t count = 0;
      WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) {
        if (!becomesKernel(op))
          return isa<GroupOp>(op) ? WalkResult::skip() : WalkResult::advance();
        std::string name = function.getName().str() + "_" + std::to_string(count++);
        int64_t extent = 0;
        FailureOr<func::FuncOp> kernel = emitKernel(op, kernels, name, extent, {}, target);
        if (failed(kernel))
          return WalkResult::interrupt();
        (*kernel)->setAttr("autopar.extent", builder.getI64IntegerAttr(extent));
        return WalkResult::skip();
      });
      if (result.wasInterrupted())
        return signalPassFailure();
    }
  }
};
} // namespace
