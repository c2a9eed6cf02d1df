// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ReducedProblem.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace autopar::planner {

MatrixRef makeMatrix(int32_t rows, int32_t columns, std::vector<double> values, bool byRow) {
  auto matrix = std::make_shared<Matrix>();
  matrix->rows = rows;
  matrix->columns = columns;
  std::vector<double> &given = byRow ? matrix->byRow : matrix->byColumn,
                      &turned = byRow ? matrix->byColumn : matrix->byRow;
  int32_t outer = byRow ? rows : columns, inner = byRow ? columns : rows;
  turned.resize(values.size());
  for (int32_t o = 0; o < outer; ++o)
    for (int32_t i = 0; i < inner; ++i)
      turned[static_cast<size_t>(i) * outer + o] = values[static_cast<size_t>(o) * inner + i];
  given = std::move(values);
  return matrix;
}

double ReducedProblem::costOf(const std::vector<int32_t> &choice) const {
  double sum = constant;
  for (size_t i = 0; i < nodes.size(); ++i)
    sum += nodes[i].cost[static_cast<size_t>(choice[i])];
  for (const ReducedEdge &edge : edges)
    sum += edge.matrix->byRow[static_cast<size_t>(choice[static_cast<size_t>(edge.a)]) *
                                  static_cast<size_t>(edge.matrix->columns) +
                              static_cast<size_t>(choice[static_cast<size_t>(edge.b)])];
  return sum;
}

int64_t ReducedProblem::sweepWork() const {
  int64_t work = 0;
  for (const ReducedEdge &edge : edges)
    work += static_cast<int64_t>(edge.matrix->byRow.size());
  for (const ReducedNode &node : nodes)
    work += static_cast<int64_t>(node.cost.size() + node.memory.bytes.size());
  return work;
}

void ReducedProblem::priceForbidden() {
  double sum = std::abs(constant) + 1;
  std::map<const Matrix *, double> most;
  for (const ReducedNode &node : nodes)
    sum += *std::max_element(node.cost.begin(), node.cost.end());
  for (const ReducedEdge &edge : edges) {
    auto [found, isNew] = most.try_emplace(edge.matrix.get(), 0);
    if (isNew)
      for (double cost : edge.matrix->byRow)
        found->second = isForbidden(cost) ? found->second : std::max(found->second, cost);
    sum += found->second;
  }
  forbidden = std::min(4 * sum, 1e16);
  std::map<const Matrix *, MatrixRef> priced;
  for (ReducedEdge &edge : edges) {
    MatrixRef &made = priced[edge.matrix.get()];
    if (!made) {
      std::vector<double> values = edge.matrix->byRow;
      for (double &cost : values)
        cost = isForbidden(cost) ? forbidden : cost;
      made = makeMatrix(edge.matrix->rows, edge.matrix->columns, std::move(values));
    }
    edge.matrix = made;
  }
}

} // namespace autopar::planner
