// SPDX-License-Identifier: Apache-2.0
// The exact engine: a mixed integer program over the reduced problem, solved by CBC through its C
// interface. One binary per strategy, one continuous variable per legal pair of an edge; the linear
// relaxation is often integral. Memory rows are added only for time points that a solution
// overfills, which keeps the program small and every intermediate optimum a true lower bound.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>

#include <coin/Cbc_C_Interface.h>

#include "Engines.h"
#include "MemoryPrices.h"

namespace autopar::planner {
namespace {

struct ModelDeleter {
  void operator()(Cbc_Model *model) const { Cbc_deleteModel(model); }
};
using Model = std::unique_ptr<Cbc_Model, ModelDeleter>;

/// Rows in compressed form, ready for CBC.
struct Program {
  std::vector<double> cost;
  std::vector<int> rowStart = {0}, columns;
  std::vector<double> values, lower, upper;
  std::vector<int> firstColumn; ///< per node

  void addRow(const std::vector<int> &row, const std::vector<double> &coefficients, double least,
              double most) {
    columns.insert(columns.end(), row.begin(), row.end());
    values.insert(values.end(), coefficients.begin(), coefficients.end());
    rowStart.push_back(static_cast<int>(columns.size()));
    lower.push_back(least);
    upper.push_back(most);
  }
};

class ExactSearch {
public:
  ExactSearch(const ReducedProblem &problem, std::vector<int32_t> warm, const ExactLimits &limits)
      : problem(problem), best(std::move(warm)), limits(limits), start(Clock::now()) {
    scale = std::max(1.0, std::abs(problem.costOf(best)) / 1e5);
    inMemory.assign(problem.room.size(), false);
  }

  /// Improves `best` and `bound`; true when best is proven optimal.
  bool run();

  const std::vector<int32_t> &choice() const { return best; }
  double lowerBound() const { return bound; }

private:
  using Clock = std::chrono::steady_clock;

  Program build() const;
  void addMemoryRows(Program &program) const;
  bool solve(const Program &program, std::vector<int32_t> &found, bool &closed);
  bool watchOverfilled(const std::vector<int32_t> &found, double share);
  double secondsLeft() const {
    return limits.seconds - std::chrono::duration<double>(Clock::now() - start).count();
  }

  const ReducedProblem &problem;
  std::vector<int32_t> best;
  double bound = 0;
  double scale = 1;
  ExactLimits limits;
  Clock::time_point start;
  std::vector<bool> inMemory; ///< time points with a row
};

Program ExactSearch::build() const {
  Program program;
  for (const ReducedNode &node : problem.nodes) {
    program.firstColumn.push_back(static_cast<int>(program.cost.size()));
    for (double cost : node.cost)
      program.cost.push_back(cost / scale);
  }
  std::vector<int> row;
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    row.clear();
    for (int32_t k = 0; k < problem.nodes[i].size(); ++k)
      row.push_back(program.firstColumn[i] + k);
    program.addRow(row, std::vector<double>(row.size(), 1.0), 1, 1);
  }
  for (const ReducedEdge &edge : problem.edges) {
    const Matrix &matrix = *edge.matrix;
    std::vector<std::vector<int>> byA(static_cast<size_t>(matrix.rows)),
        byB(static_cast<size_t>(matrix.columns));
    for (int32_t a = 0; a < matrix.rows; ++a)
      for (int32_t b = 0; b < matrix.columns; ++b) {
        double cost = matrix.byRow[static_cast<size_t>(a) * matrix.columns + b];
        if (cost >= problem.forbidden)
          continue;
        auto column = static_cast<int>(program.cost.size());
        program.cost.push_back(cost / scale);
        byA[static_cast<size_t>(a)].push_back(column);
        byB[static_cast<size_t>(b)].push_back(column);
      }
    auto tie = [&](std::vector<std::vector<int>> &groups, int32_t node) {
      for (size_t k = 0; k < groups.size(); ++k) {
        std::vector<double> ones(groups[k].size(), 1.0);
        groups[k].push_back(program.firstColumn[static_cast<size_t>(node)] + static_cast<int>(k));
        ones.push_back(-1.0);
        program.addRow(groups[k], ones, 0, 0);
      }
    };
    tie(byA, edge.a);
    tie(byB, edge.b);
  }
  return program;
}

void ExactSearch::addMemoryRows(Program &program) const {
  for (size_t t = 0; t < inMemory.size(); ++t) {
    if (!inMemory[t])
      continue;
    std::vector<int> row;
    std::vector<double> bytes;
    double unit = std::max(1.0, std::abs(static_cast<double>(problem.room[t])) / 100);
    for (size_t i = 0; i < problem.nodes.size(); ++i) {
      const ReducedNode &node = problem.nodes[i];
      std::vector<double> held(node.cost.size(), 0);
      for (size_t p = 0; p < node.memory.pieces.size(); ++p)
        if (node.memory.pieces[p].begin <= static_cast<int32_t>(t) &&
            static_cast<int32_t>(t) < node.memory.pieces[p].end)
          for (size_t k = 0; k < held.size(); ++k)
            held[k] += static_cast<double>(node.memory.bytes[p * held.size() + k]);
      for (size_t k = 0; k < held.size(); ++k)
        if (held[k] > 0) {
          row.push_back(program.firstColumn[i] + static_cast<int>(k));
          bytes.push_back(held[k] / unit);
        }
    }
    program.addRow(row, bytes, -1e30, static_cast<double>(problem.room[t]) / unit);
  }
}

/// True when CBC came back with a choice; `closed` when it is the program's optimum.
bool ExactSearch::solve(const Program &program, std::vector<int32_t> &found, bool &closed) {
  Model model(Cbc_newModel());
  size_t count = program.cost.size(), binaries = 0;
  // CBC takes columns; the rows are turned here.
  std::vector<int> starts(count + 1, 0), rows(program.columns.size());
  std::vector<double> values(program.columns.size());
  for (int column : program.columns)
    ++starts[static_cast<size_t>(column) + 1];
  for (size_t c = 0; c < count; ++c)
    starts[c + 1] += starts[c];
  std::vector<int> next(starts.begin(), starts.end() - 1);
  for (size_t r = 0; r + 1 < program.rowStart.size(); ++r)
    for (int at = program.rowStart[r]; at < program.rowStart[r + 1]; ++at) {
      auto to = static_cast<size_t>(
          next[static_cast<size_t>(program.columns[static_cast<size_t>(at)])]++);
      rows[to] = static_cast<int>(r);
      values[to] = program.values[static_cast<size_t>(at)];
    }
  for (const ReducedNode &node : problem.nodes)
    binaries += node.cost.size();
  std::vector<double> zero(count, 0.0), one(count, 1.0);
  Cbc_loadProblem(model.get(), static_cast<int>(count), static_cast<int>(program.lower.size()),
                  starts.data(), rows.data(), values.data(), zero.data(), one.data(),
                  program.cost.data(), program.lower.data(), program.upper.data());
  for (size_t c = 0; c < binaries; ++c)
    Cbc_setInteger(model.get(), static_cast<int>(c));
  Cbc_setLogLevel(model.get(), 0);
  Cbc_setParameter(model.get(), "log", "0");
  Cbc_setMaximumNodes(model.get(), limits.nodes);
  Cbc_setMaximumSeconds(model.get(), std::max(0.5, secondsLeft()));
  // What is known to fit spares the solver its own search for something that does.
  std::vector<int> chosen;
  for (size_t i = 0; i < problem.nodes.size(); ++i)
    chosen.push_back(program.firstColumn[i] + best[i]);
  if (standingOf(problem, best).over == 0)
    Cbc_setMIPStartI(model.get(), static_cast<int>(chosen.size()), chosen.data(), one.data());
  Cbc_solve(model.get());
  bool infeasible = Cbc_isProvenInfeasible(model.get()) != 0;
  closed = Cbc_isProvenOptimal(model.get()) != 0;
  double possible = Cbc_getBestPossibleObjValue(model.get());
  const double *solution = Cbc_getColSolution(model.get());
  if (closed || (std::isfinite(possible) && std::abs(possible) < 1e40 && !infeasible))
    bound = std::max(bound,
                     problem.constant + scale * (closed ? Cbc_getObjValue(model.get()) : possible));
  if (infeasible || !solution)
    return false;
  found.assign(problem.nodes.size(), 0);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const double *own = solution + program.firstColumn[i];
    found[i] =
        static_cast<int32_t>(std::max_element(own, own + problem.nodes[i].cost.size()) - own);
  }
  return true;
}

/// Gives rows to the peaks that `found` fills beyond `share` of the room; false: none was new.
bool ExactSearch::watchOverfilled(const std::vector<int32_t> &found, double share) {
  std::vector<int64_t> held = heldBytes(problem, found);
  bool any = false;
  auto full = [&](size_t t) {
    return static_cast<double>(held[t]) > share * static_cast<double>(problem.room[t]);
  };
  for (size_t t = 0; t < held.size(); ++t) {
    if (!full(t))
      continue;
    size_t peak = t;
    for (; t < held.size() && full(t); ++t)
      if (held[t] - problem.room[t] > held[peak] - problem.room[peak])
        peak = t;
    any = any || !inMemory[peak];
    inMemory[peak] = true;
  }
  return any;
}

bool ExactSearch::run() {
  // Small programs take all memory rows at once; others start with those that are nearly full.
  int64_t entries = 0;
  for (const ReducedNode &node : problem.nodes)
    for (const Piece &piece : node.memory.pieces)
      entries += int64_t(piece.end - piece.begin) * node.size();
  if (entries <= 200'000)
    std::fill(inMemory.begin(), inMemory.end(), true);
  else
    watchOverfilled(best, 0.95);
  Program plain = build();
  for (int round = 0; round < 60 && secondsLeft() > 0.2; ++round) {
    Program program = plain;
    addMemoryRows(program);
    std::vector<int32_t> found;
    bool closed = false;
    if (!solve(program, found, closed))
      return false;
    Standing standing = standingOf(problem, found);
    if (standing < standingOf(problem, best))
      best = found;
    if (standing.over == 0)
      return closed;
    if (!watchOverfilled(found, 1.0))
      return false;
  }
  return false;
}

class ExactEngine final : public SearchEngine {
public:
  std::string_view name() const override { return "exact"; }

  Result<Solution> search(const CostGraph &graph, const SearchOptions &options) const override {
    Result<Reduction> reduction = Reduction::of(graph);
    if (!reduction)
      return reduction.status();
    if (exactColumns(reduction->problem()) > kMostColumns)
      return Status::badInput("the exact engine takes up to " + std::to_string(kMostColumns) +
                              " legal pairs of strategies after reduction, this graph has " +
                              std::to_string(exactColumns(reduction->problem())) +
                              "; use the engine 'own' or 'auto'");
    SearchOptions first = options;
    first.timeGuardSeconds = options.timeGuardSeconds / 3;
    Result<Solution> own = searchReduced(graph, *reduction, first);
    if (!own)
      return own.status();
    Solution solution = own.take();
    solution.engine = "exact";
    double seconds = options.timeGuardSeconds > 0 ? options.timeGuardSeconds * 0.6 : 1e6;
    improveExactly(graph, *reduction, {seconds, kMostNodes}, options, solution);
    return solution;
  }

private:
  static constexpr int64_t kMostColumns = 2'000'000;
  static constexpr int kMostNodes = 2000;
};

} // namespace

int64_t exactColumns(const ReducedProblem &problem) {
  int64_t columns = 0;
  for (const ReducedEdge &edge : problem.edges)
    columns += std::count_if(edge.matrix->byRow.begin(), edge.matrix->byRow.end(),
                             [&](double cost) { return cost < problem.forbidden; });
  return columns;
}

void improveExactly(const CostGraph &graph, const Reduction &reduction, const ExactLimits &limits,
                    const SearchOptions &options, Solution &solution) {
  if (solution.stoppedBy == StopReason::Optimal)
    return;
  std::vector<int32_t> warm = reduction.shrink(solution.choice);
  if (std::find(warm.begin(), warm.end(), -1) != warm.end())
    return;
  ExactSearch search(reduction.problem(), warm, limits);
  bool proven = search.run();
  std::vector<int32_t> choice = reduction.expand(search.choice());
  Evaluation evaluation = evaluate(graph, choice);
  if (evaluation.legal && evaluation.fits && evaluation.timeUs < solution.timeUs) {
    solution.choice = std::move(choice);
    solution.timeUs = evaluation.timeUs;
    solution.peakBytes = evaluation.peakBytes;
    solution.engine = "exact";
  }
  solution.lowerBoundUs =
      std::min(solution.timeUs, std::max(solution.lowerBoundUs, search.lowerBound()));
  // The solver works to about nine digits; what it calls optimal is reported as such.
  if (proven) {
    solution.stoppedBy = StopReason::Optimal;
    if (solution.timeUs - solution.lowerBoundUs <= 1e-6 * solution.timeUs)
      solution.lowerBoundUs = solution.timeUs;
  }
}

std::unique_ptr<SearchEngine> makeExactEngine() { return std::make_unique<ExactEngine>(); }

} // namespace autopar::planner
