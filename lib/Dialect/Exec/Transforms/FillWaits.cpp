// SPDX-License-Identifier: Apache-2.0
// The pass autopar-fill-waits: kernels that nobody waits for run while others wait for a
// collective.
#include "autopar/VirtualTime/FillWaits.h"

#include "InstructionTime.h"
#include "ProgramRounds.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"

namespace mlir::exec {
#define GEN_PASS_DEF_FILLWAITSPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using ::autopar::QueuedTask;

namespace {

/// The instructions of an entry with whom they depend on, by the buffers that they touch: before
/// memory is planned a buffer holds one value, and what one round hands on to the next is to lie
/// where that finds it.
class Dependencies {
public:
  Dependencies(EntryOp entry, const ProgramRounds &rounds) : rounds(rounds) {
    for (Operation &op : entry.getBody().front())
      add(cast<InstructionOpInterface>(op));
    for (auto [number, op] : llvm::enumerate(instructions))
      for (Value value : op.getReads())
        if (accesses[placeOf(value)].last == static_cast<int32_t>(number))
          tasks[number].keptBytes += bytesOf(value);
  }

  std::vector<InstructionOpInterface> instructions;
  std::vector<QueuedTask> tasks;

private:
  struct Access {
    int32_t writer = -1;
    SmallVector<int32_t, 4> readers; ///< since
    int32_t last = -1;
  };

  Operation *placeOf(Value value) const { return rounds.placeOf(rootOf(value).first); }

  void add(InstructionOpInterface op) {
    auto number = static_cast<int32_t>(tasks.size());
    auto queue = static_cast<::autopar::artifact::Queue>(op.getQueue());
    QueuedTask task;
    task.queue = endsInAnyOrder(queue) ? QueuedTask::kNone : static_cast<int32_t>(queue);
    task.us = microseconds(op);
    auto follow = [&](int32_t other) {
      if (other >= 0 && !llvm::is_contained(task.before, other))
        task.before.push_back(other);
    };
    for (Value value : op.getReads())
      follow(accesses[placeOf(value)].writer);
    for (Value value : op.getWrites()) {
      Access &access = accesses[placeOf(value)];
      follow(access.writer);
      llvm::for_each(access.readers, follow);
    }
    for (Value value : op.getReads()) {
      Access &access = accesses[placeOf(value)];
      access.readers.push_back(number);
      access.last = number;
    }
    for (Value value : op.getWrites())
      accesses[placeOf(value)] = {number, {}, number};
    tasks.push_back(std::move(task));
    instructions.push_back(op);
  }

  const ProgramRounds &rounds;
  DenseMap<Operation *, Access> accesses; ///< by place
};

struct FillWaitsPass : exec::impl::FillWaitsPassBase<FillWaitsPass> {
  using Base::Base;

  void runOnOperation() override {
    int64_t mostBytes =
        limit > 0 ? limit / ::autopar::kWorthOfWaiting : std::numeric_limits<int64_t>::max();
    ProgramRounds rounds(getOperation());
    for (auto entry : getOperation().getOps<EntryOp>()) {
      Dependencies found(entry, rounds);
      Operation *last = nullptr;
      for (int32_t number : ::autopar::fillWaits(found.tasks, mostBytes).order) {
        Operation *op = found.instructions[number];
        if (last)
          op->moveAfter(last);
        last = op;
      }
    }
  }
};

} // namespace
