// SPDX-License-Identifier: Apache-2.0
// autopar-compile: an ONNX model for a number of ranks into compiled.bin.
#include "CommandLine.h"
#include "PhaseProgress.h"

#include "autopar/Base/OutputFile.h"
#include "autopar/InitAll.h"
#include "autopar/Report/ComparePlans.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::autopar;

/// What a message begins with, by how severe it is; what --explain asked for is plain.
static StringRef markOf(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Error:
    return "error: ";
  case DiagnosticSeverity::Warning:
    return "warning: ";
  default:
    return "";
  }
}

/// Errors as `autopar-compile: error: [where: ]message`, without the operation's text. Remarks are
/// for --explain.
static LogicalResult report(Diagnostic &diagnostic, bool explains) {
  if (diagnostic.getSeverity() == DiagnosticSeverity::Remark && !explains)
    return success();
  auto name = diagnostic.getLocation()->findInstanceOf<NameLoc>();
  auto file = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  llvm::errs() << "autopar-compile: " << markOf(diagnostic.getSeverity());
  if (file) {
    llvm::errs() << file.getFilename().getValue() << ":";
    if (file.getLine() > 0)
      llvm::errs() << file.getLine() << ":";
    llvm::errs() << " ";
  }
  if (name)
    llvm::errs() << name.getName().getValue() << ": ";
  llvm::errs() << diagnostic << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    llvm::errs() << "  note: " << note << "\n";
  return success();
}

/// Prints what differs between two plans. 1 where something does, as diff has it.
static ::autopar::Result<int> compare(const std::vector<std::string> &paths, bool asJson) {
  std::vector<::autopar::Plan> plans;
  for (const std::string &path : paths) {
    ::autopar::Result<::autopar::Plan> plan = ::autopar::Plan::load(path);
    if (!plan)
      return plan.status();
    plans.push_back(plan.take());
  }
  auto differences = ::autopar::comparePlans(plans[0], plans[1]);
  llvm::outs() << (asJson ? differencesAsJson(differences) : differencesAsText(differences));
  return differences.empty() ? 0 : 1;
}

/// Whether all that was printed got out.
static ::autopar::Status flushOutput() {
  llvm::outs().flush();
  std::error_code error = llvm::outs().error();
  llvm::outs().clear_error();
  return error ? ::autopar::Status::ioError("cannot write to standard output: " + error.message())
               : ::autopar::Status::ok();
}

/// What lies in host memory is told where something does.
static std::string hostText(int64_t bytes) {
  return bytes ? llvm::formatv(" and {0:f1} MiB on the host", bytes / 1048576.0).str() : "";
}

/// The same of what another program holds too.
static std::string sharedText(int64_t bytes, StringRef beside) {
  return bytes
             ? llvm::formatv(", {0:f1} MiB of it held together with {1}", bytes / 1048576.0, beside)
                   .str()
             : "";
}

int main(int argc, char **argv) {
  ::autopar::refuseOversizedFiles();
  ::autopar::Result<CommandLine> line = parseCommandLine(argc, argv);
  auto fail = [](const ::autopar::Status &status) {
    if (!status.message().empty())
      llvm::errs() << "autopar-compile: error: " << status.message() << "\n";
    return status.exitCode();
  };
  if (!line)
    return fail(line.status());
  if (!line->compare.empty()) {
    ::autopar::Result<int> code = compare(line->compare, line->explain == Explain::Json);
    ::autopar::Status printed = flushOutput();
    return !code ? fail(code.status()) : printed.isOk() ? *code : fail(printed);
  }
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  bool explains = line->explain != Explain::No;
  context.getDiagEngine().registerHandler(
      [explains](Diagnostic &diagnostic) { return report(diagnostic, explains); });
  std::optional<PhaseProgress> progress;
  if (!line->quiet)
    progress.emplace(line->compile);
  ::autopar::Result<CompileResult> result = compileModel(line->compile, context);
  progress.reset();
  if (!result)
    return fail(result.status());
  if (explains)
    llvm::outs() << (line->explain == Explain::Json ? result->plan + "\n"
                                                    : explainPlan(result->plan));
  if (::autopar::Status printed = flushOutput(); !printed.isOk())
    return fail(printed);
  if (!line->quiet && result->artifactBytes)
    llvm::errs() << llvm::formatv(
        "{0}: {1} rank{2}, {3} kernels, {4:f1} MiB of memory per rank{5}{6}, {7:f1} MiB on disk\n",
        line->compile.output, result->ranks, result->ranks == 1 ? "" : "s", result->kernels,
        result->deviceBytes / 1048576.0, hostText(result->hostBytes),
        sharedText(result->sharedBytes, line->compile.beside), result->artifactBytes / 1048576.0);
  return 0;
}
