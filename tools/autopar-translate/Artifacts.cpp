// SPDX-License-Identifier: Apache-2.0
// autopar-translate --dump, --extract-kernels and --exec-to-artifact: artifacts as text, their
// machine code, and programs as artifacts.
#include "Modes.h"

#include "autopar/Artifact/Dump.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/InitAll.h"
#include "autopar/Pipelines/Compile.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"

#include <cstdio>

namespace autopar::translate {

int complain(const Status &status) {
  if (!status.message().empty())
    llvm::errs() << "autopar-translate: " << status.message() << "\n";
  return status.exitCode();
}

int writeOutput(llvm::StringRef output, llvm::StringRef bytes) {
  if (output != "-")
    return complain(::autopar::writeWholeFile(output.str(), bytes));
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  return complain(::autopar::flushStandardOutput());
}

int dumpArtifactFile(llvm::StringRef artifact, bool withText, llvm::StringRef output) {
  Result<artifact::Reader> reader = artifact::Reader::open(artifact.str());
  if (!reader)
    return complain(reader.status());
  return writeOutput(output, artifact::dumpArtifact(*reader, withText));
}

int extractKernelsFile(llvm::StringRef artifact, llvm::StringRef output) {
  if (output == "-") {
    llvm::errs() << "autopar-translate: --extract-kernels writes bytes; name a file with -o\n";
    return usage;
  }
  Result<artifact::Reader> reader = artifact::Reader::open(artifact.str());
  if (!reader)
    return complain(reader.status());
  std::span<const uint8_t> kernels = reader->kernels(0);
  if (std::string_view ptx = reader->ptx(0); !ptx.empty())
    kernels = {reinterpret_cast<const uint8_t *>(ptx.data()), ptx.size()};
  if (kernels.empty()) {
    llvm::errs() << "autopar-translate: '" << artifact << "' launches no kernels\n";
    return badInput;
  }
  return writeOutput(output, {reinterpret_cast<const char *>(kernels.data()), kernels.size()});
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
