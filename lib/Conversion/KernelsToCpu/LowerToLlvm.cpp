// SPDX-License-Identifier: Apache-2.0
// Lowers one kernel from loops to the LLVM dialect. Two dialect conversions do the bulk (control
// flow first, all else at once): fewer passes than upstream's ten, which is a third of the compile
// time of a kernel.
#include "Stages.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Index/IR/IndexDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace autopar::cpu {
namespace {

/// What every caller promises about buffers, said in LLVM's attributes.
void annotateArguments(func::FuncOp kernel) {
  Builder builder(kernel.getContext());
  if (kernel->removeAttr("autopar.strided_results"))
    kernel->setAttr("passthrough", builder.getStrArrayAttr({stridedResults}));
  if (kernel->removeAttr("autopar.multiplies_bytes"))
    kernel->setAttr("passthrough", builder.getStrArrayAttr({multipliesBytes}));
  for (unsigned index = 0; index < kernel.getNumArguments(); ++index) {
    auto type = dyn_cast<MemRefType>(kernel.getArgument(index).getType());
    if (!type)
      continue;
    if (!kernel.removeArgAttr(index, builder.getStringAttr("autopar.may_alias")))
      kernel.setArgAttr(index, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    if (!kernel.getArgAttr(index, LLVM::LLVMDialect::getAlignAttrName()))
      kernel.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(),
                        builder.getI64IntegerAttr(64));
    if (int64_t bytes = mlir::autopar::tensorBytes(type))
      kernel.setArgAttr(index, LLVM::LLVMDialect::getDereferenceableAttrName(),
                        builder.getI64IntegerAttr(bytes));
  }
}

bool uses(ModuleOp module, llvm::function_ref<bool(Operation *)> predicate) {
  return module
      .walk([&](Operation *op) {
        return predicate(op) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

bool isView(Operation *op) {
  return isa<memref::SubViewOp, memref::CollapseShapeOp, memref::ExpandShapeOp,
             memref::ReinterpretCastOp, memref::ExtractStridedMetadataOp>(op);
}

bool isAffine(Operation *op) { return isa_and_nonnull<affine::AffineDialect>(op->getDialect()); }

LogicalResult runPasses(ModuleOp module) {
  PassManager passes(module.getContext());
  passes.enableVerifier(false);
  passes.addPass(createPrepareKernelsPass());
  if (uses(module, isView))
    passes.addPass(memref::createExpandStridedMetadataPass());
  if (uses(module, [](Operation *op) { return isView(op) || isAffine(op); }))
    passes.addPass(createLowerAffinePass());
  passes.addPass(createExpandNarrowFloatsPass());
  passes.addPass(createExpandMathPass());
  return passes.run(module);
}

LogicalResult convertToLlvm(ModuleOp module, const std::string &dataLayout) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  options.allocLowering = LowerToLLVMOptions::AllocLowering::None;
  options.overrideIndexBitwidth(64);
  options.dataLayout = llvm::DataLayout(dataLayout);
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  index::populateIndexToLLVMConversionPatterns(converter, patterns);
  ub::populateUBToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  return applyFullConversion(module, target, std::move(patterns));
}

} // namespace

std::unique_ptr<MLIRContext> createCpuKernelContext() {
  DialectRegistry registry;
  registry.insert<affine::AffineDialect, index::IndexDialect>();
  return createKernelContext(registry);
}

OwningOpRef<ModuleOp> lowerToLlvmDialect(const Unit &unit, MLIRContext &context,
                                         const std::string &dataLayout) {
  OwningOpRef<ModuleOp> module = parseUnit(unit, context, dataLayout);
  if (!module)
    return nullptr;
  annotateArguments(module->lookupSymbol<func::FuncOp>(unit.name));
  if (failed(runPasses(*module)) || failed(convertControlFlow(*module)) ||
      failed(convertToLlvm(*module, dataLayout)))
    return nullptr;
  return module;
}

} // namespace autopar::cpu
