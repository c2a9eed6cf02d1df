// SPDX-License-Identifier: Apache-2.0
// The pass autopar-join-launches: a step ends with an update per parameter, and most parameters are
// small. On a GPU a launch costs as much as the update of one of them; blocks of one launch can
// work on different ones.
#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_JOINLAUNCHESPASS
#include "autopar/Conversion/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Addresses that a launch can be given: PTX 8.0 has 4,096 bytes for them.
constexpr size_t kMostBuffers = 512;

using Roots = llvm::SmallDenseSet<Operation *>;

bool meets(ValueRange buffers, const Roots &roots) {
  return llvm::any_of(buffers,
                      [&](Value buffer) { return roots.contains(exec::rootOf(buffer).first); });
}

/// What launches that become one have in common, and which buffers they touch.
struct Run {
  SmallVector<exec::LaunchOp> launches;
  llvm::SetVector<Value> inputs, outputs;
  Roots read, written;

  bool takes(exec::LaunchOp launch) const {
    if (launches.empty())
      return true;
    exec::LaunchOp first = launches.front();
    size_t buffers = inputs.size() + outputs.size() + launch.getOutputs().size();
    for (Value input : launch.getInputs())
      buffers += !inputs.contains(input);
    return buffers <= kMostBuffers && launch.getKey() == first.getKey() &&
           launch.getArithmetic() == first.getArithmetic() && !meets(launch.getInputs(), written) &&
           !meets(launch.getOutputs(), read);
  }
  void add(exec::LaunchOp launch) {
    launches.push_back(launch);
    inputs.insert_range(launch.getInputs());
    outputs.insert_range(launch.getOutputs());
    for (Value input : launch.getInputs())
      read.insert(exec::rootOf(input).first);
    for (Value output : launch.getOutputs())
      written.insert(exec::rootOf(output).first);
  }
};

/// Writes the kernel of a run: each block runs the body of the launch that it belongs to.
class JoinedKernel {
public:
  JoinedKernel(const Run &run, ModuleOp kernels) : run(run), kernels(kernels) {}

  /// Runs of the same, as those of layers that are alike, have one kernel.
  std::string key() const {
    std::string text;
    llvm::raw_string_ostream out(text);
    for (exec::LaunchOp launch : run.launches) {
      out << launch.getKernel() << ' ' << (*launch.getGrid())[0];
      for (size_t number = 0; number < launch.getInputs().size() + launch.getOutputs().size();
           ++number)
        out << ' ' << placeOf(launch, number);
      out << ';';
    }
    return text;
  }

  func::FuncOp write(StringRef name) {
    firstBlocks.push_back(0);
    for (exec::LaunchOp launch : run.launches) {
      firstBlocks.push_back(firstBlocks.back() + (*launch.getGrid())[0]);
      mostThreads = std::max(mostThreads, (*launch.getGrid())[1]);
    }
    SmallVector<Type> types(run.inputs.size() + run.outputs.size());
    for (exec::LaunchOp launch : run.launches)
      for (auto [number, type] : llvm::enumerate(kernelOf(launch).getArgumentTypes()))
        types[placeOf(launch, number)] = type;
    OpBuilder builder(kernels.getBodyRegion());
    auto made =
        func::FuncOp::create(builder, kernels.getLoc(), name, builder.getFunctionType(types, {}));
    made->setAttr(kGridAttribute,
                  builder.getDenseI64ArrayAttr({firstBlocks.back(), mostThreads, 0}));
    builder.setInsertionPointToStart(made.addEntryBlock());
    arguments = made.getArguments();
    block = gpu::BlockIdOp::create(builder, made.getLoc(), gpu::Dimension::x);
    writeBodies(builder, 0, run.launches.size());
    func::ReturnOp::create(builder, made.getLoc());
    return made;
  }

private:
  const Run &run;
  ModuleOp kernels;
  SmallVector<int64_t> firstBlocks; ///< of each launch, and of none behind the last
  int64_t mostThreads = 0;
  ValueRange arguments;
  Value block;

  func::FuncOp kernelOf(exec::LaunchOp launch) {
    return kernels.lookupSymbol<func::FuncOp>(launch.getKernel());
  }
  /// Of the joined kernel, the argument that a kernel's argument is.
  size_t placeOf(exec::LaunchOp launch, size_t number) const {
    size_t inputs = launch.getInputs().size();
    return number < inputs ? llvm::find(run.inputs, launch.getInputs()[number]) - run.inputs.begin()
                           : run.inputs.size() +
                                 (llvm::find(run.outputs, launch.getOutputs()[number - inputs]) -
                                  run.outputs.begin());
  }

  /// Of the launches [begin, end): half of them are left aside by each comparison.
  void writeBodies(OpBuilder &builder, size_t begin, size_t end) {
    if (end - begin == 1)
      return writeBody(builder, begin);
    size_t middle = begin + (end - begin) / 2;
    writeWhere(
        builder, block, firstBlocks[middle],
        [&](OpBuilder &inner) { writeBodies(inner, begin, middle); },
        [&](OpBuilder &inner) { writeBodies(inner, middle, end); });
  }

  void writeBody(OpBuilder &builder, size_t number) {
    exec::LaunchOp launch = run.launches[number];
    func::FuncOp kernel = kernelOf(launch);
    auto clone = [&](OpBuilder &inner) {
      IRMapping mapping;
      for (BlockArgument argument : kernel.getArguments())
        mapping.map(argument, arguments[placeOf(launch, argument.getArgNumber())]);
      Value first = arith::ConstantIndexOp::create(inner, kernel.getLoc(), firstBlocks[number]);
      Value own = arith::SubIOp::create(inner, kernel.getLoc(), block, first);
      SmallVector<Operation *> body;
      for (Operation &op : kernel.getBody().front().without_terminator())
        body.push_back(inner.clone(op, mapping));
      for (Operation *op : body)
        op->walk([&](gpu::BlockIdOp id) { id.replaceAllUsesWith(own); });
    };
    int64_t threads = (*launch.getGrid())[1];
    if (threads == mostThreads)
      return clone(builder);
    Value thread = gpu::ThreadIdOp::create(builder, kernel.getLoc(), gpu::Dimension::x);
    writeWhere(builder, thread, threads, clone);
  }

  void writeWhere(OpBuilder &builder, Value index, int64_t below,
                  function_ref<void(OpBuilder &)> then,
                  function_ref<void(OpBuilder &)> other = {}) {
    Location loc = index.getLoc();
    Value limit = arith::ConstantIndexOp::create(builder, loc, below);
    Value isBelow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index, limit);
    auto where = scf::IfOp::create(builder, loc, isBelow, static_cast<bool>(other));
    OpBuilder inner = where.getThenBodyBuilder();
    then(inner);
    if (!other)
      return;
    inner = where.getElseBodyBuilder();
    other(inner);
  }
};

struct JoinLaunchesPass : mlir::autopar::impl::JoinLaunchesPassBase<JoinLaunchesPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      if (!program.getKernelsAttr())
        continue;
      auto own = getOperation().lookupSymbol<ModuleOp>(program.getKernelsAttr());
      if (kernels != own)
        known.clear();
      kernels = own;
      states.clear();
      for (auto port : program.getOps<exec::PortOp>())
        if (port.getRole() == exec::Role::State && port.getBuffer())
          states.insert(exec::rootOf(port.getBuffer()).first);
      addFetched(program);
      for (auto entry : program.getOps<exec::EntryOp>())
        joinIn(entry.getBody().front());
    }
    eraseUnused();
  }

private:
  ModuleOp kernels;
  llvm::StringMap<func::FuncOp> known; ///< joined kernels
  Roots states;
  llvm::SmallSetVector<func::FuncOp, 8> replaced;
  int64_t made = 0;

  /// Copies of states, which are stored where the states are.
  void addFetched(exec::ProgramOp program) {
    program.walk([&](exec::CopyOp copy) {
      if (copy.getQueue() == exec::Queue::CopyOut &&
          states.contains(exec::rootOf(copy.getDst()).first))
        states.insert(exec::rootOf(copy.getSrc()).first);
    });
  }

  void joinIn(Block &body) {
    Run run;
    for (Operation &op : llvm::make_early_inc_range(body)) {
      auto launch = dyn_cast<exec::LaunchOp>(op);
      bool isUpdate = launch && updatesStates(launch);
      if (!isUpdate || !run.takes(launch)) {
        join(run);
        run = Run();
      }
      if (isUpdate)
        run.add(launch);
    }
    join(run);
  }

  /// Whether states are all that it writes, in place, and its blocks need nothing but their number.
  /// What is replaced in place lives through the step anyhow, so that no peak grows.
  bool updatesStates(exec::LaunchOp launch) {
    auto grid = launch.getGrid();
    bool isInPlace = llvm::all_of(launch.getOutputs(), [&](Value output) {
      return states.contains(exec::rootOf(output).first) &&
             llvm::is_contained(launch.getInputs(), output);
    });
    auto kernel = kernels.lookupSymbol<func::FuncOp>(launch.getKernel());
    return grid && (*grid)[2] == 0 && isInPlace && !kernel->hasAttr("autopar.few_blocks") &&
           !kernel
                .walk([](Operation *op) {
                  bool isOfBlock = isa<memref::AllocaOp>(op) ||
                                   (isa_and_nonnull<gpu::GPUDialect>(op->getDialect()) &&
                                    !isa<gpu::BlockIdOp, gpu::ThreadIdOp>(op));
                  return isOfBlock ? WalkResult::interrupt() : WalkResult::advance();
                })
                .wasInterrupted();
  }

  void join(const Run &run) {
    if (run.launches.size() < 2)
      return;
    exec::LaunchOp first = run.launches.front();
    int64_t extent = 0, flops = 0, bytes = 0;
    JoinedKernel joint(run, kernels);
    func::FuncOp &kernel = known[joint.key()];
    if (!kernel)
      kernel = joint.write("joined" + std::to_string(made++));
    for (exec::LaunchOp launch : run.launches) {
      extent += launch.getExtent();
      flops += launch.getFlops();
      bytes += launch.getBytes();
      replaced.insert(kernels.lookupSymbol<func::FuncOp>(launch.getKernel()));
    }
    OpBuilder builder(first);
    auto joined =
        exec::LaunchOp::create(builder, first.getLoc(), kernel.getSymName(),
                               run.inputs.getArrayRef(), run.outputs.getArrayRef(), extent,
                               kernel->getAttrOfType<DenseI64ArrayAttr>(kGridAttribute));
    joined.setId(first.getId().str() + " and " + std::to_string(run.launches.size() - 1) + " more");
    joined.setKey(first.getKey());
    joined.setArithmetic(first.getArithmetic());
    joined.setFlops(flops);
    joined.setBytes(bytes);
    for (exec::LaunchOp launch : run.launches)
      launch.erase();
  }

  void eraseUnused() {
    llvm::DenseSet<StringRef> used;
    getOperation().walk([&](exec::LaunchOp launch) { used.insert(launch.getKernel()); });
    for (func::FuncOp kernel : replaced)
      if (!used.contains(kernel.getSymName()))
        kernel.erase();
  }
};

} // namespace
