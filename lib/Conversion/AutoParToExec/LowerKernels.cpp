// SPDX-License-Identifier: Apache-2.0
// Groups and operations with kernels of their own: one launch each. Kernels are shared by content.
#include "ProgramBuilder.h"

#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Transforms/KernelBytes.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::autopar;

/// Writes what a kernel depends on: operations, attributes (but names and strategies), types, and
/// which value goes where. Attributes and types are unique per context, so their addresses name
/// them.
static void writeContent(Operation *op, DenseMap<Value, int64_t> &numbers, llvm::raw_ostream &out) {
  out << op->getName() << '(';
  for (Value operand : op->getOperands()) {
    auto number = numbers.try_emplace(operand, numbers.size());
    out << number.first->second << ':' << operand.getType().getAsOpaquePointer() << ',';
  }
  out << ')';
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (!attribute.getName().getValue().starts_with("autopar."))
      out << attribute.getName().getValue() << '=' << attribute.getValue().getAsOpaquePointer()
          << ';';
  out << op->getPropertiesAsAttribute().getAsOpaquePointer() << "->";
  for (Value result : op->getResults()) {
    numbers.try_emplace(result, numbers.size());
    out << result.getType().getAsOpaquePointer() << ',';
  }
  for (Region &region : op->getRegions())
    for (Block &block : region) {
      out << '{';
      for (Value argument : block.getArguments())
        numbers.try_emplace(argument, numbers.size());
      for (Operation &inner : block)
        writeContent(&inner, numbers, out);
      out << '}';
    }
}

static SmallVector<RankedTensorType> typesOf(TypeRange types) {
  return llvm::map_to_vector(types, [](Type type) { return cast<RankedTensorType>(type); });
}

static double flopsOf(Operation *op) {
  double flops = 0;
  op->walk([&](CostOpInterface cost) {
    flops += cost.getFlops(typesOf(cost->getOperandTypes()), typesOf(cost->getResultTypes()));
  });
  return flops;
}

/// What the time of a kernel depends on besides bytes: "map" where every operation computes within
/// its users' loops, "rows" where one goes through its operands by itself.
static StringRef kindOf(Operation *op) {
  WalkResult found = op->walk([](CostOpInterface cost) {
    return cost.isLight() ? WalkResult::advance() : WalkResult::interrupt();
  });
  return found.wasInterrupted() ? "rows" : "map";
}

/// The last identified operation inside a group gives it its name where it has none.
static StringRef idInside(Operation *op) {
  StringRef id = getOpId(op);
  if (id.empty())
    op->walk([&](Operation *inner) {
      if (!getOpId(inner).empty())
        id = getOpId(inner);
    });
  return id;
}

FailureOr<KernelPool::Kernel> ProgramBuilder::kernelOf(Operation *op, ArrayRef<int64_t> inPlace) {
  std::string content;
  llvm::raw_string_ostream out(content);
  DenseMap<Value, int64_t> numbers;
  writeContent(op, numbers, out);
  llvm::interleaveComma(inPlace, out);
  return kernels.kernelOf(content, [&](ModuleOp module, StringRef name, int64_t &extent) {
    return emitKernel(op, module, name, extent, inPlace, options.target);
  });
}

LogicalResult ProgramBuilder::launch(Operation *op, ArrayRef<Value> inputs, ArrayRef<Value> outputs,
                                     Operation *named, ArrayRef<int64_t> inPlace) {
  bool writesNothing = llvm::all_of(op->getResultTypes(), [](Type type) {
    return cast<RankedTensorType>(type).getNumElements() == 0;
  });
  if (writesNothing)
    return success();
  FailureOr<KernelPool::Kernel> kernel = kernelOf(op, inPlace);
  if (failed(kernel))
    return failure();
  auto instruction = exec::LaunchOp::create(step(), op->getLoc(), kernel->symbol(), inputs, outputs,
                                            kernel->extent, kernel->grid);
  if (getOpId(named).empty() && !idInside(op).empty())
    setOpId(named, idInside(op));
  describe(instruction, named, kindOf(op), flopsOf(op));
  instruction.setBytes(kernelBytes(op, typesOf(op->getOperandTypes()),
                                   typesOf(op->getResultTypes()), llvm::is_contained(inPlace, 0)));
  return success();
}

LogicalResult
ProgramBuilder::launchGroup(Operation *named, ArrayRef<RankedTensorType> inputTypes,
                            ArrayRef<Value> inputs, ArrayRef<RankedTensorType> resultTypes,
                            ArrayRef<Value> outputs,
                            function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> build) {
  Location loc = named->getLoc();
  OpBuilder builder(named->getContext());
  if (named == function)
    builder.setInsertionPoint(function.getBody().front().getTerminator());
  else
    builder.setInsertionPoint(named);
  SmallVector<Type> types(inputTypes.begin(), inputTypes.end()),
      results(resultTypes.begin(), resultTypes.end());
  // Stand-ins: a group reads values, the launch reads buffers.
  auto standIns = UnrealizedConversionCastOp::create(builder, loc, types, ValueRange());
  auto group = GroupOp::create(builder, loc, results, standIns.getResults());
  Block *body =
      builder.createBlock(&group.getBody(), {}, types, SmallVector<Location>(types.size(), loc));
  SmallVector<Value> yielded = build(builder, body->getArguments());
  YieldOp::create(builder, loc, yielded);
  LogicalResult done =
      launch(group, inputs, outputs, named == function ? group.getOperation() : named);
  erase(group);
  standIns.erase();
  return done;
}

LogicalResult ProgramBuilder::lowerKernel(Operation *op) {
  SmallVector<Value> inputs, outputs;
  for (Value operand : op->getOperands()) {
    FailureOr<Value> buffer = rowMajorBuffer(operand);
    if (failed(buffer))
      return failure();
    inputs.push_back(*buffer);
  }
  StringRef id = idInside(op);
  if (getOpId(op).empty() && !id.empty())
    setOpId(op, id);
  SmallVector<int64_t> inPlace;
  for (OpResult result : op->getResults()) {
    inPlace.push_back(operandToReplace(op, result.getResultNumber()));
    Value place = inPlace.back() < 0 ? bufferOfNextValue(result) : inputs[inPlace.back()];
    if (!place) {
      outputs.push_back(createRowMajorResult(result));
      continue;
    }
    outputs.push_back(place);
    setView(result,
            {outputs.back(), denseStrides(cast<RankedTensorType>(result.getType()).getShape())});
  }
  return launch(op, inputs, outputs, op, inPlace);
}
