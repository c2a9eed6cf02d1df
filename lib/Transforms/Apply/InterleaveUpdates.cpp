// SPDX-License-Identifier: Apache-2.0
// The pass autopar-interleave-updates: updates of several parameters that wait for collectives in
// between take turns. Muon's iteration is products and collectives that each need the one before;
// what other matrices compute fills the time.
#include "StepParts.h"

#include "Cost/QueueWalk.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Transforms/Passes.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_INTERLEAVEUPDATESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// So many updates hide what one waits for, where it takes no longer than what it computes.
constexpr size_t kMostInTurn = 4;

/// Operations of an update phase that depend on each other, in order.
using Chain = SmallVector<Operation *>;

class Interleaver {
public:
  explicit Interleaver(const StepPart &part) : part(part) {
    DenseSet<Operation *> made;
    for (Operation *op : part.ops)
      if (isMarked(op) || llvm::any_of(op->getOperands(), [&](Value operand) {
            return made.contains(operand.getDefiningOp());
          })) {
        made.insert(op);
        update.push_back(op);
      }
  }

  void run() {
    leaveOutShared();
    std::vector<Chain> chains = findChains();
    llvm::erase_if(chains, [&](const Chain &chain) { return !waits(chain); });
    for (ArrayRef<Chain> left = chains; left.size() > 1;)
      left = left.drop_front(takeTurns(left));
  }

private:
  /// As of the update phase; collectives and copies behind have no mark.
  static bool isMarked(Operation *op) {
    auto isUpdate = [](Operation &inner) {
      auto phase = inner.getAttrOfType<StringAttr>("autopar.phase");
      return phase && phase == "update";
    };
    auto group = dyn_cast<GroupOp>(op);
    return isUpdate(*op) || (group && llvm::any_of(group.getBody().front(), isUpdate));
  }

  static bool isScalar(Operation *op) {
    return op->getNumResults() > 0 && llvm::all_of(op->getResultTypes(), [](Type type) {
             auto tensor = dyn_cast<RankedTensorType>(type);
             return tensor && tensor.getRank() == 0;
           });
  }

  /// Constants, and numbers that updates share, such as rates, are made of nothing that is of one
  /// parameter.
  void leaveOutShared() {
    DenseSet<Operation *> own; // of one parameter each
    llvm::erase_if(update, [&](Operation *op) {
      bool isShared = (op->getNumOperands() == 0 || isScalar(op)) &&
                      llvm::none_of(op->getOperands(), [&](Value operand) {
                        return own.contains(operand.getDefiningOp());
                      });
      if (!isShared)
        own.insert(op);
      return isShared;
    });
  }

  /// Numbers that are made of several chains, such as the norm of all gradients, and what only they
  /// make are in none: they stand between what they are made of and what reads them.
  std::vector<Chain> findChains() {
    llvm::EquivalenceClasses<Operation *> classes; // of those in a chain
    for (Operation *op : update) {
      SmallVector<Operation *> makers;
      bool readsOthers = false;
      for (Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp()) {
          if (classes.contains(maker))
            makers.push_back(maker);
          readsOthers |= between.contains(maker);
        }
      bool isOfOne = llvm::all_of(
          makers, [&](Operation *maker) { return classes.isEquivalent(maker, makers.front()); });
      if (isScalar(op) && (!isOfOne || (makers.empty() && readsOthers))) {
        between.insert(op);
        continue;
      }
      classes.insert(op);
      for (Operation *maker : makers)
        classes.unionSets(op, maker);
    }
    llvm::MapVector<Operation *, Chain> chains;
    for (Operation *op : update)
      if (!between.contains(op))
        chains[classes.getLeaderValue(op)].push_back(op);
    std::vector<Chain> result;
    for (auto &[leader, chain] : chains)
      result.push_back(std::move(chain));
    return result;
  }

  /// Whether all that reads a chain is of it, or stands behind `end`.
  static bool isReadBehind(const Chain &chain, Operation *end) {
    DenseSet<Operation *> own(chain.begin(), chain.end());
    return llvm::all_of(chain, [&](Operation *op) {
      return llvm::all_of(op->getUsers(), [&](Operation *user) {
        return own.contains(user) || end->isBeforeInBlock(user);
      });
    });
  }

  bool goesBeside(Operation *op) const {
    return !part.work.free.contains(op) && part.times.goesBeside(part.times.of(op));
  }

  /// For a collective of its own.
  bool waits(const Chain &chain) const {
    return llvm::any_of(ArrayRef(chain).drop_back(), [&](Operation *op) { return goesBeside(op); });
  }

  /// The most that an operation reads and makes.
  static int64_t bytesOf(const Chain &chain) {
    int64_t most = 0;
    for (Operation *op : chain) {
      int64_t bytes = 0;
      for (TypeRange types : {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
        for (Type type : types)
          if (auto tensor = dyn_cast<RankedTensorType>(type))
            bytes += tensorBytes(tensor);
      most = std::max(most, bytes);
    }
    return most;
  }

  /// What stands between collectives, each with the collective behind it.
  SmallVector<ArrayRef<Operation *>> turnsOf(ArrayRef<Operation *> chain) const {
    SmallVector<ArrayRef<Operation *>> turns;
    size_t begin = 0;
    for (size_t i = 0; i < chain.size(); ++i)
      if (i + 1 == chain.size() || goesBeside(chain[i])) {
        turns.push_back(chain.slice(begin, i + 1 - begin));
        begin = i + 1;
      }
    return turns;
  }

  double endUs(ArrayRef<Operation *> ops) const {
    QueueWalk queues(part.times);
    for (Operation *op : ops)
      if (!part.work.free.contains(op))
        queues.run(op, part.times.of(op));
    return queues.endUs();
  }

  /// What chains do from collective to collective, in turn.
  SmallVector<Operation *> inTurn(ArrayRef<Chain> chains) const {
    SmallVector<SmallVector<ArrayRef<Operation *>>> turns;
    size_t most = 0;
    for (const Chain &chain : chains) {
      turns.push_back(turnsOf(chain));
      most = std::max(most, turns.back().size());
    }
    SmallVector<Operation *> ops;
    for (size_t i = 0; i < most; ++i)
      for (ArrayRef<ArrayRef<Operation *>> own : turns)
        if (i < own.size())
          llvm::append_range(ops, own[i]);
    return ops;
  }

  /// Lets as many of the first chains take turns as gain most; how many that are.
  size_t takeTurns(ArrayRef<Chain> chains) const {
    SmallVector<Operation *> inOrder(chains[0]), best;
    size_t bestCount = 1;
    double least = 1;
    int64_t bytes = bytesOf(chains[0]);
    for (size_t count = 2; count <= std::min(kMostInTurn, chains.size()); ++count) {
      const Chain &next = chains[count - 1];
      bytes += bytesOf(next);
      bool mayWait = llvm::all_of(chains.take_front(count), [&](const Chain &chain) {
        return isReadBehind(chain, next.back());
      });
      if (bytes > part.waitingBytes || !mayWait ||
          !chains[count - 2].back()->isBeforeInBlock(next.front()))
        break;
      inOrder.append(next);
      SmallVector<Operation *> ops = inTurn(chains.take_front(count));
      double share = endUs(ops) / endUs(inOrder);
      if (share >= least)
        continue;
      least = share;
      best = std::move(ops);
      bestCount = count;
    }
    if (bestCount > 1) {
      Operation *end = chains[bestCount - 1].back()->getNextNode(); // behind all that they read
      for (Operation *op : best)
        op->moveBefore(end);
    }
    return bestCount;
  }

  const StepPart &part;
  SmallVector<Operation *> update; ///< in order
  DenseSet<Operation *> between;   ///< made of several chains
};

struct InterleaveUpdatesPass
    : public mlir::autopar::impl::InterleaveUpdatesPassBase<InterleaveUpdatesPass> {
  using Base::Base;

  void runOnOperation() override {
    auto interleave = [](const StepPart &part) { Interleaver(part).run(); };
    if (failed(forEachPart(getOperation(), cluster, target, memoryLimit, &getAnalysis<KnownTimes>(),
                           interleave, /*behindRows=*/true)))
      return signalPassFailure();
    markAnalysesPreserved<KnownTimes>();
  }
};

} // namespace
