// SPDX-License-Identifier: Apache-2.0
// autopar-translate: between AutoPar's representations and other formats.
#include "Modes.h"

#include "autopar/Base/OutputFile.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/raw_ostream.h"

using namespace autopar::translate;

int main(int argc, char **argv) {
  ::autopar::refuseOversizedFiles();
  llvm::InitLLVM init(argc, argv);
  llvm::cl::extrahelp examples(R"(
EXAMPLES:

  autopar-translate --import-onnx gpt2.onnx --bind batch=8,seq=128 -o model.mlir
  autopar-translate --dump compiled.bin
  autopar-translate --exec-to-artifact program.mlir -o compiled.bin
  autopar-translate --extract-kernels compiled.bin -o kernels.so && llvm-objdump-22 -d kernels.so
)");
  llvm::cl::OptionCategory category("autopar-translate");
  llvm::cl::opt<std::string> onnx("import-onnx", llvm::cl::desc("ONNX model to print as MLIR"),
                                  llvm::cl::value_desc("model.onnx"), llvm::cl::cat(category));
  llvm::cl::list<std::string> bindings(
      "bind", llvm::cl::desc("extents of symbolic dimensions, as in batch=8,seq=128"),
      llvm::cl::value_desc("name=N,..."), llvm::cl::cat(category));
  llvm::cl::opt<std::string> output("o", llvm::cl::desc("file to write (default: standard output)"),
                                    llvm::cl::value_desc("file"), llvm::cl::init("-"),
                                    llvm::cl::cat(category));
  llvm::cl::opt<bool> operators("onnx-operators",
                                llvm::cl::desc("list the ONNX operators that import knows"),
                                llvm::cl::cat(category));
  llvm::cl::opt<std::string> dump("dump", llvm::cl::desc("artifact to print as text"),
                                  llvm::cl::value_desc("compiled.bin"), llvm::cl::cat(category));
  llvm::cl::opt<bool> withText("with-text", llvm::cl::desc("with --dump: the plan and source too"),
                               llvm::cl::cat(category));
  llvm::cl::opt<std::string> extract("extract-kernels",
                                     llvm::cl::desc("artifact whose kernels to write as a shared "
                                                    "object, for a disassembler"),
                                     llvm::cl::value_desc("compiled.bin"), llvm::cl::cat(category));
  llvm::cl::opt<std::string> exec("exec-to-artifact",
                                  llvm::cl::desc("module of the exec dialect to write as artifact"),
                                  llvm::cl::value_desc("exec.mlir"), llvm::cl::cat(category));
  llvm::cl::HideUnrelatedOptions(category);
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "autopar-translate " AUTOPAR_VERSION "\n"; });
  if (!llvm::cl::ParseCommandLineOptions(
          argc, argv, "translates between AutoPar's representations and other formats\n",
          &llvm::errs()))
    return usage;
  if (int modes = !onnx.empty() + operators + !dump.empty() + !extract.empty() + !exec.empty();
      modes != 1) {
    llvm::errs() << "autopar-translate: expected one of --import-onnx MODEL, --onnx-operators, "
                    "--dump ARTIFACT, --extract-kernels ARTIFACT and --exec-to-artifact MODULE, "
                    "got "
                 << modes << " (see --help)\n";
    return usage;
  }
  if (!bindings.empty() && onnx.empty()) {
    llvm::errs() << "autopar-translate: --bind goes with --import-onnx\n";
    return usage;
  }
  if (withText && dump.empty()) {
    llvm::errs() << "autopar-translate: --with-text goes with --dump\n";
    return usage;
  }
  if (!onnx.empty())
    return importOnnxFile(onnx, bindings, output);
  if (operators)
    return listOnnxOperators(output);
  if (!dump.empty())
    return dumpArtifactFile(dump, withText, output);
  if (!extract.empty())
    return extractKernelsFile(extract, output);
  return emitArtifactFile(exec, output);
}
