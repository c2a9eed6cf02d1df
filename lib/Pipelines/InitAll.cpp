// SPDX-License-Identifier: Apache-2.0
// The only list of what AutoPar registers.
#include "autopar/InitAll.h"

#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Conversion/KernelsToCpu.h"
#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/AutoPar/Gradients/Gradients.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/AutoPar/Models/ExternalModels.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Training/Passes.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/Passes.h"

void mlir::autopar::registerAllDialects(DialectRegistry &registry) {
  registry.insert<AutoParDialect, exec::ExecDialect, func::FuncDialect, cf::ControlFlowDialect,
                  arith::ArithDialect, math::MathDialect, linalg::LinalgDialect,
                  tensor::TensorDialect, memref::MemRefDialect, scf::SCFDialect, gpu::GPUDialect,
                  LLVM::LLVMDialect, shard::ShardDialect>();
  registerExternalModels(registry);
  registerGradientModels(registry);
  registerLoweringModels(registry);
}

void mlir::autopar::registerAllPasses() {
  registerAutoParTransformsPasses();
  registerAutoParTrainingPasses();
  registerAutoParConversionPasses();
  ::autopar::registerKernelsToCpuPasses();
  exec::registerExecPasses();
  registerCanonicalizerPass();
  registerCSEPass();
}

void mlir::autopar::registerAllPipelines() {
  PassPipelineRegistration<AutoShardOptions>(
      "auto-shard",
      "prepare, search, annotate, insert reshards: shard a module of whole tensors by cost",
      buildAutoShardPipeline);
  PassPipelineRegistration<>("autopar-partition-pipeline",
                             "partition to local shapes and optimize collectives",
                             buildPartitionPipeline);
  PassPipelineRegistration<LowerOptions>("autopar-lower-pipeline",
                                         "form groups, lower to a program, plan its memory",
                                         buildLowerPipeline);
}
