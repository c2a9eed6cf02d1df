// SPDX-License-Identifier: Apache-2.0
// The pass autopar-join-launches: a step ends with an update per parameter, and most parameters are
// small; before it are their gradients' norms and last sums, and at its beginning their casts. On a
// GPU a launch costs as much as such a kernel; blocks of one launch can work on different ones.
#include "JoinedKernel.h"
#include "LiveBytes.h"

#include "autopar/Conversion/AutoParToLoops.h"
#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/Exec/Transforms/Evaluated.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringMap.h"
#include <list>

namespace mlir::autopar {
#define GEN_PASS_DEF_JOINLAUNCHESPASS
#include "autopar/Conversion/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Addresses that a launch can be given: PTX 8.0 has 4,096 bytes for them.
constexpr size_t kMostBuffers = 512;
/// Bytes that a launch moves, if others than updates are to be joined with it: a few times what a
/// GPU moves while a launch begins.
constexpr int64_t kMostBytes = 16 << 20;
/// Shared memory of a joined kernel, so that an SM has as many of its blocks as threads allow.
constexpr int64_t kMostJoinedShared = 16 * 1024;
/// Bodies end where all of a warp has come to their end.
constexpr int64_t kWarpThreads = 32;
/// Threads of a block to which any body can be given as many registers as it wants, and those that
/// may be idle in all of a launch: what a GPU runs in a few rounds.
constexpr int64_t kSmallBlock = 256, kMostIdle = 1 << 20;

using Roots = llvm::SmallDenseSet<Operation *>;

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

/// A launch that may become one with others.
struct Candidate {
  exec::LaunchOp launch;
  const Traits *traits;
  bool isUpdate, isEvaluated;

  int64_t blocks() { return (*launch.getGrid())[0]; }
  int64_t threads() { return (*launch.getGrid())[1]; }
};

/// Launches that become one, at the place that one of them has.
struct Group {
  LaunchRun run;
  Candidate first;
  SharedBuffers shared;
  int64_t time = 0, lastMember = 0; ///< their place, and that of the last that joined them
  int64_t mostThreads = 0, blocks = 0, threads = 0; ///< threads: of all blocks
  bool hasBarrier = false;
  bool mayMove = true; ///< nothing behind them needs them to have run

  explicit Group(const Candidate &candidate, int64_t time) : first(candidate) {
    add(candidate, time);
  }

  void add(Candidate candidate, int64_t now) {
    run.add(candidate.launch);
    shared = shared.with(candidate.traits->shared);
    lastMember = now;
    if (run.launches.size() == 1)
      time = now;
    mostThreads = std::max(mostThreads, candidate.threads());
    blocks += candidate.blocks();
    threads += candidate.blocks() * candidate.threads();
    hasBarrier |= candidate.traits->hasBarrier;
  }

  /// Whether one kernel can have the bodies, whatever they read and write.
  bool fits(Candidate candidate) {
    exec::LaunchOp launch = candidate.launch;
    size_t buffers = run.inputs.size() + run.outputs.size() + launch.getOutputs().size();
    for (Value input : launch.getInputs())
      buffers += !run.inputs.contains(input);
    int64_t most = std::max(mostThreads, candidate.threads());
    int64_t idle =
        (blocks + candidate.blocks()) * most - threads - candidate.blocks() * candidate.threads();
    bool areAlike = mostThreads == candidate.threads();
    bool maySkip = most <= kSmallBlock && !hasBarrier && !candidate.traits->hasBarrier;
    return candidate.isUpdate == first.isUpdate && candidate.isEvaluated == first.isEvaluated &&
           launch.getKey() == first.launch.getKey() &&
           launch.getArithmetic() == first.launch.getArithmetic() && buffers <= kMostBuffers &&
           (areAlike || (maySkip && idle <= kMostIdle)) &&
           shared.with(candidate.traits->shared).bytes() <= kMostJoinedShared;
  }
};

/// Which launches of an entry become one. A launch joins others where nothing in between needs
/// their order: it runs as early as they do, or they as late as it does. It passes no instruction
/// of another queue on the way to the front, which would begin later.
class LaunchGroups {
public:
  LaunchGroups(LiveBytes &live, int64_t begin) : live(live), begin(begin) {}

  void visit(exec::InstructionOpInterface op, std::optional<Candidate> candidate) {
    Roots reads = rootsOf(op.getReads()), writes = rootsOf(op.getWrites());
    hold(reads, writes);
    int64_t time = now;
    if (op.getQueue() != exec::Queue::Compute)
      fence = now;
    if (candidate) {
      Group &group = join(*candidate, afterWhat(reads, writes));
      time = group.time;
      for (Operation *root : reads)
        readers[root].push_back(&group);
      for (Operation *root : writes)
        writers[root].push_back(&group);
    }
    record(reads, writes, time);
    ++now;
  }

  std::list<Group> take() { return std::move(groups); }

private:
  static Roots rootsOf(ArrayRef<Value> buffers) {
    Roots roots;
    for (Value buffer : buffers)
      roots.insert(exec::rootOf(buffer).first);
    return roots;
  }

  /// What groups need of the order is known: those on which the instruction depends stay.
  void hold(const Roots &reads, const Roots &writes) {
    auto holdAll = [](SmallVector<Group *> held) {
      for (Group *group : held)
        group->mayMove = false;
    };
    for (Operation *root : reads)
      holdAll(writers.lookup(root));
    for (Operation *root : writes) {
      holdAll(writers.lookup(root));
      holdAll(readers.lookup(root));
    }
  }

  /// The last instruction that has to run before.
  int64_t afterWhat(const Roots &reads, const Roots &writes) const {
    int64_t last = fence;
    for (Operation *root : reads)
      last = std::max(last, timeIn(lastWrite, root));
    for (Operation *root : writes)
      last = std::max({last, timeIn(lastWrite, root), timeIn(lastRead, root)});
    return last;
  }
  static int64_t timeIn(const DenseMap<Operation *, int64_t> &times, Operation *root) {
    auto it = times.find(root);
    return it == times.end() ? -1 : it->second;
  }

  void record(const Roots &reads, const Roots &writes, int64_t time) {
    for (Operation *root : reads)
      lastRead[root] = std::max(timeIn(lastRead, root), time);
    for (Operation *root : writes)
      lastWrite[root] = std::max(timeIn(lastWrite, root), time);
  }

  Group &join(const Candidate &candidate, int64_t after) {
    exec::LaunchOp launch = candidate.launch;
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      // Updates pass nothing: the host looks at what they wait for.
      if ((candidate.isUpdate && group->lastMember + 1 != now) || !group->fits(candidate))
        continue;
      if (group->time > after && live.extend(launch.getOutputs(), begin + group->time)) {
        group->add(candidate, now);
        return *group;
      }
      if (candidate.isUpdate || !group->mayMove ||
          !live.extend(group->run.inputs.getArrayRef(), begin + now))
        continue;
      group->add(candidate, now);
      group->time = now;
      record(rootsOf(group->run.inputs.getArrayRef()), rootsOf(group->run.outputs.getArrayRef()),
             now);
      groups.splice(groups.end(), groups, std::next(group).base());
      return groups.back();
    }
    return groups.emplace_back(candidate, now);
  }

  LiveBytes &live;
  int64_t begin;   ///< of the entry
  int64_t now = 0; ///< the number of the instruction
  int64_t fence = -1;
  std::list<Group> groups; ///< by their time
  DenseMap<Operation *, int64_t> lastRead, lastWrite;
  DenseMap<Operation *, SmallVector<Group *>> readers, writers;
};

struct JoinLaunchesPass : mlir::autopar::impl::JoinLaunchesPassBase<JoinLaunchesPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto program : getOperation().getOps<exec::ProgramOp>()) {
      if (!program.getKernelsAttr())
        continue;
      auto own = getOperation().lookupSymbol<ModuleOp>(program.getKernelsAttr());
      if (kernels != own) {
        known.clear();
        traits.clear();
      }
      kernels = own;
      findPorts(program);
      exec::Instructions evaluated = exec::evaluatedInstructions(program);
      LiveBytes live(program);
      for (auto entry : program.getOps<exec::EntryOp>())
        if (entry.getSymName() != "load")
          joinIn(entry, evaluated, live);
    }
    eraseUnused();
  }

private:
  ModuleOp kernels;
  llvm::StringMap<func::FuncOp> known; ///< joined kernels
  llvm::StringMap<Traits> traits;
  Roots states, ports;
  llvm::SmallSetVector<func::FuncOp, 8> replaced;
  int64_t made = 0;

  /// Copies of states are stored where the states are.
  void findPorts(exec::ProgramOp program) {
    states.clear();
    ports.clear();
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

  void joinIn(exec::EntryOp entry, const exec::Instructions &evaluated, LiveBytes &live) {
    LaunchGroups groups(live, live.beginOf(entry));
    SmallVector<Operation *> places;
    for (Operation &op : entry.getBody().front()) {
      places.push_back(&op);
      std::optional<Candidate> candidate;
      if (auto launch = dyn_cast<exec::LaunchOp>(op))
        candidate = candidateOf(launch, evaluated.contains(&op));
      groups.visit(cast<exec::InstructionOpInterface>(op), candidate);
    }
    for (Group &group : groups.take())
      if (group.run.launches.size() > 1)
        join(group.run, places[group.time]);
  }

  /// What writes states writes nothing else, in place: it lives through the step anyhow. Nothing
  /// else may write what the host looks at.
  std::optional<Candidate> candidateOf(exec::LaunchOp launch, bool isEvaluated) {
    auto [known, isNew] = traits.try_emplace(launch.getKernel());
    if (isNew)
      known->second = traitsOf(kernels.lookupSymbol<func::FuncOp>(launch.getKernel()));
    auto isState = [&](Value output) {
      return states.contains(exec::rootOf(output).first) &&
             llvm::is_contained(launch.getInputs(), output);
    };
    auto isPort = [&](Value output) {
      Operation *root = exec::rootOf(output).first;
      return ports.contains(root) || states.contains(root);
    };
    auto grid = launch.getGrid();
    bool isUpdate = llvm::all_of(launch.getOutputs(), isState);
    bool isSmall = launch.getBytes() <= kMostBytes && llvm::none_of(launch.getOutputs(), isPort);
    if (!grid || (*grid)[1] % kWarpThreads != 0 || (*grid)[2] != 0 || !known->second.mayJoin ||
        (!isUpdate && !isSmall))
      return std::nullopt;
    return Candidate{launch, &known->second, isUpdate, isEvaluated};
  }

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
