// SPDX-License-Identifier: Apache-2.0
#include "JoinedKernel.h"

#include "autopar/Conversion/AutoParToLoops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

void LaunchRun::add(exec::LaunchOp launch) {
  launches.push_back(launch);
  inputs.insert_range(launch.getInputs());
  outputs.insert_range(launch.getOutputs());
}

//===-- shared memory ------------------------------------------------------------------------===//

std::optional<SharedBuffers> SharedBuffers::of(func::FuncOp kernel) {
  SharedBuffers buffers;
  bool isStatic = true;
  kernel.walk([&](memref::AllocaOp op) {
    isStatic &= isa_and_nonnull<gpu::AddressSpaceAttr>(op.getType().getMemorySpace()) &&
                op.getType().getNumElements() > 0;
    ++buffers.counts[op.getType()];
  });
  if (!isStatic)
    return std::nullopt;
  return buffers;
}

SharedBuffers SharedBuffers::with(const SharedBuffers &other) const {
  SharedBuffers both = *this;
  for (auto [type, count] : other.counts)
    both.counts[type] = std::max(both.counts[type], count);
  return both;
}

int64_t SharedBuffers::bytes() const {
  int64_t bytes = 0;
  for (auto [type, count] : counts)
    bytes += count * tensorBytes(type);
  return bytes;
}

//===-- the kernel ---------------------------------------------------------------------------===//

JoinedKernel::JoinedKernel(const LaunchRun &run, ModuleOp kernels) : run(run), kernels(kernels) {
  for (exec::LaunchOp launch : run.launches) {
    ArrayRef<int64_t> grid = *launch.getGrid();
    auto kernel = kernels.lookupSymbol<func::FuncOp>(launch.getKernel());
    bodies.push_back({kernel, launch, blocks, grid[0], grid[1]});
    blocks += grid[0];
    mostThreads = std::max(mostThreads, grid[1]);
  }
}

/// Of the joined kernel, the argument that a kernel's argument is.
size_t JoinedKernel::placeOf(exec::LaunchOp launch, size_t number) const {
  size_t inputs = launch.getInputs().size();
  if (number < inputs)
    return llvm::find(run.inputs, launch.getInputs()[number]) - run.inputs.begin();
  return run.inputs.size() +
         (llvm::find(run.outputs, launch.getOutputs()[number - inputs]) - run.outputs.begin());
}

std::string JoinedKernel::key() {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (Body &body : bodies) {
    out << body.launch.getKernel() << ' ' << body.blocks;
    for (size_t number = 0; number < body.kernel.getNumArguments(); ++number)
      out << ' ' << placeOf(body.launch, number);
    out << ';';
  }
  return text;
}

func::FuncOp JoinedKernel::write(StringRef name) {
  SmallVector<Type> types(run.inputs.size() + run.outputs.size());
  for (Body &body : bodies)
    for (auto [number, type] : llvm::enumerate(body.kernel.getArgumentTypes()))
      types[placeOf(body.launch, number)] = type;
  OpBuilder builder(kernels.getBodyRegion());
  made = func::FuncOp::create(builder, kernels.getLoc(), name, builder.getFunctionType(types, {}));
  made->setAttr(kGridAttribute, builder.getDenseI64ArrayAttr({blocks, mostThreads, 0}));
  builder.setInsertionPointToStart(made.addEntryBlock());
  block = gpu::BlockIdOp::create(builder, made.getLoc(), gpu::Dimension::x);
  writeBodies(builder, 0, bodies.size());
  func::ReturnOp::create(builder, made.getLoc());
  return made;
}

static Value emitLess(OpBuilder &builder, Value index, int64_t limit) {
  Value bound = arith::ConstantIndexOp::create(builder, index.getLoc(), limit);
  return arith::CmpIOp::create(builder, index.getLoc(), arith::CmpIPredicate::ult, index, bound);
}

/// Of the bodies [begin, end): half of them are left aside by each comparison.
void JoinedKernel::writeBodies(OpBuilder &builder, size_t begin, size_t end) {
  if (end - begin == 1)
    return writeBody(builder, bodies[begin]);
  size_t middle = begin + (end - begin) / 2;
  auto where =
      scf::IfOp::create(builder, block.getLoc(),
                        emitLess(builder, block, bodies[middle].firstBlock), /*withElse=*/true);
  OpBuilder then = where.getThenBodyBuilder(), other = where.getElseBodyBuilder();
  writeBodies(then, begin, middle);
  writeBodies(other, middle, end);
}

void JoinedKernel::writeBody(OpBuilder &builder, Body &body) {
  if (body.threads == mostThreads)
    return cloneBody(builder, body);
  Value thread = gpu::ThreadIdOp::create(builder, block.getLoc(), gpu::Dimension::x);
  auto where = scf::IfOp::create(builder, block.getLoc(), emitLess(builder, thread, body.threads),
                                 /*withElse=*/false);
  OpBuilder inner = where.getThenBodyBuilder();
  cloneBody(inner, body);
}

void JoinedKernel::cloneBody(OpBuilder &builder, Body &body) {
  Location loc = body.kernel.getLoc();
  Value first = arith::ConstantIndexOp::create(builder, loc, body.firstBlock);
  Value own = arith::SubIOp::create(builder, loc, block, first);
  IRMapping mapping;
  for (BlockArgument argument : body.kernel.getArguments())
    mapping.map(argument, made.getArgument(placeOf(body.launch, argument.getArgNumber())));
  SmallVector<Operation *> ops;
  for (Operation &op : body.kernel.getBody().front().without_terminator())
    ops.push_back(builder.clone(op, mapping));
  for (Operation *op : ops)
    op->walk([&](gpu::BlockIdOp id) { id.replaceAllUsesWith(own); });
  shareBuffers(ops);
  // Else LLVM makes one tail of bodies that are alike, and knows no longer what it accesses there.
  Value everybody = arith::ConstantIntOp::create(builder, loc, builder.getI32Type(), -1);
  NVVM::SyncWarpOp::create(builder, loc, everybody);
}

void JoinedKernel::shareBuffers(ArrayRef<Operation *> ops) {
  llvm::DenseMap<Type, unsigned> counts;
  SmallVector<memref::AllocaOp> own;
  for (Operation *op : ops)
    op->walk([&](memref::AllocaOp alloca) { own.push_back(alloca); });
  for (memref::AllocaOp alloca : own) {
    Value &buffer = shared[{alloca.getType(), counts[alloca.getType()]++}];
    if (!buffer)
      buffer = OpBuilder::atBlockBegin(&made.getBody().front()).clone(*alloca)->getResult(0);
    alloca.replaceAllUsesWith(buffer);
    alloca.erase();
  }
}
