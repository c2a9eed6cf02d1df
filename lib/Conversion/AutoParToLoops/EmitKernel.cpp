// SPDX-License-Identifier: Apache-2.0
// From a group to a function: the signature, and the choice among the kinds of bodies.
#include "autopar/Conversion/AutoParToLoops.h"

#include "GpuThreads.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::autopar;

static MemRefType bufferType(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return MemRefType::get({type.getNumElements()}, getStorageType(type.getElementType()));
}

static func::FuncOp createFunction(const GroupBody &body, ModuleOp kernels, StringRef name,
                                   Target target) {
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  SmallVector<Type> types;
  for (Value value : llvm::concat<const Value>(body.inputs, body.outputs))
    types.push_back(bufferType(value));
  if (target == Target::Cpu)
    types.append(2, builder.getIndexType()); // begin, end
  auto function = func::FuncOp::create(builder, body.anchor->getLoc(), name,
                                       builder.getFunctionType(types, {}));
  function.addEntryBlock();
  return function;
}

static void setGrid(func::FuncOp function, GpuGrid grid) {
  OpBuilder builder(function);
  function->setAttr(kGridAttribute,
                    builder.getDenseI64ArrayAttr({grid.blocks, grid.threads, grid.sharedBytes}));
}

/// Elements that one iteration of a kernel with its own loops takes, where that is open: a vector
/// loop on a CPU, one per thread on a GPU.
static int64_t grainOf(Target target) { return target == Target::Cpu ? 256 : 1; }

static int64_t emitKernelLowering(KernelLoweringOpInterface op, func::FuncOp function,
                                  ArrayRef<int64_t> inPlace, Target target) {
  Block &entry = function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&entry);
  size_t inputs = op->getNumOperands(), outputs = op->getNumResults();
  int64_t grain = grainOf(target), extent = op.getKernelExtent(grain);
  Location loc = op->getLoc();
  ValueRange arguments = entry.getArguments();
  SmallVector<Value> results(arguments.slice(inputs, outputs));
  for (auto [output, input] : llvm::enumerate(inPlace))
    if (input >= 0)
      results[output] = arguments[input];
  if (target == Target::Cpu) {
    op.emitKernel(builder, arguments.take_front(inputs), results, arguments[inputs + outputs],
                  arguments[inputs + outputs + 1], grain);
  } else if (SmallVector<int64_t> own =
                 op.emitGpuKernel(builder, arguments.take_front(inputs), results);
             !own.empty()) {
    extent = own[0];
    setGrid(function, {own[0], own[1], own.size() > 2 ? own[2] : 0});
  } else {
    // A thread per iteration: iterations are independent.
    GpuGrid grid = GpuGrid::over(extent, 64);
    Value begin = emitGridIndex(builder, loc, grid.threads);
    Value end = arith::AddIOp::create(builder, loc, begin, indexConstant(builder, loc, 1));
    Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, begin,
                                         indexConstant(builder, loc, extent));
    emitWhere(builder, loc, exists, [&](OpBuilder &inner) {
      op.emitKernel(inner, arguments.take_front(inputs), results, begin, end, grain);
    });
    setGrid(function, grid);
  }
  func::ReturnOp::create(builder, loc);
  return extent;
}

static int64_t emitElementLowering(const GroupBody &body, const KernelPlan &plan,
                                   func::FuncOp function, ArrayRef<int64_t> inPlace,
                                   Target target) {
  Block &entry = function.getBody().front();
  ValueRange arguments = entry.getArguments();
  size_t inputs = body.inputs.size(), outputs = body.outputs.size();
  OpBuilder end = OpBuilder::atBlockEnd(&entry);
  Operation *ret = func::ReturnOp::create(end, body.anchor->getLoc());
  // Buffers go before a marker, so that they come first however late they are asked for.
  end.setInsertionPoint(ret);
  Value marker = indexConstant(end, body.anchor->getLoc(), 0);
  OpBuilder bufferBuilder(marker.getDefiningOp());
  KernelFrame kernel{bufferBuilder, end, Value(), Value(),
                     llvm::to_vector_of<Value>(arguments.slice(inputs, outputs))};
  if (target == Target::Cpu) {
    kernel.begin = arguments[inputs + outputs];
    kernel.end = arguments[inputs + outputs + 1];
  }
  // One buffer under one name, so that LLVM sees what is stored over what.
  for (auto [output, input] : llvm::enumerate(inPlace))
    if (input >= 0)
      kernel.outputs[output] = arguments[input];
  ElementEmitter emitter(body, plan, arguments.take_front(inputs));
  if (target == Target::Cuda) {
    GpuGrid grid = plan.rows           ? emitGpuRows(kernel, emitter)
                   : plan.tileLoop < 0 ? emitGpuPointwise(kernel, emitter)
                                       : emitGpuTransposes(kernel, emitter);
    setGrid(function, grid);
    return grid.blocks;
  }
  if (plan.rows)
    return emitRows(kernel, emitter);
  if (plan.tileLoop < 0)
    return emitPointwise(kernel, emitter);
  function->setAttr("autopar.strided_results", end.getUnitAttr());
  return emitTiled(kernel, emitter);
}

FailureOr<func::FuncOp> autopar::emitKernel(Operation *groupOrOp, ModuleOp kernels, StringRef name,
                                            int64_t &extent, ArrayRef<int64_t> inPlace,
                                            Target target) {
  GroupBody body = GroupBody::of(groupOrOp);
  if (auto lowering = dyn_cast<KernelLoweringOpInterface>(groupOrOp)) {
    if (target == Target::Cpu && lowering.isForGpusAlone())
      return groupOrOp->emitOpError("has a kernel for GPUs alone; on CPUs it is a library call "
                                    "before it is written so");
    if (target == Target::Cuda && lowering.isForCpusAlone())
      return groupOrOp->emitOpError("has a kernel for CPUs alone");
    func::FuncOp function = createFunction(body, kernels, name, target);
    extent = emitKernelLowering(lowering, function, inPlace, target);
    return function;
  }
  FailureOr<KernelPlan> plan = KernelPlan::make(body, target);
  if (failed(plan))
    return failure();
  func::FuncOp function = createFunction(body, kernels, name, target);
  extent = emitElementLowering(body, *plan, function, inPlace, target);
  return function;
}

void autopar::registerLoweringModels(DialectRegistry &registry) {
  registry.insert<AutoParDialect, arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect, gpu::GPUDialect,
                  LLVM::LLVMDialect, nvgpu::NVGPUDialect, NVVM::NVVMDialect>();
  registry.addExtension(+[](MLIRContext *context, AutoParDialect *) {
    context
        ->loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                      memref::MemRefDialect, scf::SCFDialect, vector::VectorDialect,
                      gpu::GPUDialect, LLVM::LLVMDialect, nvgpu::NVGPUDialect, NVVM::NVVMDialect>();
    attachElementwiseModels(*context);
    attachDataMovementModels(*context);
    attachGatherModels(*context);
    attachGenerationModels(*context);
    attachReductionModels(*context);
    attachWindowModels(*context);
    attachContractionModels(*context);
    attachBlockDotModels(*context);
    attachScatterModels(*context);
    attachCumulativeModels(*context);
    attachSortModels(*context);
    attachGroupedProductModels(*context);
  });
}
