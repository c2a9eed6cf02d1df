// SPDX-License-Identifier: Apache-2.0
// The pass autopar-prepare-kernels: brings scratch and copies into the form that the lowering to
// LLVM expects. An alloca inside a loop would grow the stack with every iteration; a memref.copy
// would become a call of memcpy.
#include "autopar/Conversion/KernelsToCpu.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace autopar {
namespace {

constexpr int64_t scratchLimit = 1 << 20;

/// Moves the function's allocas to its entry and aligns them to cache lines.
LogicalResult hoistScratch(func::FuncOp function) {
  SmallVector<memref::AllocaOp> allocas;
  function.walk([&](memref::AllocaOp op) { allocas.push_back(op); });
  int64_t total = 0;
  Operation *anchor = nullptr;
  for (memref::AllocaOp op : allocas) {
    MemRefType type = op.getType();
    if (!type.hasStaticShape() || !type.getLayout().isIdentity())
      return op.emitOpError("expected scratch of static shape and identity layout, got ") << type;
    total += mlir::autopar::tensorBytes(type);
    if (total > scratchLimit)
      return op.emitOpError("scratch of ")
             << total << " bytes is more than the " << scratchLimit
             << " bytes a kernel may keep on the stack; pass a buffer instead";
    op.setAlignment(64);
    if (anchor)
      op->moveAfter(anchor);
    else
      op->moveBefore(&function.getBody().front(), function.getBody().front().begin());
    anchor = op;
  }
  return success();
}

/// memref.copy becomes a loop nest of loads and stores.
LogicalResult expandCopy(memref::CopyOp op) {
  auto type = cast<MemRefType>(op.getSource().getType());
  if (!type.hasStaticShape())
    return op.emitOpError("expected a source of static shape, got ") << type;
  OpBuilder builder(op);
  Location loc = op.getLoc();
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  Value one = arith::ConstantIndexOp::create(builder, loc, 1);
  SmallVector<Value> indices;
  for (int64_t size : type.getShape()) {
    Value end = arith::ConstantIndexOp::create(builder, loc, size);
    auto loop = scf::ForOp::create(builder, loc, zero, end, one);
    indices.push_back(loop.getInductionVar());
    builder.setInsertionPointToStart(loop.getBody());
  }
  Value element = memref::LoadOp::create(builder, loc, op.getSource(), indices);
  memref::StoreOp::create(builder, loc, element, op.getTarget(), indices);
  op.erase();
  return success();
}

struct PrepareKernelsPass : PassWrapper<PrepareKernelsPass, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(PrepareKernelsPass)

  StringRef getArgument() const final { return "autopar-prepare-kernels"; }
  StringRef getDescription() const final {
    return "hoist scratch to the entry and turn copies into loops";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, memref::MemRefDialect, scf::SCFDialect>();
  }
  void runOnOperation() final {
    SmallVector<memref::CopyOp> copies;
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      auto heap = function.walk([&](memref::AllocOp op) {
        op.emitOpError("kernels must not allocate memory; use memref.alloca for small scratch or "
                       "pass a buffer");
        return WalkResult::interrupt();
      });
      if (heap.wasInterrupted() || failed(hoistScratch(function)))
        return signalPassFailure();
      function.walk([&](memref::CopyOp op) { copies.push_back(op); });
    }
    for (memref::CopyOp op : copies)
      if (failed(expandCopy(op)))
        return signalPassFailure();
  }
};

} // namespace

std::unique_ptr<Pass> createPrepareKernelsPass() { return std::make_unique<PrepareKernelsPass>(); }

void registerKernelsToCpuPasses() {
  registerPass(createExpandMathPass);
  registerPass(createExpandNarrowFloatsPass);
  registerPass(createPrepareKernelsPass);
}

} // namespace autopar
