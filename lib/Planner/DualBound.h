// SPDX-License-Identifier: Apache-2.0
// Lower bounds by message passing with prices on memory. For any prices per time point, the choice
// problem without a limit but with priced bytes is a bound; sequential tree-reweighted message
// passing bounds that in turn. Source: Kolmogorov, "Convergent tree-reweighted message passing for
// energy minimization", PAMI 28(10), 2006.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ReducedProblem.h"

namespace autopar::planner {

/// Prices, messages and the bound they prove.
class DualBound {
public:
  explicit DualBound(const ReducedProblem &problem);

  /// One forward and one backward sweep; returns the bound for the present prices.
  double sweep();
  /// A choice that follows the messages, node by node; memory counts through prices only.
  std::vector<int32_t> decode() const;
  /// A choice that follows the messages but never takes a strategy that overfills a time point when
  /// another one does not; may still end illegal or over the limit. Costs are off by up to `noise`
  /// each, drawn from `seed`.
  std::vector<int32_t> decodeWithinRoom(double noise = 0, uint64_t seed = 0) const;

  const std::vector<double> &prices() const { return price; }
  /// Prices per time point; none may be negative.
  void setPrices(const std::vector<double> &prices);
  /// The next sweeps start from scratch.
  void forgetMessages() { std::fill(messages.begin(), messages.end(), 0.0); }
  /// Elementary steps so far.
  int64_t work() const { return steps; }

private:
  double *message(int32_t edge, bool intoA) {
    return messages.data() + offset[static_cast<size_t>(edge) * 2 + (intoA ? 0 : 1)];
  }
  const double *message(int32_t edge, bool intoA) const {
    return messages.data() + offset[static_cast<size_t>(edge) * 2 + (intoA ? 0 : 1)];
  }
  void gather(size_t node, std::vector<double> &sum) const;
  double send(const Arc &arc, double share, const std::vector<double> &sum);
  void conditional(size_t node, const std::vector<int32_t> &choice, std::vector<double> &sum) const;

  const ReducedProblem &problem;
  std::vector<double> price;
  std::vector<std::vector<double>> priced; ///< node costs with priced bytes
  double pricedRoom = 0;                   ///< sum of price * room
  std::vector<size_t> offset;              ///< per edge: into a, into b
  std::vector<double> messages;
  mutable int64_t steps = 0;
};

/// Costs of `node` with bytes priced by `prefix` (prefix sums of prices, one longer than the
/// times).
void addPricedBytes(const ReducedNode &node, const std::vector<double> &prefix, double *cost);

/// result[x] = min over k of (start[k] + costs of k against x); `rows` as ReducedProblem::row.
void minPlus(const ReducedProblem &problem, const Arc &arc, const double *start, int32_t count,
             double *result, int32_t resultCount);

} // namespace autopar::planner
