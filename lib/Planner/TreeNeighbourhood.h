// SPDX-License-Identifier: Apache-2.0
// Local search whose moves re-decide a whole tree of nodes at once: all other nodes stay, the tree
// is solved exactly by dynamic programming, and memory enters through prices that are raised where
// the tree overfills and lowered where it does not.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <vector>

#include "ReducedProblem.h"

namespace autopar::planner {

/// What is compared first: whether a whole choice keeps the rules; then bytes over the room, summed
/// over time; then cost.
struct Standing {
  int64_t over = 0;
  double cost = 0;
  bool isLegal = true; ///< moves do not ask: they may pass through what is forbidden
  bool operator<(const Standing &other) const {
    if (isLegal != other.isLegal)
      return isLegal;
    return over != other.over ? over < other.over : cost < other.cost;
  }
};

/// A complete choice and moves that never worsen it.
class TreeNeighbourhood {
public:
  /// `prices` per time point are the first guess inside each move.
  TreeNeighbourhood(const ReducedProblem &problem, std::vector<int32_t> choice,
                    std::vector<double> prices, uint64_t seed);

  /// Makes moves around nodes in [firstSeed, lastSeed) until `steps` elementary steps are spent or
  /// `stop` says so.
  void run(int64_t steps, int32_t firstSeed, int32_t lastSeed, const std::function<bool()> &stop);

  const std::vector<int32_t> &choice() const { return now; }
  int64_t work() const { return spent; }

private:
  struct Member {
    int32_t node = 0;
    int32_t parent = -1; ///< index into members
    Arc toParent;
    size_t offset = 0; ///< into the cost arrays
  };

  void move(int32_t seed, size_t mostMembers);
  void growTree(int32_t seed, size_t mostMembers);
  void loadCosts();
  bool loadRoom();
  void solveTree();
  Standing judge(const std::vector<int32_t> &chosen);
  void addUse(const std::vector<int32_t> &chosen, int64_t sign, std::vector<int64_t> &change) const;
  void reprice(const Standing &found, double unit);
  double priceUnit() const;
  void accept(const std::vector<int32_t> &chosen, const Standing &found);
  uint64_t random(uint64_t below) { return below == 0 ? 0 : generator() % below; }

  const ReducedProblem &problem;
  std::vector<int32_t> now;
  std::vector<double> guide; ///< prices to start from
  std::mt19937_64 generator;
  int64_t over = 0;
  std::vector<int64_t> held; ///< per time point
  int64_t spent = 0;

  // One move's scratch space.
  std::vector<Member> members;
  std::vector<int32_t> stamp, touched, frontier, frontierParent;
  std::vector<int32_t> chosen, before;
  std::vector<double> base, priced, prefix, price, message;
  std::vector<int64_t> room, use, change;
  int32_t firstTime = 0, lastTime = 0;
  int32_t round = 0;
  int64_t outside = 0; ///< overfill outside [firstTime, lastTime)
};

} // namespace autopar::planner
