// SPDX-License-Identifier: Apache-2.0
// Chooses what is computed again. For a price per byte that is kept the best choice is a minimum
// cut. Over all prices the cuts give the lower hull of time against bytes, so a bound; their
// differences fall into parts that do not touch, each of which is taken or left by what useOf()
// says of the peak. Few operations are searched completely.
#include "autopar/Planner/Recompute.h"

#include "RecomputeCut.h"
#include "RecomputeWalk.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace autopar {
namespace {

using Choice = RecomputeCut::Choice;

/// Problems of at most this many operations are searched to the end.
constexpr size_t kSmall = 24;
/// Nodes of that search.
constexpr int64_t kMostNodes = 20000;
/// Cuts until a price is known well enough.
constexpr int kBisections = 24;
/// Prices above the one of the bound that are tried, and the ratio between two of them.
constexpr int kSteps = 24;
constexpr double kStep = 1.5;
/// Weightings of places after the first, where the answer is further from the bound than this.
constexpr int kRounds = 5;
constexpr double kCloseEnough = 0.01;
/// How often the program is walked for parts, and for single operations.
constexpr int64_t kMostWalks = 2000;

class Chooser {
public:
  explicit Chooser(const RecomputeProblem &problem)
      : problem(problem), cut(problem), turn(cut.turn()), walk(problem) {}

  Result<RecomputeSolution> run(RecomputeSolution *leanestFound) {
    consider(Choice(problem.ops.size(), 0));
    bool isComplete = hasBest(); // nothing has to be computed again
    if (!isComplete && turn >= 0) {
      findBound();
      takeLayers();
      for (int round = 0; round <= kRounds && !isCloseEnough(); ++round)
        searchPrices(round);
      walks = 0;
      if (!hasBest())
        reducePeak(problem.memoryLimitBytes);
      // How little there could be, for the one who has to choose another limit.
      for (int64_t before = least + 1; !hasBest() && least < before && walks < kMostWalks;) {
        before = least;
        reducePeak(std::max(problem.memoryLimitBytes, least - least / 16));
      }
      walks = 0;
      improve();
      isComplete = searchSmall();
    }
    if (leanestFound)
      *leanestFound = solutionOf(walk.of(leanest));
    if (!hasBest())
      return Status::badInput("recomputation reaches " + std::to_string(least) +
                              " bytes at best, the limit is " +
                              std::to_string(problem.memoryLimitBytes));
    RecomputeSolution solution = solutionOf(bestUse);
    solution.isOptimal = isComplete || bestUse.timeUs <= boundUs * (1 + 1e-9);
    solution.lowerBoundUs = solution.isOptimal ? bestUse.timeUs : boundUs;
    return solution;
  }

  Choice cheapestAt(double usPerByte) {
    Choice choice(problem.ops.size(), 0);
    if (turn >= 0)
      cut.cheapest(usPerByte, cut.weightsAt({{turn, 1.0}}), nullptr, nullptr, choice, false);
    return choice;
  }

private:
  //===-- judging --------------------------------------------------------------------------===//

  static RecomputeSolution solutionOf(const RecomputeUse &use) {
    RecomputeSolution solution;
    solution.recomputed = use.again;
    std::sort(solution.recomputed.begin(), solution.recomputed.end());
    solution.timeUs = use.timeUs;
    solution.peakBytes = use.peakBytes;
    return solution;
  }

  bool hasBest() const { return !best.empty(); }
  bool isCloseEnough() const { return hasBest() && bestUse.timeUs <= boundUs * (1 + kCloseEnough); }

  /// What it costs; stays until another one is considered.
  const RecomputeUse &consider(const Choice &choice) {
    ++walks;
    const RecomputeUse &use = walk.of(choice);
    if (use.peakBytes < least) {
      least = use.peakBytes;
      leanest = choice;
    }
    if (use.peakBytes <= problem.memoryLimitBytes && (!hasBest() || use.timeUs < bestUse.timeUs)) {
      best.assign(choice.size(), 0); // what nobody reads again is not chosen
      for (int32_t op : use.again)
        best[op] = 1;
      bestUse = use;
    }
    return use;
  }

  //===-- prices ---------------------------------------------------------------------------===//

  /// From the price at which one operation pays for its own bytes to that at which all do for one
  /// value.
  std::pair<double, double> priceRange() const {
    double low = std::numeric_limits<double>::max(), high = 0, all = 0;
    int64_t largest = 1;
    for (const RecomputeOp &op : problem.ops) {
      int64_t bytes = 0;
      for (int32_t value : op.writes)
        bytes += problem.values[value].bytes;
      if (!op.mayRecompute || op.timeUs <= 0 || bytes <= 0)
        continue;
      double ratio = op.timeUs / static_cast<double>(bytes);
      low = std::min(low, ratio);
      high = std::max(high, ratio);
      all += op.timeUs;
      largest = std::max(largest, bytes);
    }
    if (high == 0)
      return {1e-12, 1};
    return {low / 100, 100 * std::max(high, all / static_cast<double>(largest))};
  }

  /// Raises the price until a choice fits, then takes what lies between this price and the one
  /// before. From the second round on, places where the peak was weigh too.
  void searchPrices(int round) {
    std::vector<std::pair<int32_t, double>> places = peaks;
    places.emplace_back(turn, std::pow(0.5, round));
    RecomputeCut::Weights weights = cut.weightsAt(places);
    const std::vector<int32_t> *runs = round ? &runsFor : nullptr;
    RecomputeUse nearest;
    Choice choice, below(problem.ops.size(), 0);
    double low = 0, price = round ? priceRange().first * 100 : boundPrice;
    bool fits = false;
    auto judge = [&] {
      const RecomputeUse &use = consider(choice);
      if (nearest.runsFor.empty() || use.peakBytes < nearest.peakBytes)
        nearest = use;
      return use.peakBytes <= problem.memoryLimitBytes;
    };
    for (int step = 0; step < kSteps && !fits; ++step) {
      cut.cheapest(price, weights, runs, nullptr, choice);
      fits = judge();
      if (fits)
        break;
      takeParts(choice, below);
      below = choice;
      low = price;
      price *= round ? 2 * kStep : kStep;
    }
    Choice above = choice;
    double high = price;
    for (int i = 0; fits && low > 0 && i < kBisections && high / low > 1.001; ++i) {
      price = std::sqrt(low * high);
      cut.cheapest(price, weights, runs, nullptr, choice);
      bool isFitting = choice == above || (choice != below && judge());
      (isFitting ? high : low) = price;
      (isFitting ? above : below) = choice;
    }
    if (fits)
      takeParts(above, below);
    runsFor = nearest.runsFor;
    for (auto &place : peaks)
      place.second /= 2;
    peaks.emplace_back(std::max(turn, nearest.peakAt), 0.5);
  }

  //===-- parts ----------------------------------------------------------------------------===//

  /// Where two choices differ: sets of operations, joined where one reads another.
  std::vector<std::vector<int32_t>> partsOf(const Choice &a, const Choice &b) const {
    std::vector<int32_t> owner(problem.ops.size());
    std::iota(owner.begin(), owner.end(), 0);
    std::function<int32_t(int32_t)> find = [&](int32_t op) {
      while (owner[op] != op)
        op = owner[op] = owner[owner[op]];
      return op;
    };
    for (size_t v = 0; v < problem.values.size(); ++v)
      if (int32_t made = cut.producerOf(v); made >= 0 && a[made] != b[made])
        for (int32_t reader : cut.readersOf(v))
          if (a[reader] != b[reader])
            owner[find(reader)] = find(made);
    std::vector<std::vector<int32_t>> parts;
    std::vector<int32_t> number(problem.ops.size(), -1);
    for (int32_t op = 0; op < static_cast<int32_t>(problem.ops.size()); ++op)
      if (a[op] != b[op]) {
        int32_t &part = number[find(op)];
        if (part < 0) {
          part = static_cast<int32_t>(parts.size());
          parts.emplace_back();
        }
        parts[part].push_back(op);
      }
    return parts;
  }

  static void flip(Choice &choice, const std::vector<int32_t> &part) {
    for (int32_t op : part)
      choice[op] = !choice[op];
  }

  /// From a choice that fits towards one that does not but costs less, part by part; the other way
  /// round where neither fits, as long as the peak falls.
  void takeParts(const Choice &from, const Choice &to) {
    if (from.empty())
      return;
    Choice now = from;
    const RecomputeUse &next = consider(now);
    int64_t peakBytes = next.peakBytes;
    double timeUs = next.timeUs;
    for (const std::vector<int32_t> &part : partsOf(from, to)) {
      if (walks > kMostWalks)
        return;
      flip(now, part);
      consider(now); // which is `next`
      bool fits = peakBytes <= problem.memoryLimitBytes;
      bool isBetter = fits ? next.peakBytes <= problem.memoryLimitBytes && next.timeUs < timeUs
                           : next.peakBytes < peakBytes;
      if (!isBetter) {
        flip(now, part);
        continue;
      }
      peakBytes = next.peakBytes;
      timeUs = next.timeUs;
    }
  }

  /// As few layers as fit, from the first on, whose values wait longest.
  void takeLayers() {
    auto fits = [&](size_t count) {
      Choice choice(problem.ops.size(), 0);
      for (const std::vector<int32_t> &layer : std::span(problem.layers).first(count))
        for (int32_t op : layer)
          choice[op] = 1;
      return consider(choice).peakBytes <= problem.memoryLimitBytes;
    };
    size_t tooFew = 0, enough = problem.layers.size();
    if (!fits(enough))
      return;
    while (enough - tooFew > 1) {
      size_t count = (tooFew + enough) / 2;
      (fits(count) ? enough : tooFew) = count;
    }
  }

  /// What the leanest choice keeps is computed again, too, one operation after the other, where no
  /// place gets above `target` by it. So segments that run again grow until they fill the room that
  /// what is kept leaves at their place.
  void reducePeak(int64_t target) {
    Choice now = leanest;
    RecomputeUse use = consider(now);
    bool isLower = true;
    while (isLower && use.peakBytes > target) {
      isLower = false;
      for (int32_t op = 0; op < static_cast<int32_t>(problem.ops.size()); ++op) {
        if (now[op] || !problem.ops[op].mayRecompute || !isReadBehind(op, now))
          continue;
        now[op] = 1;
        const RecomputeUse &next = consider(now);
        bool isAllowed = true, isUseful = false;
        for (size_t place = 0; isAllowed && place < next.bytesAt.size(); ++place) {
          isAllowed = next.bytesAt[place] <= std::max(target, use.bytesAt[place]);
          isUseful |= use.bytesAt[place] > target && next.bytesAt[place] < use.bytesAt[place];
        }
        if (isAllowed && isUseful) {
          use = next;
          isLower = true;
        } else {
          now[op] = 0;
        }
        if (walks > kMostWalks || use.peakBytes <= target)
          return;
      }
    }
  }

  bool isReadBehind(int32_t op, const Choice &choice) const {
    return std::any_of(
        problem.ops[op].writes.begin(), problem.ops[op].writes.end(), [&](int32_t value) {
          return std::any_of(cut.readersOf(value).begin(), cut.readersOf(value).end(),
                             [&](int32_t reader) {
                               const RecomputeOp &op = problem.ops[reader];
                               return op.isBackward || (choice[reader] && !op.waitsOnHost);
                             });
        });
  }

  /// Drops operations from the best choice, the dearest first, and exchanges them for one that
  /// costs less.
  void improve() {
    bool isBetter = hasBest();
    while (isBetter && walks < kMostWalks && !isCloseEnough()) {
      isBetter = false;
      std::vector<int32_t> order = bestUse.again;
      std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return std::pair(-problem.ops[a].timeUs, a) < std::pair(-problem.ops[b].timeUs, b);
      });
      for (int32_t op : order) {
        if (walks > kMostWalks || !best[op])
          continue;
        Choice next = best;
        next[op] = 0;
        double before = bestUse.timeUs;
        consider(next);
        isBetter |= bestUse.timeUs < before;
        // Readers that made it necessary may fall with it.
        for (int32_t value : problem.ops[op].writes)
          for (int32_t reader : cut.readersOf(value))
            next[reader] = 0;
        before = bestUse.timeUs;
        consider(next);
        isBetter |= bestUse.timeUs < before;
      }
    }
  }

  //===-- bounds ---------------------------------------------------------------------------===//

  /// Bytes that are there at the turn from forward to backward whatever is chosen, before anything
  /// of the backward pass runs.
  int64_t bytesAtTurn() const {
    int64_t bytes = problem.constantBytes;
    for (size_t v = 0; v < problem.values.size(); ++v) {
      const RecomputeValue &value = problem.values[v];
      bool begins = value.fromStart || cut.producerOf(v) < turn,
           ends = value.toEnd || cut.producerOf(v) >= turn;
      if (cut.producerOf(v) >= 0 && (value.fromStart || value.toEnd) && begins && ends)
        bytes += value.bytes;
    }
    return bytes;
  }

  /// What is kept at the turn has to fit: relaxed by a price, every price gives a bound.
  double boundAt(double price, const std::vector<signed char> *fixed, Choice &choice) const {
    double room = static_cast<double>(problem.memoryLimitBytes - bytesAtTurn());
    return cut.cheapest(price, weightsAtTurn, nullptr, fixed, choice, false) - price * room;
  }

  /// The bound is concave in the price; where more is kept than there is room for, it rises.
  void findBound() {
    weightsAtTurn = cut.weightsAt({{turn, 1.0}});
    auto [low, high] = priceRange();
    Choice choice, below(problem.ops.size(), 0), above;
    boundPrice = low;
    for (int i = 0; i < 2 * kBisections && high / low > 1.0001; ++i) {
      double price = std::sqrt(low * high), value = boundAt(price, nullptr, choice);
      if (value > boundUs) {
        boundUs = value;
        boundPrice = price;
      }
      double time = 0;
      for (size_t op = 0; op < choice.size(); ++op)
        time += choice[op] ? problem.ops[op].timeUs : 0;
      bool isTooMuch = value > time; // what is priced is the excess
      (isTooMuch ? low : high) = price;
      (isTooMuch ? below : above) = choice;
    }
    takeParts(above, below);
  }

  /// Branch and bound where operations are few; whether it came to its end.
  bool searchSmall() {
    std::vector<int32_t> order;
    for (int32_t op = 0; op < static_cast<int32_t>(problem.ops.size()); ++op)
      if (problem.ops[op].mayRecompute)
        order.push_back(op);
    if (order.size() > kSmall)
      return false;
    if (!hasBest())
      bestUse.timeUs = std::numeric_limits<double>::infinity();
    std::vector<signed char> fixed(problem.ops.size(), -1);
    int64_t nodes = 0;
    Choice choice;
    std::function<bool(size_t)> visit = [&](size_t depth) {
      if (++nodes > kMostNodes)
        return false;
      if (boundAt(boundPrice, &fixed, choice) >= bestUse.timeUs * (1 - 1e-12))
        return true;
      consider(choice);
      if (depth == order.size())
        return true;
      bool isComplete = true;
      for (int first : {0, 1}) {
        fixed[order[depth]] = static_cast<signed char>(choice[order[depth]] ? 1 - first : first);
        isComplete = isComplete && visit(depth + 1);
      }
      fixed[order[depth]] = -1;
      return isComplete;
    };
    return visit(0);
  }

  const RecomputeProblem &problem;
  RecomputeCut cut;
  int32_t turn; ///< the first operation of the backward pass; -1: none
  RecomputeWalk walk;
  int64_t walks = 0;

  Choice best, leanest;
  RecomputeUse bestUse;
  int64_t least = std::numeric_limits<int64_t>::max();
  std::vector<std::pair<int32_t, double>> peaks; ///< places that weigh besides the turn
  std::vector<int32_t> runsFor;                  ///< of the leanest choice of the round before
  RecomputeCut::Weights weightsAtTurn;
  double boundUs = 0, boundPrice = 0;
};

} // namespace

std::vector<char> cheapestAt(const RecomputeProblem &problem, double usPerByte) {
  return Chooser(problem).cheapestAt(usPerByte);
}

Result<RecomputeSolution> chooseRecomputation(const RecomputeProblem &problem,
                                              RecomputeSolution *leanest) {
  AUTOPAR_RETURN_IF_ERROR(problem.verify());
  return Chooser(problem).run(leanest);
}

} // namespace autopar
