// SPDX-License-Identifier: Apache-2.0
// One kernel as a module: the context that holds it, its text read, its loops lowered to blocks,
// its LLVM IR optimized and turned into code.
#include "autopar/Conversion/KernelUnits.h"

#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace autopar {

std::unique_ptr<MLIRContext> createKernelContext(DialectRegistry &registry) {
  registry.insert<func::FuncDialect, scf::SCFDialect, memref::MemRefDialect, arith::ArithDialect,
                  math::MathDialect, cf::ControlFlowDialect, ub::UBDialect, vector::VectorDialect,
                  LLVM::LLVMDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  context->allowUnregisteredDialects(); // attributes of the caller's dialects may ride along
  context->printOpOnDiagnostic(false);
  return context;
}

OwningOpRef<ModuleOp> parseUnit(const KernelUnit &unit, MLIRContext &context,
                                const std::string &dataLayout) {
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(unit.text, ParserConfig(&context, /*verifyAfterParse=*/true));
  if (module)
    (*module)->setAttr(LLVM::LLVMDialect::getDataLayoutAttrName(),
                       StringAttr::get(&context, dataLayout));
  return module;
}

LogicalResult convertControlFlow(ModuleOp module) {
  RewritePatternSet patterns(module.getContext());
  populateSCFToControlFlowConversionPatterns(patterns);
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  ConversionTarget target(*module.getContext());
  target.addIllegalDialect<scf::SCFDialect>();
  target.addIllegalOp<arith::CeilDivSIOp, arith::CeilDivUIOp, arith::FloorDivSIOp>();
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  return applyPartialConversion(module, target, std::move(patterns));
}

void nameKernelModule(llvm::Module &module, const std::string &kernel,
                      llvm::TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  module.setSourceFileName(kernel);
  module.setModuleIdentifier(kernel);
}

llvm::Error verifyKernelModule(const llvm::Module &module) {
  std::string broken;
  llvm::raw_string_ostream stream(broken);
  if (llvm::verifyModule(module, &stream))
    return llvm::createStringError("lowered to invalid LLVM IR: " + broken);
  return llvm::Error::success();
}

llvm::Expected<KernelCode> generateCode(llvm::Module &module, llvm::TargetMachine &machine,
                                        llvm::CodeGenFileType type, llvm::StringRef what) {
  KernelCode code;
  llvm::raw_svector_ostream stream(code);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, stream, nullptr, type))
    return llvm::createStringError("this LLVM cannot write " + what);
  codegen.run(module);
  return code;
}

void optimizeKernel(llvm::Module &module, llvm::PassBuilder &builder,
                    llvm::function_ref<void(llvm::ModulePassManager &)> addLast) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  llvm::ModulePassManager passes =
      builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3);
  if (addLast)
    addLast(passes);
  passes.run(module, modules);
}

} // namespace autopar
