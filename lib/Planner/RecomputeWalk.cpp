// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "RecomputeWalk.h"

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

void RecomputeWalk::Lists::add(const std::vector<int32_t> &list) {
  items.insert(items.end(), list.begin(), list.end());
  begin.push_back(static_cast<int32_t>(items.size()));
}

RecomputeWalk::RecomputeWalk(const RecomputeProblem &problem)
    : problem(problem), producer(problem.values.size(), -1) {
  std::map<int32_t, int32_t> numbers{{RecomputeOp::kBefore, kBefore}};
  for (int32_t row : problem.order)
    order.push_back(numbers.try_emplace(row, static_cast<int32_t>(numbers.size())).first->second);
  after = static_cast<int32_t>(numbers.size());
  numbers[RecomputeOp::kAfter] = after;
  for (const RecomputeOp &op : problem.ops) {
    for (int32_t value : op.writes)
      producer[value] = static_cast<int32_t>(rowOf.size());
    reads.add(op.reads);
    writes.add(op.writes);
    rowOf.push_back(numbers.at(op.row));
  }
  again.resize(problem.values.size());
}

const RecomputeUse &RecomputeWalk::of(const std::vector<char> &chosen) {
  size_t count = problem.ops.size();
  runsAgain.resize(count);
  for (size_t i = 0; i < count; ++i)
    runsAgain[i] = static_cast<char>(chosen[i] && problem.ops[i].mayRecompute);
  use.runsFor.assign(count, -1);
  use.again.clear();
  use.timeUs = 0;
  kept.assign(problem.values.size(), Life());
  for (int32_t value : secondWritten)
    again[value] = Life();
  secondWritten.clear();
  visits.clear();
  for (int32_t i = 0; i < static_cast<int32_t>(count); ++i) {
    if (problem.ops[i].isBackward)
      computeAgain(i);
    visit(i, false, i);
  }
  measure();
  return use;
}

void RecomputeWalk::computeAgain(int32_t reader) {
  wanted.clear();
  stack.assign(1, reader);
  while (!stack.empty()) {
    int32_t op = stack.back();
    stack.pop_back();
    for (int32_t value : reads[op])
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

void RecomputeWalk::visit(int32_t index, bool isSecond, int32_t place) {
  const RecomputeOp &op = problem.ops[index];
  auto now = static_cast<int32_t>(visits.size());
  visits.push_back({index, place});
  bool isFetch = isSecond && op.waitsOnHost, readsBehind = isSecond || op.isBackward;
  if (!isFetch)
    for (int32_t value : reads[index])
      (readsBehind && isAgain(value) ? again[value] : kept[value]).last = now;
  for (int32_t value : writes[index])
    (isSecond ? again : kept)[value] = {now, now};
  if (isSecond)
    secondWritten.insert(secondWritten.end(), writes[index].begin(), writes[index].end());
}

/// Where a value's bytes come and go.
void RecomputeWalk::hold(const Life &life, const RecomputeValue &value, bool isSecond) {
  if (life.first < 0)
    return;
  bool fromStart = value.fromStart && !isSecond, toEnd = value.toEnd && !isSecond;
  int32_t from = rowAt(life.first), to = rowAt(life.last);
  if (fromStart)
    held += value.bytes;
  else
    taken[life.first] += value.bytes;
  if (!fromStart && isScheduled(from)) {
    if (toEnd || to == after)
      rows[from].once += value.bytes;
    else if (from != to)
      rows[from].perMicroBatch += value.bytes;
  }
  if (toEnd)
    return;
  if (from == kBefore && isScheduled(to) && !fromStart) {
    freedBehindRows += value.bytes; // every micro-batch reads it
    return;
  }
  freed[life.last] += value.bytes;
  if (isScheduled(to) && fromStart)
    rows[to].once -= value.bytes;
  else if (isScheduled(to) && from != to)
    rows[to].perMicroBatch -= value.bytes;
}

void RecomputeWalk::measure() {
  taken.assign(visits.size(), 0);
  freed.assign(visits.size(), 0);
  rows.assign(static_cast<size_t>(after) + 1, Row());
  held = problem.constantBytes;
  freedBehindRows = 0;
  for (size_t v = 0; v < problem.values.size(); ++v)
    hold(kept[v], problem.values[v], false);
  for (int32_t value : secondWritten)
    hold(again[value], problem.values[value], true);
  use.peakBytes = held;
  use.peakAt = 0;
  use.bytesAt.assign(problem.ops.size(), 0);
  int32_t next = 0, end = static_cast<int32_t>(visits.size());
  held = walk(next, kBefore, held);
  for (int32_t number : order) {
    Row &row = rows[number];
    row.most = std::max(row.most, held);
    held += row.perMicroBatch + (row.hasRun ? 0 : row.once);
    row.hasRun = true;
  }
  while (next < end && isScheduled(rowAt(next)))
    walk(next, rowAt(next), rows[rowAt(next)].most);
  walk(next, after, held - freedBehindRows);
}

/// The visits of one row, from what is held before them to what is held after them.
int64_t RecomputeWalk::walk(int32_t &next, int32_t row, int64_t bytes) {
  for (; next < static_cast<int32_t>(visits.size()) && rowAt(next) == row; ++next) {
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

RecomputeUse useOf(const RecomputeProblem &problem, const std::vector<char> &chosen) {
  return RecomputeWalk(problem).of(chosen);
}

} // namespace autopar
