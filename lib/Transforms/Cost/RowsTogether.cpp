// SPDX-License-Identifier: Apache-2.0
// See the header. A row goes on until its next kernel would wait, then the other does: each has
// started its collective by then. Either may begin.
#include "RowsTogether.h"

#include "QueueWalk.h"

using namespace mlir;
using namespace mlir::autopar;

/// Of a walk: what sums of its parts differ by when they are made in another order.
static constexpr double kRounding = 1e-9;

/// A walk through both rows.
class RowsTogether::Merge {
public:
  Merge(const StepWork &work, KernelTime &times, std::array<ArrayRef<Operation *>, 2> ops)
      : queues(times) {
    for (size_t row : {0, 1})
      for (Operation *op : ops[row])
        rows[row].ops.push_back({op, work.partsOf(op, times)});
  }

  /// One behind the other.
  std::vector<Place> inTurn() {
    for (size_t row : {0, 1})
      while (!rows[row].isOver())
        goOn(row);
    return std::move(order);
  }

  /// By turns, `current` first.
  std::vector<Place> byTurns(size_t current) {
    while (!rows[0].isOver() && !rows[1].isOver()) {
      if (waitUs(current) > waitUs(1 - current))
        current = 1 - current;
      goOn(current);
    }
    return inTurn();
  }

  double endUs() const { return queues.endUs(); }

private:
  struct Row {
    std::vector<std::pair<Operation *, KernelTime::Parts>> ops;
    size_t next = 0;
    bool isOver() const { return next == ops.size(); }
  };

  void goOn(size_t row) {
    auto &[op, parts] = rows[row].ops[rows[row].next++];
    queues.run(op, parts, row);
    order.emplace_back(op, row);
  }

  /// How long the queue of kernels would stand still for the next operation of a row.
  double waitUs(size_t row) const {
    const auto &[op, parts] = rows[row].ops[rows[row].next];
    if (parts.sum() == 0)
      return 0;
    return std::max(0.0, queues.readyUs(op, row) - queues.computeUs);
  }

  QueueWalk queues;
  std::array<Row, 2> rows;
  std::vector<Place> order;
};

ArrayRef<RowsTogether::Place> RowsTogether::order(ArrayRef<Operation *> first,
                                                  ArrayRef<Operation *> second) {
  auto [found, isNew] = known.try_emplace({first.data(), second.data()});
  if (isNew)
    found->second = newOrder(first, second);
  return found->second;
}

std::vector<RowsTogether::Place> RowsTogether::newOrder(ArrayRef<Operation *> first,
                                                        ArrayRef<Operation *> second) const {
  Merge plain(work, times, {first, second});
  std::vector<Place> best = plain.inTurn();
  double bestUs = plain.endUs();
  for (size_t begins : {0, 1}) {
    Merge merge(work, times, {first, second});
    std::vector<Place> merged = merge.byTurns(begins);
    if (merge.endUs() < (1 - kRounding) * bestUs) {
      best = std::move(merged);
      bestUs = merge.endUs();
    }
  }
  return best;
}
