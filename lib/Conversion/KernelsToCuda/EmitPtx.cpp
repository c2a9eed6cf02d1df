// SPDX-License-Identifier: Apache-2.0
// LLVM IR of one kernel to PTX: the O3 pipeline and the code generator, and the refusal of text
// that would need a library. Texts of several kernels join to one module.
#include "CudaStages.h"

#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Transforms/Vectorize/LoadStoreVectorizer.h"

#include <mutex>

using namespace llvm;

namespace autopar::cuda {
namespace {

void initializeNvptx() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

void optimize(Module &module, TargetMachine &machine) {
  PassBuilder builder(&machine);
  // Joins neighbouring accesses; the code generator would try only after it has taken addresses
  // apart, and then sees less of how they are aligned.
  optimizeKernel(module, builder, [](ModulePassManager &passes) {
    passes.addPass(createModuleToFunctionPassAdaptor(LoadStoreVectorizerPass()));
  });
}

/// The first function that the text declares without a body.
StringRef externalFunction(StringRef ptx) {
  constexpr StringRef external = ".extern";
  for (size_t at = 0; (at = ptx.find(external, at)) != StringRef::npos; at += external.size()) {
    StringRef line = ptx.substr(at).take_until([](char c) { return c == '\n'; });
    if (!line.starts_with(".extern .shared")) // dynamic shared memory
      return line;
  }
  return {};
}

constexpr StringRef kHeaderEnd = ".address_size 64";

} // namespace

Expected<std::unique_ptr<TargetMachine>> createPtxMachine() {
  initializeNvptx();
  Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const Target *found = TargetRegistry::lookupTarget(triple, error);
  if (!found)
    return createStringError("this LLVM cannot compile for NVIDIA GPUs: " + error);
  std::string chip = "sm_" + std::to_string(kPtxChip),
              features = "+ptx" + std::to_string(kPtxMajor * 10 + kPtxMinor);
  std::unique_ptr<TargetMachine> machine(
      found->createTargetMachine(triple, chip, features, TargetOptions(), std::nullopt,
                                 std::nullopt, CodeGenOptLevel::Aggressive));
  if (!machine)
    return createStringError("cannot create a code generator for " + chip);
  return machine;
}

Expected<KernelCode> emitPtx(Module &module, const std::string &kernel, TargetMachine &machine) {
  nameKernelModule(module, kernel, machine);
  if (Error error = verifyKernelModule(module))
    return std::move(error);
  optimize(module, machine);
  Expected<KernelCode> text = generateCode(module, machine, CodeGenFileType::AssemblyFile, "PTX");
  if (!text)
    return text;
  if (StringRef function = externalFunction(StringRef(text->data(), text->size()));
      !function.empty())
    return createStringError("needs '" + function +
                             "', but kernels are linked without any library; give the operation a "
                             "formula");
  return text;
}

std::string joinPtx(ArrayRef<Unit> units) {
  std::string joined;
  for (const Unit &unit : units) {
    StringRef text(unit.code.data(), unit.code.size());
    if (!joined.empty())
      text = text.substr(text.find(kHeaderEnd) + kHeaderEnd.size());
    joined += text;
  }
  return joined;
}

} // namespace autopar::cuda
