// SPDX-License-Identifier: Apache-2.0
// LLVM IR of one kernel to object code: adds the exported wrapper, sets what the target wants on
// every function, runs the O3 pipeline and the code generator, and refuses objects that would need
// a library.
#include "Stages.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

using namespace llvm;

namespace autopar::cpu {
namespace {

void initializeX86() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

/// void name(ptr args, i64 begin, i64 end): loads the pointers and calls the body.
void addWrapper(Module &module, Function &body, const std::string &name) {
  body.setName(name + ".body");
  LLVMContext &context = module.getContext();
  auto *pointer = PointerType::getUnqual(context);
  auto *i64 = Type::getInt64Ty(context);
  auto *type = FunctionType::get(Type::getVoidTy(context), {pointer, i64, i64}, false);
  auto *wrapper = Function::Create(type, GlobalValue::ExternalLinkage, name, module);
  IRBuilder<> builder(BasicBlock::Create(context, "entry", wrapper));
  SmallVector<Value *> arguments;
  unsigned buffers = body.arg_size() - 2;
  for (unsigned index = 0; index < buffers; ++index) {
    Value *slot = builder.CreateConstInBoundsGEP1_64(pointer, wrapper->getArg(0), index);
    arguments.push_back(builder.CreateAlignedLoad(pointer, slot, Align(8)));
  }
  arguments.push_back(wrapper->getArg(1));
  arguments.push_back(wrapper->getArg(2));
  builder.CreateCall(&body, arguments);
  builder.CreateRetVoid();
}

void annotateFunctions(Module &module, const Function *exported, const LlvmTarget &target) {
  for (GlobalVariable &global : module.globals())
    if (!global.isDeclaration())
      global.setLinkage(GlobalValue::InternalLinkage); // each kernel has its own copy
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.cpu);
    std::string features = target.features;
    if (function.hasFnAttribute(multipliesBytes))
      features += features.empty() ? "+avx512vnni" : ",+avx512vnni";
    if (!features.empty())
      function.addFnAttr("target-features", features);
    function.addFnAttr("prefer-vector-width", std::to_string(target.vectorWidth));
    function.addFnAttr("no-builtins");
    function.addFnAttr(Attribute::NoUnwind);
    function.addFnAttr(Attribute::WillReturn);
    if (&function == exported)
      continue;
    function.setLinkage(GlobalValue::InternalLinkage);
    // Inlining the body into the wrapper would weaken what is known about its arguments.
    if (function.getName().ends_with(".body"))
      function.addFnAttr(Attribute::NoInline);
  }
}

void optimize(Module &module, TargetMachine &machine) {
  PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = tuning.LoopInterleaving =
      tuning.LoopUnrolling = true;
  PassBuilder builder(&machine, tuning);
  builder.registerLateLoopOptimizationsEPCallback(
      [](LoopPassManager &passes, OptimizationLevel) { passes.addPass(KeepVectorsPass()); });
  builder.registerLoopOptimizerEndEPCallback(
      [](LoopPassManager &passes, OptimizationLevel) { passes.addPass(KeepLoopsPass()); });
  builder.registerVectorizerStartEPCallback(
      [](FunctionPassManager &passes, OptimizationLevel) { passes.addPass(MaskMaximaPass()); });
  builder.registerOptimizerLastEPCallback(
      [](ModulePassManager &passes, OptimizationLevel, ThinOrFullLTOPhase) {
        passes.addPass(createModuleToFunctionPassAdaptor(PrefetchRowsPass()));
        passes.addPass(createModuleToFunctionPassAdaptor(SelectNarrowBitsPass()));
      });
  optimizeKernel(module, builder);
}

Error refuseUndefinedSymbols(const KernelCode &bytes) {
  auto object = object::ObjectFile::createELFObjectFile(
      MemoryBufferRef(StringRef(bytes.data(), bytes.size()), "kernel"));
  if (!object)
    return object.takeError();
  for (const object::SymbolRef &symbol : (*object)->symbols()) {
    Expected<uint32_t> flags = symbol.getFlags();
    if (!flags)
      return flags.takeError();
    if (!(*flags & object::SymbolRef::SF_Undefined))
      continue;
    Expected<StringRef> name = symbol.getName();
    if (!name)
      return name.takeError();
    if (!name->empty())
      return createStringError(
          "needs the function '" + *name +
          "', but kernels are linked without any library; give the operation a formula");
  }
  return Error::success();
}

} // namespace

Expected<std::unique_ptr<TargetMachine>> createTargetMachine(const LlvmTarget &target) {
  initializeX86();
  Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const Target *found = TargetRegistry::lookupTarget(triple, error);
  if (!found)
    return createStringError("this LLVM cannot compile for x86-64: " + error);
  TargetOptions options;
  std::unique_ptr<TargetMachine> machine(found->createTargetMachine(
      triple, target.cpu, target.features, options, Reloc::PIC_, std::nullopt,
      target.optimizes ? CodeGenOptLevel::Default : CodeGenOptLevel::None));
  if (!machine)
    return createStringError("cannot create a code generator for " + target.cpu);
  return machine;
}

Expected<KernelCode> emitObject(Module &module, const std::string &kernel, const LlvmTarget &target,
                                TargetMachine &machine) {
  nameKernelModule(module, kernel, machine);
  Function *body = module.getFunction(kernel);
  if (!body || body->isDeclaration())
    return createStringError("lost its function during lowering");
  addWrapper(module, *body, kernel);
  annotateFunctions(module, module.getFunction(kernel), target);
  if (Error error = verifyKernelModule(module))
    return std::move(error);
  if (target.optimizes) {
    optimize(module, machine);
    streamStores(module);
  }
  Expected<KernelCode> bytes =
      generateCode(module, machine, CodeGenFileType::ObjectFile, "x86-64 objects");
  if (!bytes)
    return bytes;
  if (Error error = refuseUndefinedSymbols(*bytes))
    return std::move(error);
  return bytes;
}

} // namespace autopar::cpu
