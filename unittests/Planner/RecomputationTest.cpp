// SPDX-License-Identifier: Apache-2.0
// The choice of recomputed operations: against all subsets of small random programs, and close to
// its bound on a deep one.
#include "autopar/Planner/Recompute.h"

#include "MinimumCut.h"
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <random>
#include <set>

using namespace autopar;

namespace {

/// Adds an operation with one result; returns the value.
int32_t add(RecomputeProblem &problem, double timeUs, int64_t bytes, std::vector<int32_t> reads,
            bool isBackward) {
  auto value = static_cast<int32_t>(problem.values.size());
  problem.values.push_back({bytes, false, false});
  RecomputeOp op;
  op.id = std::to_string(problem.ops.size());
  op.timeUs = timeUs;
  op.reads = std::move(reads);
  op.writes = {value};
  op.isBackward = isBackward;
  op.mayRecompute = !isBackward;
  problem.ops.push_back(op);
  return value;
}

/// Forward operations that read earlier ones, and a derivative of each, which reads the gradients
/// of its readers and some values of the forward pass.
RecomputeProblem randomProgram(std::mt19937_64 &random, int count) {
  RecomputeProblem problem;
  std::vector<std::vector<int32_t>> reads;
  std::vector<int32_t> values;
  for (int i = 0; i < count; ++i) {
    std::set<int32_t> read;
    if (i > 0)
      read.insert(values[i - 1 - random() % std::min(i, 3)]);
    if (i > 0 && random() % 2)
      read.insert(values[random() % i]);
    reads.emplace_back(read.begin(), read.end());
    values.push_back(add(problem, 1 + static_cast<double>(random() % 20),
                         1 + static_cast<int64_t>(random() % 30), reads.back(), false));
    problem.ops.back().mayRecompute = random() % 8 != 0;
    problem.ops.back().waitsOnHost = random() % 5 == 0;
    problem.ops.back().scratchBytes = random() % 4 ? 0 : static_cast<int64_t>(random() % 10);
  }
  std::vector<std::vector<int32_t>> gradients(count);
  for (int i = count; i-- > 0;) {
    std::set<int32_t> read(gradients[i].begin(), gradients[i].end());
    for (int32_t value : reads[i])
      if (random() % 3)
        read.insert(value);
    if (random() % 3 == 0)
      read.insert(values[i]);
    int32_t gradient =
        add(problem, 5, 1 + static_cast<int64_t>(random() % 20), {read.begin(), read.end()}, true);
    for (int32_t value : reads[i])
      gradients[value].push_back(gradient);
  }
  // Accumulators, what lasts, and parts of the update that wait for nothing.
  if (random() % 2) {
    int32_t early = add(problem, 1, 5, {}, false), late = add(problem, 1, 7, {}, false);
    problem.values[early].fromStart = true;
    for (size_t op : {problem.ops.size() - 1, problem.ops.size() - 2})
      problem.ops[op].mayRecompute = false;
    add(problem, 1, 3, {early, late, problem.ops[count].writes.front()}, true);
    problem.values.back().toEnd = true;
    problem.values[values[random() % count]].toEnd = true;
    problem
        .ops[std::find_if(
                 problem.ops.begin(), problem.ops.end(),
                 [&](const RecomputeOp &op) { return problem.values[op.writes.front()].toEnd; }) -
             problem.ops.begin()]
        .mayRecompute = false;
  }
  problem.constantBytes = static_cast<int64_t>(random() % 20);
  return problem;
}

/// A schedule for a program: rows F, B and W, or F0 F1 B1 B0 of two stages, of a few micro-batches
/// in an order that lets each follow the one before it.
void schedule(RecomputeProblem &problem, std::mt19937_64 &random) {
  size_t forward = 0, count = problem.ops.size();
  while (!problem.ops[forward].isBackward)
    ++forward;
  bool isSplit = random() % 2;
  size_t firstHalf = 1 + random() % forward, secondHalf = forward + random() % (count - forward);
  std::vector<int32_t> rowOfValue(problem.values.size(), 0);
  int32_t rows = isSplit ? 4 : 3;
  for (size_t i = 0; i < count; ++i) {
    RecomputeOp &op = problem.ops[i];
    if (isSplit)
      op.row = i < firstHalf ? 0 : i < forward ? 1 : i < secondHalf ? 2 : 3;
    else
      op.row = i < forward ? 0 : 1 + static_cast<int32_t>(random() % 2);
    for (int32_t value : op.reads)
      op.row = std::max(op.row, rowOfValue[value]);
    for (int32_t value : op.writes)
      rowOfValue[value] = op.row;
  }
  std::vector<RecomputeOp> ordered;
  for (int32_t row = 0; row < rows; ++row)
    for (const RecomputeOp &op : problem.ops)
      if (op.row == row)
        ordered.push_back(op);
  problem.ops = std::move(ordered);
  // What lasts belongs to no micro-batch.
  for (RecomputeValue &value : problem.values)
    value.fromStart = value.toEnd = false;
  auto add = [&](RecomputeOp op, RecomputeValue value) {
    op.writes = {static_cast<int32_t>(problem.values.size())};
    problem.values.push_back(value);
    problem.ops.insert(op.row == RecomputeOp::kBefore ? problem.ops.begin() : problem.ops.end(),
                       op);
    return op.writes.front();
  };
  int32_t carried = add({"carried"}, {9, true, false});
  int32_t table = add({"table"}, {4, false, false});
  RecomputeOp sum{"sum", problem.ops.back().row, 1, {carried, table}};
  sum.isBackward = true;
  int32_t total = add(sum, {9, false, true});
  RecomputeOp update{"update", RecomputeOp::kAfter, 1, {total}};
  update.isBackward = true;
  add(update, {6, false, false});
  std::vector<int64_t> runs(rows, 0);
  auto last = static_cast<int64_t>(1 + random() % 4);
  std::set<int32_t> used;
  for (const RecomputeOp &op : problem.ops)
    used.insert(op.row);
  while (runs.back() < last) {
    auto row = static_cast<size_t>(random() % rows);
    if (runs[row] == last || (row > 0 && runs[row] == runs[row - 1]))
      continue;
    ++runs[row];
    if (used.count(static_cast<int32_t>(row)))
      problem.order.push_back(static_cast<int32_t>(row));
  }
}

/// The peak and time of a choice, said once more in the plainest way: a list of all runs in all
/// micro-batches, and at each run everything that it or a later one still needs.
std::pair<double, int64_t> plainUse(const RecomputeProblem &problem,
                                    const std::vector<char> &chosen) {
  struct Run {
    int32_t op;
    bool isSecond;
    int64_t microBatch; ///< -1: of none
  };
  std::vector<int32_t> producer(problem.values.size());
  for (size_t i = 0; i < problem.ops.size(); ++i)
    for (int32_t value : problem.ops[i].writes)
      producer[value] = static_cast<int32_t>(i);
  auto readsAgain = [&](int32_t value) {
    return chosen[producer[value]] && problem.ops[producer[value]].mayRecompute;
  };
  std::vector<Run> runs;
  std::set<std::pair<int32_t, int64_t>> again;
  double time = 0;
  auto runRow = [&](int32_t row, int64_t microBatch) {
    for (int32_t i = 0; i < static_cast<int32_t>(problem.ops.size()); ++i) {
      if (problem.ops[i].row != row)
        continue;
      if (problem.ops[i].isBackward) {
        std::set<int32_t> wanted, open{i};
        while (!open.empty()) {
          int32_t op = *open.begin();
          open.erase(open.begin());
          if (op != i && problem.ops[op].waitsOnHost)
            continue; // is fetched
          for (int32_t value : problem.ops[op].reads)
            if (readsAgain(value) && !again.count({producer[value], microBatch}) &&
                wanted.insert(producer[value]).second)
              open.insert(producer[value]);
        }
        for (int32_t op : wanted) {
          runs.push_back({op, true, microBatch});
          again.insert({op, microBatch});
          if (microBatch <= 0)
            time += problem.ops[op].timeUs;
        }
      }
      runs.push_back({i, false, microBatch});
    }
  };
  runRow(RecomputeOp::kBefore, -1);
  std::map<int32_t, int64_t> count;
  for (int32_t row : problem.order)
    runRow(row, count[row]++);
  runRow(RecomputeOp::kAfter, -1);
  int64_t microBatches = problem.order.empty() ? 0 : count[problem.order.front()];

  std::vector<int64_t> held(runs.size(), problem.constantBytes);
  std::map<int64_t, size_t> summed; // by micro-batch: when the sum is written
  for (size_t at = 0; at < runs.size(); ++at)
    for (int32_t value : problem.ops[runs[at].op].writes)
      if (problem.values[value].toEnd && runs[at].microBatch >= 0)
        summed[runs[at].microBatch] = at;
  for (size_t at = 0; at < runs.size(); ++at) {
    auto [op, isSecond, microBatch] = runs[at];
    held[at] += problem.ops[op].scratchBytes;
    for (int32_t value : problem.ops[op].writes) {
      bool fromStart = problem.values[value].fromStart && !isSecond,
           toEnd = problem.values[value].toEnd && !isSecond;
      auto hold = [&](size_t first, size_t last) {
        for (size_t now = first; now <= last; ++now)
          held[now] += problem.values[value].bytes;
      };
      if (toEnd && microBatch >= 0) { // the sum of the last one; others are what the next carries
        hold(at, microBatch + 1 == microBatches ? runs.size() - 1 : at);
        continue;
      }
      if (fromStart && !problem.order.empty()) { // one buffer per micro-batch, until its sum
        for (int64_t i = 0; i < microBatches; ++i)
          hold(i == 0 ? 0 : summed[i - 1] + 1, summed[i]);
        continue;
      }
      size_t last = at;
      for (size_t later = at + 1; later < runs.size(); ++later) {
        auto [reader, readerIsSecond, other] = runs[later];
        const std::vector<int32_t> &reads = problem.ops[reader].reads;
        bool isBehind = readerIsSecond || problem.ops[reader].isBackward;
        bool isFetch = readerIsSecond && problem.ops[reader].waitsOnHost;
        bool isMine = !isFetch && std::count(reads.begin(), reads.end(), value) &&
                      (microBatch < 0 || other < 0 || other == microBatch) &&
                      ((isBehind && readsAgain(value)) == isSecond || problem.ops[op].isBackward);
        if (isMine)
          last = later;
      }
      // What all micro-batches read is there until the last of them is done.
      while (microBatch < 0 && runs[last].microBatch >= 0 && last + 1 < runs.size() &&
             runs[last + 1].microBatch >= 0)
        ++last;
      hold(fromStart ? 0 : at, toEnd ? runs.size() - 1 : last);
    }
  }
  return {time, *std::max_element(held.begin(), held.end())};
}

} // namespace

/// What a choice costs at a price per byte that is kept at the turn from forward to backward.
double pricedCost(const RecomputeProblem &problem, const std::vector<char> &chosen, double price) {
  double cost = 0;
  std::vector<int32_t> producer(problem.values.size(), -1);
  std::vector<char> isKept(problem.values.size(), 0);
  bool isOver = false;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const RecomputeOp &op = problem.ops[i];
    isOver |= op.isBackward;
    if (!isOver)
      for (int32_t value : op.writes)
        producer[value] = static_cast<int32_t>(i);
    cost += chosen[i] ? op.timeUs : 0;
    for (int32_t value : op.reads)
      isKept[value] |= op.isBackward || (chosen[i] && !op.waitsOnHost);
  }
  for (size_t v = 0; v < problem.values.size(); ++v) {
    const RecomputeValue &value = problem.values[v];
    if (producer[v] >= 0 && isKept[v] && !chosen[producer[v]] && !value.fromStart && !value.toEnd)
      cost += price * static_cast<double>(value.bytes);
  }
  return cost;
}

TEST(RecomputationTest, APriceGivesTheCheapestOfAllSubsets) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 60; ++round) {
    RecomputeProblem problem = randomProgram(random, 3 + static_cast<int>(random() % 8));
    std::vector<size_t> free;
    for (size_t i = 0; i < problem.ops.size() && !problem.ops[i].isBackward; ++i)
      if (problem.ops[i].mayRecompute)
        free.push_back(i);
    for (double price : {0.0, 0.1, 0.5, 2.0, 50.0}) {
      double least = std::numeric_limits<double>::infinity();
      for (size_t subset = 0; subset < size_t{1} << free.size(); ++subset) {
        std::vector<char> chosen(problem.ops.size(), 0);
        for (size_t bit = 0; bit < free.size(); ++bit)
          chosen[free[bit]] = subset >> bit & 1;
        least = std::min(least, pricedCost(problem, chosen, price));
      }
      std::vector<char> found = cheapestAt(problem, price);
      EXPECT_NEAR(pricedCost(problem, found, price), least, 1e-9 * (1 + least)) << round << price;
    }
  }
}

TEST(Recomputation, IsOptimalOnSmallPrograms) {
  int feasible = 0, refused = 0, recomputed = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    std::mt19937_64 random(seed);
    RecomputeProblem problem = randomProgram(random, 4 + static_cast<int>(seed % 8));
    if (seed % 2)
      schedule(problem, random);
    std::vector<char> choice(problem.ops.size(), 0);
    int64_t whole = plainUse(problem, choice).second, least = whole;
    problem.memoryLimitBytes = whole * static_cast<int64_t>(60 + random() % 40) / 100;
    double best = -1;
    size_t count = 4 + seed % 8, first = 0;
    while (problem.ops[first].id == "carried" || problem.ops[first].id == "table")
      ++first;
    for (uint64_t subset = 0; subset < uint64_t(1) << count; ++subset) {
      for (size_t i = 0; i < count; ++i)
        choice[first + i] = static_cast<char>(subset >> i & 1);
      auto [time, peak] = plainUse(problem, choice);
      RecomputeUse use = useOf(problem, choice);
      ASSERT_EQ(use.timeUs, time) << seed;
      ASSERT_EQ(use.peakBytes, peak) << seed;
      least = std::min(least, peak);
      if (peak <= problem.memoryLimitBytes && (best < 0 || time < best))
        best = time;
    }
    RecomputeSolution leanest;
    Result<RecomputeSolution> solution = chooseRecomputation(problem, &leanest);
    if (best < 0) {
      ++refused;
      ASSERT_FALSE(solution.isOk()) << seed;
      EXPECT_GE(leanest.peakBytes, least) << seed;
      std::vector<char> choice(problem.ops.size(), 0);
      for (int32_t op : leanest.recomputed)
        choice[op] = 1;
      EXPECT_EQ(plainUse(problem, choice).second, leanest.peakBytes) << seed;
      continue;
    }
    ++feasible;
    ASSERT_TRUE(solution.isOk()) << seed << ": " << solution.status().message();
    EXPECT_EQ(solution->timeUs, best) << seed;
    EXPECT_TRUE(solution->isOptimal) << seed;
    EXPECT_LE(solution->peakBytes, problem.memoryLimitBytes) << seed;
    recomputed += best > 0;
  }
  std::printf("%d programs fit, %d of them with recomputation, %d cannot\n", feasible, recomputed,
              refused);
  EXPECT_GE(recomputed, 50);
  EXPECT_GE(refused, 10);
}

namespace {
/// Layers of a transformer: a product, an activation, a product with the residual, a norm; the
/// backward pass reads all of them but the result of the second product.
RecomputeProblem layers(int count) {
  RecomputeProblem problem;
  std::vector<std::vector<int32_t>> kept;
  int32_t residual = add(problem, 1, 10, {}, false);
  for (int i = 0; i < count; ++i) {
    int32_t norm = add(problem, 2, 10, {residual}, false);
    int32_t wide = add(problem, 40, 40, {norm}, false);
    int32_t active = add(problem, 4, 40, {wide}, false);
    int32_t next = add(problem, 40, 10, {active, residual}, false);
    kept.push_back({residual, norm, wide, active});
    residual = next;
  }
  int32_t gradient = add(problem, 1, 10, {residual}, true);
  for (int i = count; i-- > 0;) {
    int32_t active = add(problem, 80, 40, {gradient, kept[i][3]}, true);
    int32_t wide = add(problem, 5, 40, {active, kept[i][2]}, true);
    int32_t norm = add(problem, 80, 10, {wide, kept[i][1]}, true);
    gradient = add(problem, 3, 10, {norm, gradient, kept[i][0]}, true);
  }
  return problem;
}
} // namespace

TEST(Recomputation, IsCloseToItsBoundOnManyLayersInSeconds) {
  std::clock_t start = std::clock();
  RecomputeProblem problem = layers(400);
  std::vector<char> none(problem.ops.size(), 0);
  int64_t whole = useOf(problem, none).peakBytes;
  double before = 0;
  for (int percent : {90, 70, 50, 30}) {
    problem.memoryLimitBytes = whole * percent / 100;
    Result<RecomputeSolution> solution = chooseRecomputation(problem);
    ASSERT_TRUE(solution.isOk()) << percent << " %: " << solution.status().message();
    EXPECT_LE(solution->peakBytes, problem.memoryLimitBytes);
    std::printf("%d %%: %.0f us, bound %.0f us\n", percent, solution->timeUs,
                solution->lowerBoundUs);
    EXPECT_LE(solution->timeUs, 1.04 * solution->lowerBoundUs) << percent;
    EXPECT_GT(solution->timeUs, before);
    before = solution->timeUs;
  }
  // Checkpoints at every layer are not enough: several layers between two of them.
  problem.memoryLimitBytes = whole * 7 / 100;
  Result<RecomputeSolution> solution = chooseRecomputation(problem);
  EXPECT_TRUE(solution.isOk()) << solution.status().message();
  double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  std::printf("%.2f s\n", seconds);
  EXPECT_LT(seconds, 30);
}

TEST(Recomputation, WhatLayersReachIsFound) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 40; ++i) {
    RecomputeProblem problem = layers(2 + static_cast<int>(random() % 20));
    for (RecomputeValue &value : problem.values) // a few large ones, as logits are
      value.bytes *= random() % 4 ? 1 : 1 + static_cast<int64_t>(random() % 40);
    std::vector<char> choice(problem.ops.size(), 0);
    for (int32_t op = 1; !problem.ops[op].isBackward; ++op) {
      if (op % 4 == 1)
        problem.layers.emplace_back();
      if (op % 4 != 0) {
        problem.layers.back().push_back(op);
        choice[op] = 1;
      }
    }
    RecomputeUse use = useOf(problem, choice);
    problem.memoryLimitBytes = use.peakBytes;
    Result<RecomputeSolution> solution = chooseRecomputation(problem);
    ASSERT_TRUE(solution.isOk()) << i << ": " << solution.status().message();
    EXPECT_LE(solution->timeUs, use.timeUs);
  }
}

TEST(Recomputation, NothingIsComputedAgainWhereEverythingFits) {
  RecomputeProblem problem = layers(3);
  problem.memoryLimitBytes = 1 << 20;
  Result<RecomputeSolution> solution = chooseRecomputation(problem);
  ASSERT_TRUE(solution.isOk());
  EXPECT_TRUE(solution->recomputed.empty());
  EXPECT_TRUE(solution->isOptimal);
}

TEST(Recomputation, BrokenProgramsAreRefused) {
  RecomputeProblem problem = layers(1);
  problem.ops[1].reads = {77};
  EXPECT_NE(chooseRecomputation(problem).status().message().find("operation 1 '1': reads value 77"),
            std::string::npos);
  problem = layers(1);
  problem.ops.back().mayRecompute = true;
  EXPECT_NE(chooseRecomputation(problem).status().message().find("cannot be computed again"),
            std::string::npos);
  problem = layers(1);
  problem.layers = {{0, 99}};
  EXPECT_EQ(chooseRecomputation(problem).status().message(),
            "a layer has operation 99, which does not exist");
}

TEST(MinimumCut, IsThatOfAllSubsets) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    int nodes = 3 + static_cast<int>(random() % 7);
    MinimumCut graph(nodes);
    std::vector<std::tuple<int, int, double>> edges;
    for (int i = 0; i < 3 * nodes; ++i) {
      int from = static_cast<int>(random() % nodes), to = static_cast<int>(random() % nodes);
      double capacity = static_cast<double>(random() % 20);
      edges.emplace_back(from, to, capacity);
      graph.addEdge(from, to, capacity);
    }
    double least = 1e30;
    for (unsigned set = 0; set < 1u << nodes; ++set) {
      if (!(set & 1) || (set & 2))
        continue;
      double cost = 0;
      for (auto [from, to, capacity] : edges)
        cost += set >> from & 1 && !(set >> to & 1) ? capacity : 0;
      least = std::min(least, cost);
    }
    EXPECT_EQ(graph.solve(), least) << seed;
    double own = 0;
    for (auto [from, to, capacity] : edges)
      own += graph.isAtSource(from) && !graph.isAtSource(to) ? capacity : 0;
    EXPECT_EQ(own, least) << seed;
  }
}
