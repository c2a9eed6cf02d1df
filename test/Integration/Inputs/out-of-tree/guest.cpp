// SPDX-License-Identifier: Apache-2.0
// A compiler of its own that lets AutoPar shard its modules.
#include "autopar/InitAll.h"
#include "autopar/Pipelines/Pipelines.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::linalg::LinalgDialect,
                  mlir::tensor::TensorDialect>();
  mlir::autopar::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  mlir::PassManager manager(&context);
  mlir::autopar::AutoShardOptions options;
  options.cluster = "presets:cpux2";
  mlir::autopar::buildAutoShardPipeline(manager, options);
  mlir::autopar::buildPartitionPipeline(manager);
  if (!module || failed(manager.run(*module)))
    return 1;
  module->print(llvm::outs());
  return 0;
}
