// SPDX-License-Identifier: Apache-2.0
// A value is kept unless its producer runs again, and only if the backward pass or something that
// runs again reads it: the source's side of the cut runs again.
#include "RecomputeCut.h"

#include "MinimumCut.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace autopar {

RecomputeCut::RecomputeCut(const RecomputeProblem &problem)
    : problem(problem), producer(problem.values.size(), -1), readers(problem.values.size()),
      firstRead(problem.values.size(), -1), lastRead(problem.values.size(), -1) {
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const RecomputeOp &op = problem.ops[i];
    auto index = static_cast<int32_t>(i);
    for (int32_t value : op.writes)
      producer[value] = index;
    for (int32_t value : op.reads) {
      readers[value].push_back(index);
      if (!op.isBackward || problem.ops[producer[value]].isBackward)
        continue;
      if (firstRead[value] < 0)
        firstRead[value] = index;
      lastRead[value] = index;
    }
    if (op.isBackward && firstBackward < 0)
      firstBackward = index;
  }
  countWaiting();
}

/// Of how many micro-batches a value of row `from` waits for row `to` where `runs` is how often
/// rows ran.
static int64_t waiting(const std::map<int32_t, int64_t> &runs, int32_t from, int32_t to) {
  auto a = runs.find(from), b = runs.find(to);
  if (from == to || a == runs.end() || b == runs.end())
    return 1; // not between rows
  return std::max<int64_t>(0, a->second - b->second);
}

/// How many micro-batches' values wait when the backward pass of one begins, where most
/// micro-batches are in flight: at least as many as their own readers say, of any reader where
/// only what runs again reads.
void RecomputeCut::countWaiting() {
  waits.assign(problem.values.size(), 1);
  if (firstBackward < 0 || problem.order.empty())
    return;
  std::map<int32_t, int64_t> runs, atTurn;
  for (int32_t row : problem.order)
    runs[row] = 0;
  std::set<int32_t> backward;
  for (const RecomputeOp &op : problem.ops)
    if (op.isBackward && runs.count(op.row))
      backward.insert(op.row);
  int64_t inFlight = 0, most = -1;
  for (int32_t row : problem.order) {
    if (row == problem.ops[firstBackward].row && inFlight > most) {
      most = inFlight;
      atTurn = runs;
    }
    ++runs[row];
    inFlight += backward.count(row) ? -1 : 1;
  }
  for (size_t v = 0; v < waits.size(); ++v)
    waits[v] = waitsAt(atTurn, backward, static_cast<int32_t>(v));
}

int64_t RecomputeCut::waitsAt(const std::map<int32_t, int64_t> &runs,
                              const std::set<int32_t> &backward, int32_t value) const {
  if (producer[value] < 0 || problem.ops[producer[value]].isBackward)
    return 0;
  int32_t made = problem.ops[producer[value]].row;
  int64_t count = std::numeric_limits<int64_t>::max();
  for (int32_t reader : readers[value])
    if (problem.ops[reader].isBackward)
      count = std::min(count, waiting(runs, made, problem.ops[reader].row));
  if (firstRead[value] < 0)
    for (int32_t row : backward)
      count = std::min(count, waiting(runs, made, row));
  return count == std::numeric_limits<int64_t>::max() ? 1 : count;
}

RecomputeCut::Weights
RecomputeCut::weightsAt(const std::vector<std::pair<int32_t, double>> &places) const {
  Weights weights;
  weights.before.assign(problem.ops.size() + 1, 0);
  for (auto [place, weight] : places)
    weights.before[place + 1] += weight;
  std::partial_sum(weights.before.begin(), weights.before.end(), weights.before.begin());
  return weights;
}

double RecomputeCut::cheapest(double price, const Weights &weights,
                              const std::vector<int32_t> *runsFor,
                              const std::vector<signed char> *fixed, Choice &choice,
                              bool countsClones) const {
  MinimumCut graph(2);
  std::vector<int32_t> nodes(problem.ops.size(), -1);
  std::vector<double> clones(problem.ops.size(), 0);
  auto nodeOf = [&](int32_t op) {
    if (nodes[op] < 0) {
      nodes[op] = graph.addNode();
      int fix = fixed ? (*fixed)[op] : -1;
      if (fix == 1)
        graph.addEdge(MinimumCut::kSource, nodes[op], MinimumCut::kUncuttable);
      if (fix == 0)
        graph.addEdge(nodes[op], MinimumCut::kSink, MinimumCut::kUncuttable);
    }
    return nodes[op];
  };
  double constant = 0;
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const RecomputeValue &value = problem.values[v];
    int32_t made = producer[v];
    if (made < 0 || made > turn() || problem.ops[made].isBackward)
      continue; // not kept from forward to backward
    bool mayRunAgain = problem.ops[made].mayRecompute;
    bool isRead = firstRead[v] >= 0;
    double bytes = static_cast<double>(value.bytes);
    // What waits is there from the turn on; how long at least, its own readers say.
    int32_t last = isRead ? lastRead[v] : turn();
    double keep = value.fromStart || value.toEnd ? 0
                                                 : price * bytes * static_cast<double>(waits[v]) *
                                                       weights.between(turn(), last);
    int32_t begins = firstRead[v];
    if (runsFor && (*runsFor)[made] >= 0)
      begins = (*runsFor)[made];
    if (isRead && mayRunAgain && countsClones)
      clones[made] += price * bytes * weights.between(begins, last);
    if (isRead) {
      if (mayRunAgain)
        graph.addEdge(MinimumCut::kSource, nodeOf(made), keep);
      else
        constant += keep;
      continue;
    }
    int32_t readAgain = -1;
    for (int32_t reader : readers[v])
      if (problem.ops[reader].mayRecompute && !problem.ops[reader].waitsOnHost) {
        if (readAgain < 0) {
          readAgain = graph.addNode();
          graph.addEdge(readAgain, mayRunAgain ? nodeOf(made) : MinimumCut::kSink, keep);
        }
        graph.addEdge(nodeOf(reader), readAgain, MinimumCut::kUncuttable);
      }
  }
  for (size_t op = 0; op < problem.ops.size(); ++op)
    if (problem.ops[op].mayRecompute)
      graph.addEdge(nodeOf(op), MinimumCut::kSink, problem.ops[op].timeUs + clones[op]);
  double cost = constant + graph.solve();
  choice.assign(problem.ops.size(), 0);
  for (size_t op = 0; op < problem.ops.size(); ++op)
    choice[op] = nodes[op] >= 0 && graph.isAtSource(nodes[op]);
  return cost;
}

} // namespace autopar
