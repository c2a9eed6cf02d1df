// SPDX-License-Identifier: Apache-2.0
// autopar-translate --import-onnx: prints an ONNX model as MLIR; --onnx-operators: what it may use.
#include "Modes.h"

#include "autopar/Import/Onnx/OnnxImporter.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"

namespace autopar::translate {

int importOnnxFile(llvm::StringRef model, llvm::ArrayRef<std::string> bindings,
                   llvm::ArrayRef<std::string> fixInputs, llvm::StringRef output) {
  mlir::autopar::ImportOptions options;
  std::string error;
  for (const std::string &text : bindings)
    if (failed(mlir::autopar::parseBindings(text, options, error))) {
      llvm::errs() << "autopar-translate: --bind: " << error << "\n";
      return usage;
    }
  if (!options.ranges.empty()) {
    llvm::errs() << "autopar-translate: --bind: '" << options.ranges.begin()->first
                 << "' is a range, but an import has one extent; autopar-compile --stop-after "
                    "import takes ranges\n";
    return usage;
  }
  for (const std::string &text : fixInputs)
    if (failed(mlir::autopar::parseFixedInputs(text, options, error))) {
      llvm::errs() << "autopar-translate: --fix-input: " << error << "\n";
      return usage;
    }
  if (!llvm::sys::fs::exists(model)) {
    llvm::errs() << "autopar-translate: model '" << model << "' does not exist\n";
    return noInput;
  }
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> module =
      mlir::autopar::importOnnx(model, options, context);
  if (failed(module))
    return badInput;
  std::string text;
  llvm::raw_string_ostream out(text);
  (*module)->print(out, mlir::OpPrintingFlags().elideLargeResourceString(16));
  out << "\n";
  return writeOutput(output, text);
}

int listOnnxOperators(llvm::StringRef output) {
  std::string text;
  llvm::raw_string_ostream out(text);
  mlir::autopar::printOnnxOperators(out);
  return writeOutput(output, text);
}

} // namespace autopar::translate
