// SPDX-License-Identifier: Apache-2.0
// autopar-translate --dump and --exec-to-artifact: artifacts as text, and programs as artifacts.
#include "Modes.h"

#include "autopar/Artifact/Dump.h"
#include "autopar/InitAll.h"
#include "autopar/Pipelines/Compile.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

namespace autopar::translate {

static int complain(const Status &status) {
  if (!status.message().empty())
    llvm::errs() << "autopar-translate: " << status.message() << "\n";
  return status.exitCode();
}

int dumpArtifactFile(llvm::StringRef artifact, bool withText, llvm::StringRef output) {
  Result<artifact::Reader> reader = artifact::Reader::open(artifact.str());
  if (!reader)
    return complain(reader.status());
  std::error_code failure;
  llvm::ToolOutputFile file(output, failure, llvm::sys::fs::OF_None);
  if (failure) {
    llvm::errs() << "autopar-translate: cannot write '" << output << "': " << failure.message()
                 << "\n";
    return cannotWrite;
  }
  file.os() << artifact::dumpArtifact(*reader, withText);
  file.keep();
  return ok;
}

int emitArtifactFile(llvm::StringRef module, llvm::StringRef output) {
  if (output == "-") {
    llvm::errs() << "autopar-translate: --exec-to-artifact writes bytes; name a file with -o\n";
    return usage;
  }
  mlir::DialectRegistry registry;
  mlir::autopar::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  llvm::SourceMgr sources;
  mlir::SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());
  mlir::autopar::CompileOptions options;
  options.input = module.str();
  options.output = output.str();
  options.startAt = mlir::autopar::Phase::Emit;
  Result<mlir::autopar::CompileResult> result = mlir::autopar::compileModel(options, context);
  return result ? static_cast<int>(ok) : complain(result.status());
}

} // namespace autopar::translate
