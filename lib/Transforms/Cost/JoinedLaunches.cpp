// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "JoinedLaunches.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/JoinOrder.h"
#include "autopar/Transforms/KernelBytes.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

using Roots = llvm::SmallDenseSet<const void *>;

/// The kernels of a launch.
struct Launch {
  struct Candidate {
    Operation *op;
    Roots reads, writes;
    bool isUpdate, isTowardsLoss, goesThroughRows;
    Type arithmetic;
  };

  explicit Launch(const Candidate &candidate) : first(candidate) { add(candidate); }

  bool fits(const Candidate &candidate) const {
    if (candidate.isUpdate != first.isUpdate || candidate.isTowardsLoss != first.isTowardsLoss ||
        candidate.goesThroughRows != first.goesThroughRows ||
        candidate.arithmetic != first.arithmetic)
      return false;
    size_t buffers = read.size() + written.size() + candidate.writes.size();
    for (const void *root : candidate.reads)
      buffers += !read.contains(root);
    return buffers <= kMostBuffers;
  }
  void add(const Candidate &candidate) {
    ops.push_back(candidate.op);
    read.insert_range(candidate.reads);
    written.insert_range(candidate.writes);
  }
  static bool mayRunAt(const Candidate &, int64_t) { return true; }
  static bool mayWaitUntil(int64_t) { return true; }
  const Roots &reads() const { return read; }
  const Roots &writes() const { return written; }

  Candidate first;
  SmallVector<Operation *> ops;
  Roots read, written;
};

/// Whether it is no kernel of its own making.
bool callsLibrary(Operation *op) {
  return op
      ->walk([](Operation *inner) {
        return isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp, ConvolutionFilterGradOp,
                   AttentionOp, AttentionGradOp, GroupedDotOp, GroupedDotRhsGradOp>(inner)
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

bool goesThroughRows(Operation *op) {
  return op
      ->walk([](CostOpInterface cost) {
        return cost.isLight() ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

} // namespace

JoinedLaunches::JoinedLaunches(func::FuncOp function, const StepWork &work) : work(work) {
  for (auto [value, state] : llvm::zip(function.getBody().front().getTerminator()->getOperands(),
                                       donorsOfResults(function))) {
    results.insert(value);
    if (state)
      nextOf[value] = state;
  }
}

/// What is read where it lies is in the bytes of what it is read from, the next value of a state in
/// those of the state.
const void *JoinedLaunches::rootOf(Value value) const {
  while (Operation *op = value.getDefiningOp()) {
    if (Value state = nextOf.lookup(value)) {
      value = state;
      break;
    }
    if (!work.free.contains(op) || op->getNumOperands() == 0)
      break;
    value = op->getOperand(0);
  }
  return value.getAsOpaquePointer();
}

void JoinedLaunches::find(ArrayRef<Operation *> ops) {
  JoinOrder<Launch> order;
  for (Operation *op : ops) {
    if (work.free.contains(op))
      continue;
    Launch::Candidate candidate{
        op, {}, {}, work.updates.contains(op), work.phases.isTowardsLoss(op), false, {}};
    for (Value operand : op->getOperands())
      candidate.reads.insert(rootOf(operand));
    for (Value result : op->getResults())
      candidate.writes.insert(rootOf(result));
    bool isOnOtherQueue = isa<CollectiveOpInterface, TransferOp>(op);
    auto isSmall = [&] {
      return llvm::none_of(op->getResults(), [&](Value own) { return results.contains(own); }) &&
             kernelBytes(op) <= kMostJoinedBytes;
    };
    bool mayJoin = !isOnOtherQueue && !callsLibrary(op) && (candidate.isUpdate || isSmall());
    if (mayJoin) {
      candidate.goesThroughRows = goesThroughRows(op);
      Value first = op->getNumOperands() ? op->getOperand(0) : op->getResult(0);
      candidate.arithmetic = tensorTypeOf(first).getElementType();
    }
    order.visit(candidate.reads, candidate.writes, isOnOtherQueue, mayJoin ? &candidate : nullptr);
  }
  for (auto &group : order.take())
    joined.insert_range(ArrayRef(group.launches.ops).drop_front());
}
