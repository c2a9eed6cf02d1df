// SPDX-License-Identifier: Apache-2.0
// What a choice of recomputed operations costs: one walk over the program.
#include "autopar/Planner/Recompute.h"

#include <algorithm>
#include <cmath>

namespace autopar {

Status RecomputeProblem::verify() const {
  std::vector<char> written(values.size(), 0);
  for (size_t i = 0; i < ops.size(); ++i) {
    const RecomputeOp &op = ops[i];
    std::string place = "operation " + std::to_string(i) + " '" + op.id + "': ";
    if (!(op.timeUs >= 0) || !std::isfinite(op.timeUs) || op.scratchBytes < 0)
      return Status::badInput(place + "time and scratch must be finite and not negative");
    if (op.isBackward && op.mayRecompute)
      return Status::badInput(place + "is of the backward pass and cannot be computed again");
    for (int32_t value : op.reads)
      if (value < 0 || value >= static_cast<int32_t>(values.size()) || !written[value])
        return Status::badInput(place + "reads value " + std::to_string(value) +
                                ", which nothing before it writes");
    for (int32_t value : op.writes) {
      if (value < 0 || value >= static_cast<int32_t>(values.size()) || written[value])
        return Status::badInput(place + "writes value " + std::to_string(value) +
                                ", which does not exist or is written already");
      written[value] = 1;
    }
  }
  for (size_t v = 0; v < values.size(); ++v)
    if (values[v].bytes < 0 || values[v].copies < 1)
      return Status::badInput("value " + std::to_string(v) + ": bytes or copies are negative");
  return Status::ok();
}

namespace {

/// The program with its second runs, and who is live when.
class Walk {
public:
  Walk(const RecomputeProblem &problem, const std::vector<char> &chosen)
      : problem(problem), chosen(chosen), producer(problem.values.size(), -1),
        kept(problem.values.size()), again(problem.values.size()) {
    use.runsFor.assign(problem.ops.size(), -1);
    for (size_t i = 0; i < problem.ops.size(); ++i)
      for (int32_t value : problem.ops[i].writes)
        producer[value] = static_cast<int32_t>(i);
  }

  RecomputeUse run() {
    for (int32_t i = 0; i < static_cast<int32_t>(problem.ops.size()); ++i) {
      if (problem.ops[i].isBackward)
        computeAgain(i);
      visit(i, false, i);
    }
    measure();
    return std::move(use);
  }

private:
  struct Life {
    int32_t first = -1, last = -1;
    bool crosses = false;
  };

  bool isAgain(int32_t value) const {
    int32_t op = producer[value];
    return op >= 0 && chosen[op] && problem.ops[op].mayRecompute;
  }

  void computeAgain(int32_t reader) {
    wanted.clear();
    stack.assign(1, reader);
    while (!stack.empty()) {
      int32_t op = stack.back();
      stack.pop_back();
      for (int32_t value : problem.ops[op].reads)
        if (int32_t made = producer[value]; isAgain(value) && use.runsFor[made] < 0) {
          use.runsFor[made] = reader;
          wanted.push_back(made);
          stack.push_back(made);
        }
    }
    std::sort(wanted.begin(), wanted.end());
    for (int32_t op : wanted) {
      visit(op, true, reader);
      use.timeUs += problem.ops[op].timeUs;
      use.again.push_back(op);
    }
  }

  void visit(int32_t index, bool isSecond, int32_t place) {
    const RecomputeOp &op = problem.ops[index];
    auto now = static_cast<int32_t>(places.size());
    places.push_back(place);
    scratch.push_back(op.scratchBytes);
    for (int32_t value : op.reads) {
      bool readsBehind = isSecond || op.isBackward;
      Life &life = readsBehind && isAgain(value) ? again[value] : kept[value];
      life.last = now;
      life.crosses |= readsBehind && !problem.ops[producer[value]].isBackward;
    }
    for (int32_t value : op.writes)
      (isSecond ? again : kept)[value] = {now, now, false};
  }

  void measure() {
    auto end = static_cast<int32_t>(places.size());
    std::vector<int64_t> change(end + 1, 0);
    auto hold = [&](const Life &life, const RecomputeValue &value, bool isSecond) {
      if (life.first < 0)
        return;
      int64_t bytes = value.bytes * (life.crosses && !isSecond ? value.copies : 1);
      change[value.fromStart && !isSecond ? 0 : life.first] += bytes;
      change[value.toEnd && !isSecond ? end : life.last + 1] -= bytes;
    };
    for (size_t v = 0; v < problem.values.size(); ++v) {
      hold(kept[v], problem.values[v], false);
      hold(again[v], problem.values[v], true);
    }
    int64_t held = problem.constantBytes;
    use.peakBytes = held;
    use.bytesAt.assign(problem.ops.size(), 0);
    for (int32_t t = 0; t < end; ++t) {
      held += change[t];
      int64_t &most = use.bytesAt[places[t]];
      most = std::max(most, held + scratch[t]);
      if (held + scratch[t] > use.peakBytes) {
        use.peakBytes = held + scratch[t];
        use.peakAt = places[t];
      }
    }
  }

  const RecomputeProblem &problem;
  const std::vector<char> &chosen;
  std::vector<int32_t> producer;
  std::vector<Life> kept, again; ///< by value: of the first and of the second run
  std::vector<int32_t> places;   ///< by time: the operation of the program
  std::vector<int64_t> scratch;
  std::vector<int32_t> wanted, stack;
  RecomputeUse use;
};

} // namespace

RecomputeUse useOf(const RecomputeProblem &problem, const std::vector<char> &chosen) {
  return Walk(problem, chosen).run();
}

} // namespace autopar
