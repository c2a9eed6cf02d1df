// SPDX-License-Identifier: Apache-2.0
// State in host memory is worked on in copies on the device, which come and go beside the work
// on others. What else lies there is copied by the program itself. How many are there at once
// follows from where the copies stand in the program: memory is planned and queues are ordered
// behind this.
#include "autopar/Cost/HostGroups.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::exec {
#define GEN_PASS_DEF_STAGEHOSTBUFFERSPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
/// Instructions that work on host buffers, and the buffers' copies.
struct Group {
  SmallVector<Operation *> ops;
  llvm::MapVector<Operation *, Value> copies;    ///< by buffer in host memory
  llvm::SmallDenseMap<Operation *, Value> views; ///< of the copies, by view
  llvm::SmallDenseSet<Operation *> read, written;
  int64_t bytes = 0;
};

struct StageHostBuffersPass : exec::impl::StageHostBuffersPassBase<StageHostBuffersPass> {
  using Base::Base;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    int64_t all = 0;
    llvm::SmallDenseSet<Operation *> copied = copiedByProgram(program);
    for (auto buffer : program.getOps<BufferOp>())
      if (buffer.getSpace() == Space::PinnedHost && !copied.contains(buffer))
        all += buffer.getBytes();
    if (all == 0)
      return;
    // What commits moves behind the guards before it gets copies.
    OpPassManager marks(ProgramOp::getOperationName());
    marks.addPass(createMarkInstructionsPass());
    if (failed(runPipeline(marks, program)))
      return signalPassFailure();
    int64_t most = ::autopar::mostHostGroupBytes(all);
    for (auto entry : program.getOps<EntryOp>())
      stage(entry, most);
    SmallVector<ViewOp> views = llvm::to_vector(program.getOps<ViewOp>());
    for (ViewOp view : llvm::reverse(views))
      if (view.use_empty())
        view.erase();
  }

private:
  static bool copiesHost(Operation *op) {
    auto copy = dyn_cast<CopyOp>(op);
    return copy && copy.getQueue() != Queue::Compute;
  }

  /// What instructions of the copy queues work on.
  static llvm::SmallDenseSet<Operation *> copiedByProgram(ProgramOp program) {
    llvm::SmallDenseSet<Operation *> found;
    program.walk([&](CopyOp copy) {
      if (copiesHost(copy))
        for (Value value : {copy.getSrc(), copy.getDst()})
          found.insert(rootOf(value).first);
    });
    return found;
  }

  static bool isOnHost(Value value) { return rootOf(value).first.getSpace() == Space::PinnedHost; }

  void stage(EntryOp entry, int64_t most) {
    std::vector<Group> groups;
    for (Operation &op : entry.getBody().front()) {
      if (copiesHost(&op))
        continue;
      auto instruction = cast<InstructionOpInterface>(op);
      SmallVector<Value> reads = instruction.getReads(), writes = instruction.getWrites();
      llvm::erase_if(reads, [](Value value) { return !isOnHost(value); });
      llvm::erase_if(writes, [](Value value) { return !isOnHost(value); });
      if (reads.empty() && writes.empty())
        continue;
      bool isSame = !groups.empty() && groups.back().written.empty() == writes.empty();
      if (!isSame || groups.back().bytes >= most)
        groups.emplace_back();
      Group &group = groups.back();
      group.ops.push_back(&op);
      for (Value value : llvm::concat<Value>(reads, writes)) {
        BufferOp buffer = rootOf(value).first;
        if (group.copies.insert({buffer, Value()}).second)
          group.bytes += buffer.getBytes();
      }
      for (Value value : reads)
        group.read.insert(rootOf(value).first);
      for (Value value : writes) {
        BufferOp buffer = rootOf(value).first;
        group.written.insert(buffer);
        // What it leaves as it is has to be there.
        if (bytesOf(value) < static_cast<int64_t>(buffer.getBytes()))
          group.read.insert(buffer);
      }
    }
    // Readers begin a step and updates end it: what these work on does not come while those do.
    size_t begin = 0;
    for (auto [number, group] : llvm::enumerate(groups)) {
      if (groups[begin].written.empty() != group.written.empty())
        begin = number;
      stage(group, groups[number - std::min(::autopar::kHostGroupsAhead, number - begin)]);
    }
  }

  /// Copies in stand in front of a group `before`, so that they may run beside its work.
  void stage(Group &group, const Group &before) {
    Operation *first = before.ops.front(), *last = group.ops.back();
    for (auto &[op, copy] : group.copies) {
      auto buffer = cast<BufferOp>(op);
      OpBuilder builder(buffer);
      builder.setInsertionPointAfter(buffer);
      auto onDevice = cast<BufferOp>(builder.clone(*buffer));
      onDevice.setName((buffer.getName() + ".fetched").str());
      onDevice.setSpace(Space::Device);
      copy = onDevice;
      if (group.read.contains(op)) {
        builder.setInsertionPoint(first);
        addCopy(builder, buffer, copy, Queue::CopyIn, "/fetch");
      }
      if (group.written.contains(op)) {
        builder.setInsertionPointAfter(last);
        addCopy(builder, copy, buffer, Queue::CopyOut, "/store");
      }
    }
    for (Operation *op : group.ops)
      for (OpOperand &operand : op->getOpOperands())
        if (isa<BufferType>(operand.get().getType()) && isOnHost(operand.get()))
          operand.set(onDevice(operand.get(), group));
  }

  static void addCopy(OpBuilder &builder, Value from, Value to, Queue queue, StringRef suffix) {
    BufferOp buffer = rootOf(queue == Queue::CopyIn ? from : to).first;
    auto copy = CopyOp::create(builder, buffer.getLoc(), from, 0, to, 0, buffer.getBytes());
    copy.setQueue(queue);
    copy.setId((buffer.getName() + suffix).str());
    copy.setKey("host_copy");
    copy.setBytes(2 * buffer.getBytes());
  }

  /// The copy of a buffer or of a view of one.
  static Value onDevice(Value value, Group &group) {
    auto view = value.getDefiningOp<ViewOp>();
    if (!view)
      return group.copies.lookup(value.getDefiningOp());
    Value base = onDevice(view.getBase(), group);
    Value &copy = group.views[view];
    if (!copy) {
      OpBuilder builder(view);
      auto cloned = cast<ViewOp>(builder.clone(*view));
      cloned.getBaseMutable().assign(base);
      copy = cloned;
    }
    return copy;
  }
};
} // namespace
