// SPDX-License-Identifier: Apache-2.0
// Two cheap tests that spare most comparisons, then the exact one.
#include "Dominance.h"

#include <algorithm>
#include <cmath>

#include "LeastOf.h"
#include "autopar/Planner/CostGraph.h"

namespace autopar::planner {

/// The least of lose - win over the columns that are legal for `lose`; hugely negative where `win`
/// is not.
AUTOPAR_VECTOR_CLONES
static double leastLead(const double *lose, const double *win, size_t columns) {
  double least = leastOf(
      columns, [=](size_t c) __attribute__((always_inline)) {
        return lose[c] >= kForbiddenFrom ? kForbidden : lose[c] - win[c];
      });
  return lower(kForbidden, least);
}

Dominance::Dominance(const std::vector<double> &cost, const NodeMemory &memory,
                     std::vector<Edge> given)
    : cost(cost), memory(memory), sides(std::move(given)), optimistic(cost) {
  for (Edge &side : sides)
    for (size_t k = 0; k < cost.size(); ++k) {
      const double *row = side.values + k * side.columns;
      double least = leastOf(row, side.columns);
      optimistic[k] += least;
      side.cheapest.push_back(
          static_cast<int32_t>(std::find(row, row + side.columns, least) - row));
    }
}

bool Dominance::holdsForAll(size_t winner, size_t loser) const {
  // The winner is no dearer with the cheapest partners, and no dearer beside the loser's own.
  double slack = cost[loser] - cost[winner];
  double quick = slack;
  for (const Edge &side : sides) {
    auto column = static_cast<size_t>(side.cheapest[loser]);
    quick +=
        side.values[loser * side.columns + column] - side.values[winner * side.columns + column];
  }
  if (quick < -1e-6 * std::abs(optimistic[loser]))
    return false;
  size_t count = cost.size();
  for (size_t p = 0; p < memory.pieces.size(); ++p)
    if (memory.bytes[p * count + winner] > memory.bytes[p * count + loser])
      return false;
  for (const Edge &side : sides) {
    double least = leastLead(side.values + loser * side.columns,
                             side.values + winner * side.columns, side.columns);
    if (least <= -kForbiddenFrom)
      return false;
    slack += least;
  }
  return slack >= 0;
}

} // namespace autopar::planner
