// SPDX-License-Identifier: Apache-2.0
// The pass autopar-join-launches: a step ends with an update per parameter, and most parameters are
// small; before it are their gradients' norms and last sums, and at its beginning their casts. On a
// GPU a launch costs as much as such a kernel; blocks of one launch can work on different ones.
#include "JoinedKernel.h"
#include "LiveBytes.h"

#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/Exec/Transforms/Evaluated.h"
#include "autopar/Interfaces/RunSideBySide.h"
#include "autopar/Transforms/JoinOrder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace mlir::autopar {
#define GEN_PASS_DEF_JOINLAUNCHESPASS
#include "autopar/Conversion/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Shared memory of a joined kernel, so that an SM has as many of its blocks as threads allow.
constexpr int64_t kMostJoinedShared = 16 * 1024;
/// Bodies end where all of a warp has come to their end.
constexpr int64_t kWarpThreads = 32;
/// Threads of a block to which any body can be given as many registers as it wants, and those that
/// may be idle in all of a launch: what a GPU runs in a few rounds.
constexpr int64_t kSmallBlock = 256, kMostIdle = 1 << 20;

using Buffers = llvm::SmallDenseSet<Operation *>;
using Roots = llvm::SmallDenseSet<const void *>;

Roots rootsOf(ValueRange buffers) {
  Roots roots;
  for (Value buffer : buffers)
    roots.insert(exec::rootOf(buffer).first.getOperation());
  return roots;
}

/// What of a kernel says with which others it may be joined.
struct Traits {
  bool mayJoin = false, hasBarrier = false;
  SharedBuffers shared;
};

Traits traitsOf(func::FuncOp kernel) {
  Traits traits;
  std::optional<SharedBuffers> shared = SharedBuffers::of(kernel);
  if (!shared || kernel->hasAttr("autopar.few_blocks"))
    return traits;
  traits.shared = *shared;
  bool isOwn =
      kernel
          .walk([&](Operation *op) {
            traits.hasBarrier |= isa<gpu::BarrierOp>(op);
            StringRef dialect = op->getName().getDialectNamespace();
            bool isKnown =
                isa<gpu::BlockIdOp, gpu::ThreadIdOp, gpu::LaneIdOp, gpu::ShuffleOp, gpu::BarrierOp>(
                    op) ||
                (dialect != "gpu" && dialect != "nvvm");
            return isKnown ? WalkResult::advance() : WalkResult::interrupt();
          })
          .wasInterrupted();
  traits.mayJoin = !isOwn;
  return traits;
}

/// Launches that become one.
struct Launches {
  /// A launch that may become one with others.
  struct Candidate {
    exec::LaunchOp launch;
    const Traits *traits;
    bool isUpdate, isEvaluated;
    LiveBytes *live;
    int64_t begin; ///< of the entry, among all instructions

    ArrayRef<int64_t> grid() const { return *exec::LaunchOp(launch).getGrid(); }
  };

  explicit Launches(const Candidate &candidate) : first(candidate) { add(candidate); }

  void add(const Candidate &candidate) {
    run.add(candidate.launch);
    shared = shared.with(candidate.traits->shared);
    int64_t own = candidate.grid()[0];
    mostThreads = std::max(mostThreads, candidate.grid()[1]);
    blocks += own;
    threads += own * candidate.grid()[1];
    hasBarrier |= candidate.traits->hasBarrier;
  }

  /// Whether one kernel can have the bodies, whatever they read and write.
  bool fits(const Candidate &candidate) const {
    exec::LaunchOp launch = candidate.launch, other = first.launch;
    if (candidate.isUpdate != first.isUpdate || candidate.isEvaluated != first.isEvaluated ||
        launch.getKey() != other.getKey() || launch.getArithmetic() != other.getArithmetic())
      return false;
    int64_t own = candidate.grid()[0], ownThreads = candidate.grid()[1];
    int64_t most = std::max(mostThreads, ownThreads);
    int64_t idle = (blocks + own) * most - threads - own * ownThreads;
    bool areAlike = mostThreads == ownThreads;
    bool maySkip = most <= kSmallBlock && !hasBarrier && !candidate.traits->hasBarrier;
    if (!areAlike && !(maySkip && idle <= kMostIdle))
      return false;
    size_t buffers = run.inputs.size() + run.outputs.size() + launch.getOutputs().size();
    for (Value input : launch.getInputs())
      buffers += !run.inputs.contains(input);
    return buffers <= kMostBuffers &&
           shared.with(candidate.traits->shared).bytes() <= kMostJoinedShared;
  }

  /// Buffers do not live longer where that took more memory at the peak.
  static bool mayRunAt(const Candidate &candidate, int64_t time) {
    return candidate.live->extend(exec::LaunchOp(candidate.launch).getOutputs(),
                                  candidate.begin + time);
  }
  bool mayWaitUntil(int64_t time) const {
    return first.live->extend(run.inputs.getArrayRef(), first.begin + time);
  }

  Roots reads() const { return rootsOf(run.inputs.getArrayRef()); }
  Roots writes() const { return rootsOf(run.outputs.getArrayRef()); }

  LaunchRun run;

private:
  Candidate first;
  SharedBuffers shared;
  int64_t mostThreads = 0, blocks = 0, threads = 0; ///< threads: of all blocks
  bool hasBarrier = false;
};

/// The launches of a program that become one with others. Changes nothing.
class LaunchFinder {
public:
  /// Launches that are to be one, and where they will run.
  using Found = std::pair<LaunchRun, Operation *>;

  /// `traits` are of all kernels.
  LaunchFinder(exec::ProgramOp program, const llvm::StringMap<Traits> &traits)
      : program(program), traits(traits), live(program) {
    findPorts();
  }

  std::vector<Found> run() {
    exec::Instructions evaluated = exec::evaluatedInstructions(program);
    for (auto entry : program.getOps<exec::EntryOp>())
      if (entry.getSymName() != "load")
        findIn(entry, evaluated);
    return std::move(found);
  }

private:
  /// Copies of states are stored where the states are.
  void findPorts() {
    for (auto port : program.getOps<exec::PortOp>())
      if (port.getBuffer()) {
        Operation *root = exec::rootOf(port.getBuffer()).first;
        ports.insert(root);
        if (port.getRole() == exec::Role::State)
          states.insert(root);
      }
    program.walk([&](exec::CopyOp copy) {
      if (copy.getQueue() == exec::Queue::CopyOut &&
          states.contains(exec::rootOf(copy.getDst()).first))
        states.insert(exec::rootOf(copy.getSrc()).first);
    });
  }

  void findIn(exec::EntryOp entry, const exec::Instructions &evaluated) {
    JoinOrder<Launches> order;
    SmallVector<Operation *> places;
    for (Operation &op : entry.getBody().front()) {
      places.push_back(&op);
      std::optional<Launches::Candidate> candidate;
      if (auto launch = dyn_cast<exec::LaunchOp>(op))
        candidate = candidateOf(launch, evaluated.contains(&op), live.beginOf(entry));
      auto instruction = cast<exec::InstructionOpInterface>(op);
      order.visit(rootsOf(instruction.getReads()), rootsOf(instruction.getWrites()),
                  instruction.getQueue() != exec::Queue::Compute,
                  candidate ? &*candidate : nullptr);
    }
    for (auto &group : order.take())
      if (group.launches.run.launches.size() > 1)
        found.emplace_back(std::move(group.launches.run), places[group.time]);
  }

  /// What writes states writes nothing else, in place: it lives through the step anyhow. Nothing
  /// else may write what the host looks at.
  std::optional<Launches::Candidate> candidateOf(exec::LaunchOp launch, bool isEvaluated,
                                                 int64_t begin) {
    auto known = traits.find(launch.getKernel());
    auto grid = launch.getGrid();
    if (known == traits.end() || !known->second.mayJoin || !grid ||
        (*grid)[1] % kWarpThreads != 0 || (*grid)[2] != 0)
      return std::nullopt;
    auto isState = [&](Value output) {
      return states.contains(exec::rootOf(output).first) &&
             llvm::is_contained(launch.getInputs(), output);
    };
    auto isPort = [&](Value output) {
      Operation *root = exec::rootOf(output).first;
      return ports.contains(root) || states.contains(root);
    };
    bool isUpdate = llvm::all_of(launch.getOutputs(), isState);
    bool isSmall =
        launch.getBytes() <= kMostJoinedBytes && llvm::none_of(launch.getOutputs(), isPort);
    if (!isUpdate && !isSmall)
      return std::nullopt;
    return Launches::Candidate{launch, &known->second, isUpdate, isEvaluated, &live, begin};
  }

  exec::ProgramOp program;
  const llvm::StringMap<Traits> &traits;
  LiveBytes live;
  Buffers states, ports;
  std::vector<Found> found;
};

struct JoinLaunchesPass : mlir::autopar::impl::JoinLaunchesPassBase<JoinLaunchesPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<exec::ProgramOp> programs;
    SmallVector<ModuleOp> modules; ///< with the kernels of each
    std::map<Operation *, llvm::StringMap<Traits>> traits;
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      if (!program.getKernelsAttr())
        continue;
      auto own = getOperation().lookupSymbol<ModuleOp>(program.getKernelsAttr());
      if (!own) {
        program.emitOpError() << "names the kernels " << program.getKernelsAttr()
                              << ", which are no module here";
        return signalPassFailure();
      }
      programs.push_back(program);
      modules.push_back(own);
      if (auto [known, isNew] = traits.try_emplace(own); isNew)
        for (auto kernel : own.getOps<func::FuncOp>())
          known->second[kernel.getSymName()] = traitsOf(kernel);
    }
    std::vector<std::vector<LaunchFinder::Found>> found(programs.size());
    runSideBySide(getContext(), programs.size(), [&](size_t i) {
      found[i] = LaunchFinder(programs[i], traits.at(modules[i])).run();
    });
    for (size_t i = 0; i < programs.size(); ++i) {
      if (kernels != modules[i])
        known.clear();
      kernels = modules[i];
      for (auto &[run, place] : found[i])
        join(run, place);
    }
    eraseUnused();
  }

private:
  ModuleOp kernels;
  llvm::StringMap<func::FuncOp> known; ///< joined kernels
  llvm::SmallSetVector<func::FuncOp, 8> replaced;
  int64_t made = 0;

  void join(const LaunchRun &run, Operation *place) {
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
    OpBuilder builder(place);
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
