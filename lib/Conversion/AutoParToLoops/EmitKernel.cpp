// SPDX-License-Identifier: Apache-2.0
// From a group to a function: the signature, and the choice among the kinds of bodies.
#include "autopar/Conversion/AutoParToLoops.h"

#include "KernelBodies.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::autopar;

static MemRefType bufferType(Value tensor) {
  auto type = cast<RankedTensorType>(tensor.getType());
  return MemRefType::get({type.getNumElements()}, getStorageType(type.getElementType()));
}

static func::FuncOp createFunction(const GroupBody &body, ModuleOp kernels, StringRef name) {
  OpBuilder builder = OpBuilder::atBlockEnd(kernels.getBody());
  SmallVector<Type> types;
  for (Value value : llvm::concat<const Value>(body.inputs, body.outputs))
    types.push_back(bufferType(value));
  types.append(2, builder.getIndexType());
  auto function = func::FuncOp::create(builder, body.anchor->getLoc(), name,
                                       builder.getFunctionType(types, {}));
  function.addEntryBlock();
  return function;
}

static int64_t emitKernelLowering(KernelLoweringOpInterface op, func::FuncOp function,
                                  ArrayRef<int64_t> inPlace) {
  Block &entry = function.getBody().front();
  OpBuilder builder = OpBuilder::atBlockEnd(&entry);
  size_t inputs = op->getNumOperands(), outputs = op->getNumResults();
  ValueRange arguments = entry.getArguments();
  SmallVector<Value> results(arguments.slice(inputs, outputs));
  for (auto [output, input] : llvm::enumerate(inPlace))
    if (input >= 0)
      results[output] = arguments[input];
  op.emitKernel(builder, arguments.take_front(inputs), results, arguments[inputs + outputs],
                arguments[inputs + outputs + 1]);
  func::ReturnOp::create(builder, op->getLoc());
  return op.getKernelExtent();
}

static int64_t emitElementLowering(const GroupBody &body, const KernelPlan &plan,
                                   func::FuncOp function, ArrayRef<int64_t> inPlace) {
  Block &entry = function.getBody().front();
  ValueRange arguments = entry.getArguments();
  size_t inputs = body.inputs.size(), outputs = body.outputs.size();
  OpBuilder end = OpBuilder::atBlockEnd(&entry);
  Operation *ret = func::ReturnOp::create(end, body.anchor->getLoc());
  // Buffers go before a marker, so that they come first however late they are asked for.
  end.setInsertionPoint(ret);
  Value marker = indexConstant(end, body.anchor->getLoc(), 0);
  OpBuilder bufferBuilder(marker.getDefiningOp());
  KernelFrame kernel{bufferBuilder, end, arguments[inputs + outputs],
                     arguments[inputs + outputs + 1],
                     llvm::to_vector_of<Value>(arguments.slice(inputs, outputs))};
  // One buffer under one name, so that LLVM sees what is stored over what.
  for (auto [output, input] : llvm::enumerate(inPlace))
    if (input >= 0)
      kernel.outputs[output] = arguments[input];
  ElementEmitter emitter(body, plan, arguments.take_front(inputs));
  if (plan.rows)
    return emitRows(kernel, emitter);
  if (plan.tileLoop < 0)
    return emitPointwise(kernel, emitter);
  function->setAttr("autopar.strided_results", end.getUnitAttr());
  return emitTiled(kernel, emitter);
}

FailureOr<func::FuncOp> autopar::emitKernel(Operation *groupOrOp, ModuleOp kernels, StringRef name,
                                            int64_t &extent, ArrayRef<int64_t> inPlace) {
  GroupBody body = GroupBody::of(groupOrOp);
  if (auto lowering = dyn_cast<KernelLoweringOpInterface>(groupOrOp)) {
    func::FuncOp function = createFunction(body, kernels, name);
    extent = emitKernelLowering(lowering, function, inPlace);
    return function;
  }
  FailureOr<KernelPlan> plan = KernelPlan::make(body);
  if (failed(plan))
    return failure();
  func::FuncOp function = createFunction(body, kernels, name);
  extent = emitElementLowering(body, *plan, function, inPlace);
  return function;
}

void autopar::registerLoweringModels(DialectRegistry &registry) {
  registry.insert<AutoParDialect, arith::ArithDialect, func::FuncDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect>();
  registry.addExtension(+[](MLIRContext *context, AutoParDialect *) {
    context->loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                         memref::MemRefDialect, scf::SCFDialect>();
    attachElementwiseModels(*context);
    attachDataMovementModels(*context);
    attachGatherModels(*context);
    attachGenerationModels(*context);
    attachReductionModels(*context);
    attachWindowModels(*context);
    attachContractionModels(*context);
    attachScatterModels(*context);
    attachCumulativeModels(*context);
    attachSortModels(*context);
  });
}
