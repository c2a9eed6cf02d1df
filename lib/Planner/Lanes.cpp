// SPDX-License-Identifier: Apache-2.0
// One round: every lane starts from the same choice; what they changed is recombined.
#include "Lanes.h"

#include <atomic>
#include <thread>

#include "Recombine.h"
#include "TreeNeighbourhood.h"

namespace autopar::planner {
namespace {

constexpr int kLanes = 4;

/// Runs all tasks on up to `threads` threads.
void runTasks(const std::vector<std::function<void()>> &tasks, int threads) {
  std::atomic<size_t> next = 0;
  auto serve = [&] {
    for (size_t task = next++; task < tasks.size(); task = next++)
      tasks[task]();
  };
  std::vector<std::thread> pool;
  for (int t = 1; t < threads && static_cast<size_t>(t) < tasks.size(); ++t)
    pool.emplace_back(serve);
  serve();
  for (std::thread &thread : pool)
    thread.join();
}

} // namespace

int64_t searchLanes(const ReducedProblem &problem, const std::vector<double> &prices,
                    std::vector<int32_t> &choice, const LaneRound &round) {
  auto nodes = static_cast<int32_t>(problem.nodes.size());
  int lanes = nodes < 64 ? 1 : kLanes;
  auto count = static_cast<size_t>(lanes);
  std::vector<std::vector<int32_t>> found(count);
  std::vector<int64_t> work(count, 0);
  auto border = [&](size_t lane) {
    int64_t shift = round.number % 2 ? nodes / (2 * lanes) : 0;
    int64_t at = int64_t(nodes) * static_cast<int64_t>(lane) / lanes + shift;
    return static_cast<int32_t>(lane == 0 ? 0 : lane == count ? nodes : at);
  };
  std::vector<std::function<void()>> tasks;
  if (round.beside)
    tasks.push_back(round.beside);
  for (size_t lane = 0; lane < count; ++lane)
    tasks.push_back([&, lane] {
      uint64_t draw = static_cast<uint64_t>(round.number) * kLanes + lane + 1;
      TreeNeighbourhood search(problem, choice, prices, round.seed + 0x9e3779b97f4a7c15ull * draw);
      search.run(std::max<int64_t>(1, round.steps / lanes), border(lane), border(lane + 1),
                 round.stop);
      found[lane] = search.choice();
      work[lane] = search.work();
    });
  runTasks(tasks, round.threads);
  std::vector<int32_t> merged = choice;
  int64_t spent = 0;
  for (size_t lane = 0; lane < count; ++lane) {
    merged = recombine(problem, merged, found[lane]);
    spent += work[lane];
  }
  choice = std::move(merged);
  return spent;
}

} // namespace autopar::planner
