// SPDX-License-Identifier: Apache-2.0
// autopar-solve: one planner problem from a file, solved by an engine of choice.
#include <chrono>
#include <cstdio>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "ContestFormat.h"
#include "autopar/Planner/SearchEngine.h"

using namespace autopar;

namespace {

struct Arguments {
  std::string problem, output, engine = "auto";
  double timeLimit = 0;
  int64_t workUnits = 0;
  int threads = 0;
  uint64_t seed = 1;
  bool json = false;
};

int fail(const Status &status) {
  std::fprintf(stderr, "autopar-solve: %s\n", status.message().c_str());
  return status.exitCode();
}

void report(const Arguments &arguments, const CostGraph &graph, const Solution &solution,
            double seconds) {
  if (!arguments.json) {
    std::printf("cost         %.0f\nlower bound  %.0f\ngap          %.4f %%\npeak usage   %lld of "
                "%lld\nengine       %s, stopped by %s, %lld work units\nseconds      %.2f\n",
                solution.timeUs, solution.lowerBoundUs, 100 * solution.gap(),
                static_cast<long long>(solution.peakBytes),
                static_cast<long long>(graph.memoryLimitBytes), solution.engine.c_str(),
                std::string(name(solution.stoppedBy)).c_str(),
                static_cast<long long>(solution.workUnits), seconds);
    return;
  }
  nlohmann::ordered_json line = {{"problem", arguments.problem},
                                 {"nodes", graph.nodes.size()},
                                 {"edges", graph.edges.size()},
                                 {"cost", solution.timeUs},
                                 {"lower_bound", solution.lowerBoundUs},
                                 {"gap", solution.gap()},
                                 {"peak_usage", solution.peakBytes},
                                 {"usage_limit", graph.memoryLimitBytes},
                                 {"engine", solution.engine},
                                 {"stopped_by", name(solution.stoppedBy)},
                                 {"work_units", solution.workUnits},
                                 {"seconds", seconds}};
  std::printf("%s\n", line.dump().c_str());
}

int solve(const Arguments &arguments) {
  auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  Result<const SearchEngine *> engine = findSearchEngine(arguments.engine);
  if (!engine)
    return fail({StatusCode::Usage, engine.status().message()});
  Result<CostGraph> graph = readContestProblem(arguments.problem);
  if (!graph)
    return fail(graph.status());
  SearchOptions options;
  options.workUnits = arguments.workUnits;
  options.seed = arguments.seed;
  options.threads = arguments.threads > 0
                        ? arguments.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  // The limit covers reading and writing the files.
  if (arguments.timeLimit > 0)
    options.timeGuardSeconds = std::max(0.1, 0.97 * arguments.timeLimit - elapsed() - 0.2);
  Result<std::vector<Solution>> found = (*engine)->search(*graph, options);
  if (!found)
    return fail(found.status());
  if (!arguments.output.empty())
    if (Status status = writeContestSolution(arguments.output, found->front().choice);
        !status.isOk())
      return fail(status);
  report(arguments, *graph, found->front(), elapsed());
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  Arguments arguments;
  CLI::App app("Solves one intra-operator parallelism problem (public contest format, JSON or "
               "gzipped JSON).");
  app.add_option("problem", arguments.problem, "problem file")->required();
  app.add_option("-o,--output", arguments.output, "where to write {\"solution\": [...]}");
  app.add_option("--time-limit", arguments.timeLimit, "seconds in all; 0: by work units")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--work-units", arguments.workUnits, "millions of elementary steps; 0: default")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--engine", arguments.engine, "auto, own, exact, or a registered one");
  app.add_option("--threads", arguments.threads, "0: all cores")->check(CLI::NonNegativeNumber);
  app.add_option("--seed", arguments.seed, "another seed, another answer of similar quality");
  app.add_flag("--json", arguments.json, "one line of JSON");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(StatusCode::Usage);
  }
  return solve(arguments);
}
