// SPDX-License-Identifier: Apache-2.0
// autopar-opt: any pass or pipeline of AutoPar on MLIR text.
#include "autopar/Base/OutputFile.h"
#include "autopar/InitAll.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

int main(int argc, char **argv) {
  ::autopar::refuseOversizedFiles();
  llvm::cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "autopar-opt " AUTOPAR_VERSION "\n"; });
  mlir::DialectRegistry registry;
  mlir::autopar::registerAllDialects(registry);
  mlir::autopar::registerAllPasses();
  mlir::registerPrintOpStatsPass();
  mlir::autopar::registerAllPipelines();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "AutoPar: passes and pipelines on whole-model tensor programs\n", registry));
}
