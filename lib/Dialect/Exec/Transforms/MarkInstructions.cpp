// SPDX-License-Identifier: Apache-2.0
// Which instructions change what lasts from step to step, and which ones an evaluation needs.
#include "ProgramRounds.h"

#include "autopar/Dialect/Exec/Transforms/Evaluated.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"

namespace mlir::exec {
#define GEN_PASS_DEF_MARKINSTRUCTIONSPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
using Buffers = llvm::SmallDenseSet<Operation *>;

Buffers rootsOf(ArrayRef<Value> values) {
  Buffers roots;
  for (Value value : values)
    roots.insert(rootOf(value).first);
  return roots;
}

bool meet(const Buffers &a, const Buffers &b) {
  return llvm::any_of(a, [&](Operation *buffer) { return b.contains(buffer); });
}

bool writesAny(Operation &op, const Buffers &buffers) {
  return meet(rootsOf(cast<InstructionOpInterface>(op).getWrites()), buffers);
}

struct MarkInstructionsPass : exec::impl::MarkInstructionsPassBase<MarkInstructionsPass> {
  using Base::Base;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    states.clear();
    Buffers guards;
    for (auto port : program.getOps<PortOp>()) {
      if (!port.getBuffer())
        continue;
      Operation *root = rootOf(port.getBuffer()).first;
      if (port.getRole() == Role::State)
        states.insert(root);
      if (port.getGuards())
        guards.insert(root);
    }
    markCommits(guards, llvm::to_vector(ProgramRounds(program).order()));
    markEvaluated(program);
  }

private:
  Buffers states;

  void markCommits(const Buffers &guards, SmallVector<EntryOp> rows) {
    int64_t known = -1; // the row that computes the last guard
    for (auto [row, entry] : llvm::enumerate(rows))
      for (Operation &op : entry.getBody().front())
        if (writesAny(op, guards))
          known = row;
    for (EntryOp entry : llvm::SmallSetVector<EntryOp, 4>(rows.begin(), rows.end())) {
      int64_t first = llvm::find(rows, entry) - rows.begin();
      if (first < known)
        continue; // what earlier rows write cannot wait
      Block &body = EntryOp(entry).getBody().front();
      SmallVector<Operation *> commits;
      size_t early = 0; // so many of them before the last guard
      for (Operation &op : body) {
        if (writesAny(op, guards))
          early = commits.size();
        if (writesAny(op, states))
          commits.push_back(&op);
      }
      for (auto [number, op] : llvm::enumerate(commits)) {
        if (number < early && !moveToEnd(op, guards))
          continue; // the guard itself is made of this state
        op->setAttr("commits", UnitAttr::get(op->getContext()));
      }
    }
  }

  /// With all behind `op` that reads or writes what it or they write, or writes what they read,
  /// such as copies of state to host memory. Not where one of them makes a guard.
  static bool moveToEnd(Operation *op, const Buffers &guards) {
    SmallVector<Operation *> moved;
    Buffers writes, reads;
    for (Operation *later = op; later; later = later->getNextNode()) {
      auto other = cast<InstructionOpInterface>(later);
      Buffers written = rootsOf(other.getWrites()), read = rootsOf(other.getReads());
      if (later != op && !meet(written, writes) && !meet(written, reads) && !meet(read, writes))
        continue;
      if (meet(written, guards))
        return false;
      moved.push_back(later);
      writes.insert(written.begin(), written.end());
      reads.insert(read.begin(), read.end());
    }
    for (Operation *one : moved)
      one->moveBefore(op->getBlock(), op->getBlock()->end());
    return true;
  }

  /// What commits may write its state by way of a copy, when state lies in host memory.
  void markEvaluated(ProgramOp program) {
    Instructions marked = evaluatedInstructions(program);
    if (llvm::any_of(marked, [&](Operation *op) {
          return op->hasAttr("commits") || writesAny(*op, states);
        })) {
      for (auto port : program.getOps<PortOp>())
        port.setEvaluated(false);
      return;
    }
    for (Operation *op : marked)
      op->setAttr("evaluated", UnitAttr::get(op->getContext()));
  }
};
} // namespace

/// Backwards from the metrics. An instruction of an entry that several rows run is among them when
/// one of them needs it; in the others its result is not looked at. What one of these rows finds,
/// one before it handed on, so they are looked at until nothing is added.
Instructions mlir::exec::evaluatedInstructions(ProgramOp program) {
  ProgramRounds rounds(program);
  auto placesOf = [&](ArrayRef<Value> values) {
    Buffers places;
    for (Value value : values)
      places.insert(rounds.placeOf(rootOf(value).first));
    return places;
  };
  Buffers needed;
  for (auto port : program.getOps<PortOp>())
    if (port.getBuffer() && port.getEvaluated())
      needed.insert(rounds.placeOf(rootOf(port.getBuffer()).first));
  Instructions evaluated;
  if (needed.empty())
    return evaluated;
  auto lookAt = [&](EntryOp entry) {
    size_t before = evaluated.size();
    for (Operation &op : llvm::reverse(entry.getBody().front())) {
      auto instruction = cast<InstructionOpInterface>(op);
      // What a peer does with a message is not known here: they are marked from the start.
      bool isNeeded = isa<SendOp, RecvOp>(op) ? op.hasAttr("evaluated")
                                              : meet(placesOf(instruction.getWrites()), needed);
      if (!isNeeded)
        continue;
      evaluated.insert(&op);
      needed.insert_range(placesOf(instruction.getReads()));
    }
    return evaluated.size() > before;
  };
  for (EntryOp entry : llvm::reverse(rounds.order()))
    while (lookAt(entry) && entry == rounds.repeated())
      ;
  return evaluated;
}
