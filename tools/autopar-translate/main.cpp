// SPDX-License-Identifier: Apache-2.0
// autopar-translate: between AutoPar's representations and other formats.
#include "Modes.h"

#include "autopar/Base/OutputFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

using namespace autopar::translate;

namespace {

namespace cl = llvm::cl;

struct Flags {
  cl::OptionCategory category{"autopar-translate"};
  cl::opt<std::string> onnx{"import-onnx", cl::desc("ONNX model to print as MLIR"),
                            cl::value_desc("model.onnx"), cl::cat(category)};
  cl::list<std::string> bindings{"bind",
                                 cl::desc("extents of symbolic dimensions, as in batch=8,seq=128"),
                                 cl::value_desc("name=N,..."), cl::cat(category)};
  cl::list<std::string> fixInputs{"fix-input",
                                  cl::desc("inputs that are always this number, as in sr=16000"),
                                  cl::value_desc("input=number,..."), cl::cat(category)};
  cl::opt<std::string> update{"update-onnx", cl::desc("ONNX model to write with other weights"),
                              cl::value_desc("model.onnx"), cl::cat(category)};
  cl::opt<std::string> weights{
      "weights", cl::desc("with --update-onnx: the weights, as autopar-run --export writes them"),
      cl::value_desc("weights.safetensors"), cl::cat(category)};
  cl::opt<std::string> adapters{
      "adapters",
      cl::desc("with --update-onnx: what adapters the weights are, to be added to the matrices "
               "beside which they were trained"),
      cl::value_desc("lora(rank=8, alpha=16)"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("file to write (default: standard output)"),
                              cl::value_desc("file"), cl::init("-"), cl::cat(category)};
  cl::opt<bool> operators{"onnx-operators", cl::desc("list the ONNX operators that import knows"),
                          cl::cat(category)};
  cl::opt<std::string> dump{"dump", cl::desc("artifact to print as text"),
                            cl::value_desc("compiled.bin"), cl::cat(category)};
  cl::opt<bool> withText{"with-text", cl::desc("with --dump: the plan and source too"),
                         cl::cat(category)};
  cl::opt<std::string> extract{
      "extract-kernels",
      cl::desc("artifact whose kernels to write as a shared object, for a disassembler"),
      cl::value_desc("compiled.bin"), cl::cat(category)};
  cl::opt<std::string> exec{"exec-to-artifact",
                            cl::desc("module of the exec dialect to write as artifact"),
                            cl::value_desc("exec.mlir"), cl::cat(category)};
};

int translate(const Flags &flags) {
  if (int modes = !flags.onnx.empty() + flags.operators + !flags.update.empty() +
                  !flags.dump.empty() + !flags.extract.empty() + !flags.exec.empty();
      modes != 1) {
    llvm::errs() << "autopar-translate: expected one of --import-onnx MODEL, --onnx-operators, "
                    "--update-onnx MODEL, --dump ARTIFACT, --extract-kernels ARTIFACT and "
                    "--exec-to-artifact MODULE, "
                    "got "
                 << modes << " (see --help)\n";
    return usage;
  }
  if (!(flags.bindings.empty() && flags.fixInputs.empty()) && flags.onnx.empty()) {
    llvm::errs() << "autopar-translate: --bind and --fix-input go with --import-onnx\n";
    return usage;
  }
  if (flags.withText && flags.dump.empty()) {
    llvm::errs() << "autopar-translate: --with-text goes with --dump\n";
    return usage;
  }
  if (!(flags.weights.empty() && flags.adapters.empty()) && flags.update.empty()) {
    llvm::errs() << "autopar-translate: --weights and --adapters go with --update-onnx\n";
    return usage;
  }
  if (!flags.onnx.empty())
    return importOnnxFile(flags.onnx, flags.bindings, flags.fixInputs, flags.output);
  if (!flags.update.empty())
    return updateOnnxFile(flags.update, flags.weights, flags.adapters, flags.output);
  if (flags.operators)
    return listOnnxOperators(flags.output);
  if (!flags.dump.empty())
    return dumpArtifactFile(flags.dump, flags.withText, flags.output);
  if (!flags.extract.empty())
    return extractKernelsFile(flags.extract, flags.output);
  return emitArtifactFile(flags.exec, flags.output);
}

} // namespace

int main(int argc, char **argv) {
  ::autopar::refuseOversizedFiles();
  llvm::InitLLVM init(argc, argv);
  cl::extrahelp examples(R"(
EXAMPLES:

  autopar-translate --import-onnx gpt2.onnx --bind batch=8,seq=128 -o model.mlir
  autopar-translate --update-onnx gpt2.onnx --weights weights.safetensors -o trained.onnx
  autopar-translate --dump compiled.bin
  autopar-translate --exec-to-artifact program.mlir -o compiled.bin
  autopar-translate --extract-kernels compiled.bin -o kernels.so && llvm-objdump-22 -d kernels.so
)");
  Flags flags;
  cl::HideUnrelatedOptions(flags.category);
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "autopar-translate " AUTOPAR_VERSION "\n"; });
  if (!cl::ParseCommandLineOptions(
          argc, argv, "translates between AutoPar's representations and other formats\n",
          &llvm::errs()))
    return usage;
  return translate(flags);
}
