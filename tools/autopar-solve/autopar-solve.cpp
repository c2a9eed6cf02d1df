// SPDX-License-Identifier: Apache-2.0
// autopar-solve: one planner problem from a file, solved by an engine of choice.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "ContestFormat.h"
#include "Incumbent.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Base/Utf8.h"
#include "autopar/Planner/SearchEngine.h"

using namespace autopar;

namespace {

constexpr const char *kExamples = R"(
Examples:
  autopar-solve problem.json.gz --time-limit 60 -o solution.json
      the best solution within a minute, reading and writing included
  autopar-solve problem.json --json
      the same answer on every machine: work is counted, not time
  autopar-solve problem.json.gz --engine exact --time-limit 120
      a proof, for problems of up to a few thousand nodes

The problem: {"problem": {"nodes": {"intervals": [[begin, end], ...], "costs": [[...], ...],
"usages": [[...], ...]}, "edges": {"nodes": [[a, b], ...], "costs": [[...], ...]},
"usage_limit": n}}; the solution: {"solution": [strategy per node]}. Progress goes to stderr:
seconds, best cost, lower bound, gap. Exit status: 0 solved; 2 wrong arguments; 65 malformed
problem, or nothing fits (the message says how much memory would); 66 no such file; 74 broken gzip
data.)";

struct Arguments {
  std::string problem, output, engine = "auto";
  double timeLimit = 0;
  int64_t workUnits = 0;
  int threads = 0;
  uint64_t seed = 1;
  bool json = false, quiet = false;
};

int fail(const Status &status) {
  std::fprintf(stderr, "autopar-solve: %s\n", status.message().c_str());
  return status.exitCode();
}

/// Seconds since the program began.
double elapsed() {
  static const auto start = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What is left of the limit for writing: the deadline must hold on a busy machine.
double deadline(double limit) { return limit - std::min(1.0, 0.02 * limit + 0.05); }

void report(const Arguments &arguments, const CostGraph &graph, const Solution &solution) {
  if (!arguments.json) {
    std::printf("cost         %.0f\nlower bound  %.0f\ngap          %.4f %%\npeak usage   %lld of "
                "%lld\nengine       %s, stopped by %s, %lld work units\nseconds      %.2f\n",
                solution.timeUs, solution.lowerBoundUs, 100 * solution.gap(),
                static_cast<long long>(solution.peakBytes),
                static_cast<long long>(graph.memoryLimitBytes), solution.engine.c_str(),
                std::string(name(solution.stoppedBy)).c_str(),
                static_cast<long long>(solution.workUnits), elapsed());
    return;
  }
  nlohmann::ordered_json line = {{"problem", escapedToUtf8(arguments.problem)},
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
                                 {"seconds", elapsed()}};
  std::printf("%s\n", line.dump().c_str());
}

/// Writes and reports; the exit status.
int deliver(const Arguments &arguments, const CostGraph &graph, const Solution &solution) {
  if (!arguments.output.empty())
    if (Status status = writeContestSolution(arguments.output, solution.choice); !status.isOk())
      return fail(status);
  report(arguments, graph, solution);
  Status printed = flushStandardOutput();
  return printed.isOk() ? 0 : fail(printed);
}

/// Tells of progress once a second and keeps the best choice for the deadline.
class Watch {
public:
  Watch(const Arguments &arguments, const CostGraph &graph)
      : arguments(arguments), graph(graph),
        incumbent(
            arguments.timeLimit > 0 ? std::max(0.01, deadline(arguments.timeLimit) - elapsed()) : 0,
            [this](const std::vector<int32_t> &best) { timeUp(best); }) {}

  void operator()(const SearchProgress &progress) {
    if (elapsed() < next)
      return;
    next = elapsed() + 1;
    bound = progress.lowerBoundUs;
    if (progress.fits)
      incumbent.offer(progress.timeUs, progress.choice);
    if (arguments.quiet)
      return;
    double gap = progress.fits ? 100 * (1 - bound / progress.timeUs) : 100;
    std::fprintf(stderr, "%7.1f s  cost %.8g%s  bound %.8g  gap %.3f %%\n", elapsed(),
                 progress.timeUs, progress.fits ? "" : " (does not fit yet)", bound.load(), gap);
  }

private:
  [[noreturn]] void timeUp(const std::vector<int32_t> &best) {
    int code = 0;
    Evaluation evaluation = evaluate(graph, best);
    if (best.empty() || !evaluation.legal || !evaluation.fits)
      code =
          fail(Status::badInput("no choice that fits was found within the time limit; raise it"));
    else
      code = deliver(arguments, graph,
                     {best, evaluation.timeUs, evaluation.peakBytes,
                      std::clamp(bound.load(), 0.0, evaluation.timeUs), StopReason::TimeGuard,
                      arguments.engine, 0});
    std::fflush(nullptr);
    _exit(code); // the engine is still running
  }

  const Arguments &arguments;
  const CostGraph &graph;
  double next = 0;
  std::atomic<double> bound = 0;
  Incumbent incumbent;
};

int solve(const Arguments &arguments) {
  Result<const SearchEngine *> engine = findSearchEngine(arguments.engine);
  if (!engine)
    return fail({StatusCode::Usage, engine.status().message()});
  Result<CostGraph> graph = readContestProblem(arguments.problem);
  if (!graph)
    return fail(graph.status());
  SearchOptions options;
  options.workUnits = arguments.workUnits;
  options.seed = arguments.seed;
  int64_t leastBytes = 0; // asked for, so that a refusal tells it
  options.leastBytes = &leastBytes;
  options.threads = arguments.threads > 0
                        ? arguments.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  if (arguments.timeLimit > 0)
    options.timeGuardSeconds = std::max(0.05, 0.985 * deadline(arguments.timeLimit) - elapsed());
  Result<Solution> found = Status::internal("no search");
  {
    Watch watch(arguments, *graph);
    options.onProgress = [&](const SearchProgress &progress) { watch(progress); };
    found = (*engine)->search(*graph, options);
  }
  return found ? deliver(arguments, *graph, *found) : fail(found.status());
}

} // namespace

int main(int argc, char **argv) {
  refuseOversizedFiles();
  elapsed();
  Arguments arguments;
  CLI::App app("Solves one intra-operator parallelism problem (public contest format, JSON or "
               "gzipped JSON).");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("autopar-solve " AUTOPAR_VERSION));
  app.add_option("problem", arguments.problem, "problem file");
  app.add_option("-o,--output", arguments.output, "where to write {\"solution\": [...]}");
  app.add_option("--time-limit", arguments.timeLimit, "seconds in all; 0: by work units")
      ->check(CLI::Range(0.0, 1e6));
  app.add_option("--work-units", arguments.workUnits, "millions of elementary steps; 0: default")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  app.add_option("--engine", arguments.engine, "auto, own, exact, or a registered one");
  app.add_option("--threads", arguments.threads, "0: all cores")->check(CLI::Range(0, 4096));
  app.add_option("--seed", arguments.seed, "another seed, another answer of similar quality")
      ->check(CLI::Range(int64_t{0}, std::numeric_limits<int64_t>::max()));
  app.add_flag("--json", arguments.json, "one line of JSON");
  app.add_flag("--quiet", arguments.quiet, "no progress on stderr");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(StatusCode::Usage);
  }
  // Checked here, after unknown flags were named.
  if (arguments.problem.empty())
    return fail({StatusCode::Usage, "which problem? autopar-solve problem.json -o solution.json"});
  return solve(arguments);
}
