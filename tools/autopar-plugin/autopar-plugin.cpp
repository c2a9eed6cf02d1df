// SPDX-License-Identifier: Apache-2.0
// AutoPar as a guest of mlir-opt: dialects and models through --load-dialect-plugin, passes and
// pipelines through --load-pass-plugin.
#include "autopar/InitAll.h"
#include "mlir/Config/mlir-config.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/Compiler.h"

extern "C" LLVM_ATTRIBUTE_WEAK mlir::DialectPluginLibraryInfo mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "AutoPar", LLVM_VERSION_STRING,
          [](mlir::DialectRegistry *registry) { mlir::autopar::registerAllDialects(*registry); }};
}

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "AutoPar", LLVM_VERSION_STRING, []() {
            mlir::autopar::registerAllPasses();
            mlir::autopar::registerAllPipelines();
          }};
}
