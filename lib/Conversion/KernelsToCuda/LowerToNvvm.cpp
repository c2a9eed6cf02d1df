// SPDX-License-Identifier: Apache-2.0
// Lowers one kernel from loops and gpu operations to the LLVM and NVVM dialects. Math functions are
// formulas before anything could make calls of NVIDIA's device library of them.
#include "CudaStages.h"

#include "autopar/Conversion/KernelMath.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVGPUToNVVM/NVGPUToNVVM.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/DialectConversion.h"

using namespace mlir;

namespace autopar::cuda {
namespace {

/// Positions are within buffers: they never leave the signed range.
void markPositions(func::FuncOp kernel) {
  auto flags =
      arith::IntegerOverflowFlagsAttr::get(kernel.getContext(), arith::IntegerOverflowFlags::nsw);
  kernel.walk([&](Operation *op) {
    if (isa<arith::AddIOp, arith::MulIOp>(op) && op->getResult(0).getType().isIndex())
      op->setAttr("overflowFlags", flags);
  });
}

/// Shared buffers of the kernel become globals of the module; one of no elements is the dynamic
/// shared memory, which a module only declares.
void outlineShared(func::FuncOp kernel) {
  SmallVector<memref::AllocaOp> shared;
  kernel.walk([&](memref::AllocaOp op) {
    if (isa_and_nonnull<gpu::AddressSpaceAttr>(op.getType().getMemorySpace()))
      shared.push_back(op);
  });
  for (auto [number, op] : llvm::enumerate(shared)) {
    OpBuilder builder(kernel);
    std::string name = kernel.getSymName().str() + "_shared_" + std::to_string(number);
    bool isDynamic = op.getType().getNumElements() == 0;
    memref::GlobalOp::create(builder, op.getLoc(), name,
                             isDynamic ? StringAttr() : builder.getStringAttr("private"),
                             op.getType(), isDynamic ? Attribute() : builder.getUnitAttr(),
                             /*constant=*/false, op.getAlignmentAttr());
    builder.setInsertionPoint(op);
    op.replaceAllUsesWith(
        memref::GetGlobalOp::create(builder, op.getLoc(), op.getType(), name).getResult());
    op.erase();
  }
}

/// What is a machine instruction and no formula: intrinsics of LLVM, before a pattern could make
/// calls of NVIDIA's device library.
LogicalResult convertMath(ModuleOp module) {
  LLVMTypeConverter converter(module.getContext());
  RewritePatternSet patterns(module.getContext());
  populateMathToLLVMConversionPatterns(converter, patterns, /*approximateLog1p=*/false);
  ConversionTarget target(*module.getContext());
  target.addIllegalDialect<math::MathDialect>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  return applyPartialConversion(module, target, std::move(patterns));
}

LogicalResult convertToNvvm(ModuleOp module, const std::string &dataLayout, unsigned indexBits) {
  MLIRContext *context = module.getContext();
  LowerToLLVMOptions options(context);
  options.useBarePtrCallConv = true;
  options.allocLowering = LowerToLLVMOptions::AllocLowering::None;
  options.overrideIndexBitwidth(indexBits);
  options.dataLayout = llvm::DataLayout(dataLayout);
  LLVMTypeConverter converter(context, options);
  configureGpuToNVVMTypeConverter(converter);
  // What a copy is part of is known by order.
  converter.addConversion([](nvgpu::DeviceAsyncTokenType type) -> Type {
    return IntegerType::get(type.getContext(), 32);
  });
  RewritePatternSet patterns(context);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  ub::populateUBToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  populateNVGPUToNVVMConversionPatterns(converter, patterns);
  // Last, because it would also make calls of NVIDIA's device library.
  populateGpuToNVVMConversionPatterns(converter, patterns, /*benefit=*/0);
  LLVMConversionTarget target(*context);
  target.addLegalOp<ModuleOp>();
  target.addLegalDialect<NVVM::NVVMDialect>();
  return applyFullConversion(module, target, std::move(patterns));
}

/// What every launch promises.
void annotateKernel(LLVM::LLVMFuncOp kernel, ArrayRef<int64_t> grid, bool fewBlocks) {
  Builder builder(kernel.getContext());
  kernel->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), builder.getUnitAttr());
  kernel->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                  builder.getDenseI32ArrayAttr({static_cast<int32_t>(grid[1])}));
  if (fewBlocks)
    kernel->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), builder.getI32IntegerAttr(1));
  for (unsigned index = 0; index < kernel.getNumArguments(); ++index) {
    kernel.setArgAttr(index, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
    kernel.setArgAttr(index, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(64));
  }
}

} // namespace

std::unique_ptr<MLIRContext> createCudaKernelContext() {
  DialectRegistry registry;
  registry.insert<gpu::GPUDialect, nvgpu::NVGPUDialect, NVVM::NVVMDialect>();
  registerNVVMDialectTranslation(registry);
  return createKernelContext(registry);
}

OwningOpRef<ModuleOp> lowerToNvvm(const Unit &unit, MLIRContext &context,
                                  const std::string &dataLayout) {
  OwningOpRef<ModuleOp> module = parseUnit(unit, context, dataLayout);
  if (!module)
    return nullptr;
  auto kernel = module->lookupSymbol<func::FuncOp>(unit.name);
  SmallVector<int64_t> grid(
      cast<DenseI64ArrayAttr>(kernel->removeAttr("autopar.grid")).asArrayRef());
  unsigned indexBits = narrowPositions(kernel, grid);
  bool fewBlocks = static_cast<bool>(kernel->removeAttr("autopar.few_blocks"));
  markPositions(kernel);
  outlineShared(kernel);
  PassManager passes(&context);
  passes.enableVerifier(false);
  passes.addPass(createExpandMathForCudaPass());
  if (failed(passes.run(*module)) || failed(convertControlFlow(*module)) ||
      failed(convertMath(*module)) || failed(convertToNvvm(*module, dataLayout, indexBits)))
    return nullptr;
  annotateKernel(module->lookupSymbol<LLVM::LLVMFuncOp>(unit.name), grid, fewBlocks);
  return module;
}

} // namespace autopar::cuda
