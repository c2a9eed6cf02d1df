// SPDX-License-Identifier: Apache-2.0
// What a choice of recomputed operations costs: one walk over the program, and one over the rows of
// its schedule. A row does the same in every micro-batch, so what it holds on top of what waits
// between rows is walked once.
#include "autopar/Planner/Recompute.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace autopar {

Status RecomputeProblem::verify() const {
  std::vector<char> written(values.size(), 0);
  std::map<int32_t, int32_t> turnOf{{RecomputeOp::kBefore, -1},
                                    {RecomputeOp::kAfter, RecomputeOp::kAfter}};
  for (int32_t row : order)
    turnOf.try_emplace(row, static_cast<int32_t>(turnOf.size()));
  for (size_t i = 0; i < ops.size(); ++i) {
    const RecomputeOp &op = ops[i];
    std::string place = "operation " + std::to_string(i) + " '" + op.id + "': ";
    if (!(op.timeUs >= 0) || !std::isfinite(op.timeUs) || op.scratchBytes < 0)
      return Status::badInput(place + "time and scratch must be finite and not negative");
    if (!turnOf.count(op.row) || (i > 0 && turnOf[op.row] < turnOf[ops[i - 1].row]))
      return Status::badInput(place + "is of row " + std::to_string(op.row) +
                              ", which the schedule does not have, or not behind the row before");
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
  for (const std::vector<int32_t> &layer : layers)
    for (int32_t op : layer)
      if (op < 0 || op >= static_cast<int32_t>(ops.size()))
        return Status::badInput("a layer has operation " + std::to_string(op) +
                                ", which does not exist");
  for (size_t v = 0; v < values.size(); ++v)
    if (values[v].bytes < 0)
      return Status::badInput("value " + std::to_string(v) + ": bytes are negative");
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
    int32_t first = -1, last = -1; ///< visits
  };
  struct Visit {
    int32_t op, place; ///< what runs, and the operation of the program before which it does
  };
  /// What a row leaves behind.
  struct Row {
    int64_t perMicroBatch = 0; ///< held until another row of the same micro-batch, or freed for it
    int64_t once = 0;          ///< held from its first run on, or freed by it
    int64_t most = 0;          ///< held when it begins
    bool hasRun = false;
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
          if (!problem.ops[made].waitsOnHost)
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
    auto now = static_cast<int32_t>(visits.size());
    visits.push_back({index, place});
    bool isFetch = isSecond && op.waitsOnHost;
    for (int32_t value : isFetch ? std::span<const int32_t>() : std::span(op.reads)) {
      bool readsBehind = isSecond || op.isBackward;
      (readsBehind && isAgain(value) ? again[value] : kept[value]).last = now;
    }
    for (int32_t value : op.writes)
      (isSecond ? again : kept)[value] = {now, now};
  }

  int32_t rowAt(int32_t visit) const { return problem.ops[visits[visit].place].row; }
  static bool isScheduled(int32_t row) {
    return row != RecomputeOp::kBefore && row != RecomputeOp::kAfter;
  }

  /// Where a value's bytes come and go.
  void hold(const Life &life, const RecomputeValue &value, bool isSecond) {
    if (life.first < 0)
      return;
    bool fromStart = value.fromStart && !isSecond, toEnd = value.toEnd && !isSecond;
    int32_t from = rowAt(life.first), to = rowAt(life.last);
    if (fromStart)
      held += value.bytes;
    else
      taken[life.first] += value.bytes;
    if (!fromStart && isScheduled(from)) {
      if (toEnd || to == RecomputeOp::kAfter)
        rows[from].once += value.bytes;
      else if (from != to)
        rows[from].perMicroBatch += value.bytes;
    }
    if (toEnd)
      return;
    if (from == RecomputeOp::kBefore && isScheduled(to) && !fromStart) {
      freedBehindRows += value.bytes; // every micro-batch reads it
      return;
    }
    freed[life.last] += value.bytes;
    if (isScheduled(to) && fromStart)
      rows[to].once -= value.bytes;
    else if (isScheduled(to) && from != to)
      rows[to].perMicroBatch -= value.bytes;
  }

  void measure() {
    taken.assign(visits.size(), 0);
    freed.assign(visits.size(), 0);
    held = problem.constantBytes;
    for (size_t v = 0; v < problem.values.size(); ++v) {
      hold(kept[v], problem.values[v], false);
      hold(again[v], problem.values[v], true);
    }
    use.peakBytes = held;
    use.bytesAt.assign(problem.ops.size(), 0);
    size_t next = 0;
    held = walk(next, RecomputeOp::kBefore, held);
    for (int32_t number : problem.order) {
      Row &row = rows[number];
      row.most = std::max(row.most, held);
      held += row.perMicroBatch + (row.hasRun ? 0 : row.once);
      row.hasRun = true;
    }
    while (next < visits.size() && isScheduled(rowAt(static_cast<int32_t>(next)))) {
      int32_t row = rowAt(static_cast<int32_t>(next));
      walk(next, row, rows[row].most);
    }
    walk(next, RecomputeOp::kAfter, held - freedBehindRows);
  }

  /// The visits of one row, from what is held before them to what is held after them.
  int64_t walk(size_t &next, int32_t row, int64_t bytes) {
    for (; next < visits.size() && rowAt(static_cast<int32_t>(next)) == row; ++next) {
      auto [op, place] = visits[next];
      bytes += taken[next];
      int64_t now = bytes + problem.ops[op].scratchBytes;
      use.bytesAt[place] = std::max(use.bytesAt[place], now);
      if (now > use.peakBytes) {
        use.peakBytes = now;
        use.peakAt = place;
      }
      bytes -= freed[next];
    }
    return bytes;
  }

  const RecomputeProblem &problem;
  const std::vector<char> &chosen;
  std::vector<int32_t> producer;
  std::vector<Life> kept, again; ///< by value: of the first and of the second run
  std::vector<Visit> visits;
  std::vector<int64_t> taken, freed; ///< by visit: before it runs, after it ran
  std::map<int32_t, Row> rows;
  int64_t held = 0, freedBehindRows = 0;
  std::vector<int32_t> wanted, stack;
  RecomputeUse use;
};

} // namespace

RecomputeUse useOf(const RecomputeProblem &problem, const std::vector<char> &chosen) {
  return Walk(problem, chosen).run();
}

} // namespace autopar
