// SPDX-License-Identifier: Apache-2.0
// The pass autopar-order-parts-late: kernels that put the parts of a collective in order run where
// somebody reads them.
#include "autopar/Dialect/Exec/Transforms/Passes.h"

namespace mlir::exec {
#define GEN_PASS_DEF_ORDERPARTSLATEPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {

struct OrderPartsLatePass : exec::impl::OrderPartsLatePassBase<OrderPartsLatePass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto entry : getOperation().getOps<EntryOp>())
      run(entry.getBody().front());
  }

private:
  /// Who reads or writes a buffer, in order.
  using Touching = DenseMap<Operation *, SmallVector<Operation *, 4>>;

  static void run(Block &block) {
    Touching touching;
    for (Operation &op : block) {
      auto instruction = cast<InstructionOpInterface>(op);
      for (const SmallVector<Value> &values : {instruction.getReads(), instruction.getWrites()})
        for (Value value : values)
          if (auto &list = touching[rootOf(value).first]; list.empty() || list.back() != &op)
            list.push_back(&op);
    }
    for (auto collective : llvm::make_early_inc_range(block.getOps<CollectiveOp>())) {
      auto kernel = dyn_cast_or_null<LaunchOp>(collective->getNextNode());
      if (!kernel || !onlyReads(kernel, collective, touching))
        continue;
      if (Operation *reader = firstBehind(kernel, touching))
        kernel->moveBefore(reader);
    }
  }

  /// Whether a kernel reads the result of a collective, which nobody else does, and nothing else.
  static bool onlyReads(InstructionOpInterface kernel, InstructionOpInterface collective,
                        const Touching &touching) {
    SmallVector<Value> parts = collective.getWrites(), read = kernel.getReads();
    return parts.size() == 1 && read.size() == 1 &&
           rootOf(parts.front()).first == rootOf(read.front()).first &&
           touching.at(rootOf(parts.front()).first).back() == kernel.getOperation();
  }

  /// The first instruction behind a kernel that reads or writes what it writes; null where there is
  /// none.
  static Operation *firstBehind(InstructionOpInterface kernel, const Touching &touching) {
    Operation *first = nullptr;
    for (Value value : kernel.getWrites()) {
      const auto &list = touching.at(rootOf(value).first);
      const auto *next = std::next(llvm::find(list, kernel.getOperation()));
      if (next != list.end() && (!first || (*next)->isBeforeInBlock(first)))
        first = *next;
    }
    return first;
  }
};

} // namespace
