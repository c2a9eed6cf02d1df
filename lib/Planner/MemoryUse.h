// SPDX-License-Identifier: Apache-2.0
// Memory held per time point by the nodes decided so far.
#pragma once

#include <cstdint>
#include <vector>

#include "ReducedProblem.h"

namespace autopar::planner {

/// Held bytes minus room, per time point, with fast range maxima (a tree of lazy sums).
class MemoryUse {
public:
  explicit MemoryUse(const std::vector<int64_t> &room);

  /// Adds (sign 1) or removes (sign -1) what `node` holds with strategy `k`.
  void add(const ReducedNode &node, int32_t k, int64_t sign);
  /// The largest overfill over the node's own times if it took `k`; <= 0: it fits there.
  int64_t overAfter(const ReducedNode &node, int32_t k);
  /// The largest overfill over all times (negative: bytes to spare; no times: the least number).
  int64_t over() const { return most.size() > 1 ? most[1] : INT64_MIN; }

private:
  void addRange(int32_t begin, int32_t end, int64_t bytes);
  int64_t maxRange(size_t at, int32_t left, int32_t right, int32_t begin, int32_t end) const;
  void build(size_t at, int32_t left, int32_t right, const std::vector<int64_t> &room);
  void change(size_t at, int32_t left, int32_t right, int32_t begin, int32_t end, int64_t bytes);

  int32_t times = 0;
  std::vector<int64_t> most, added;
};

} // namespace autopar::planner
