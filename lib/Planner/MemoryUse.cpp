// SPDX-License-Identifier: Apache-2.0
// A segment tree: range add, range maximum.
#include "MemoryUse.h"

#include <algorithm>

namespace autopar::planner {

MemoryUse::MemoryUse(const std::vector<int64_t> &room) : times(static_cast<int32_t>(room.size())) {
  if (times == 0)
    return;
  most.assign(static_cast<size_t>(times) * 4, INT64_MIN);
  added.assign(most.size(), 0);
  build(1, 0, times, room);
}

void MemoryUse::build(size_t at, int32_t left, int32_t right, const std::vector<int64_t> &room) {
  if (right - left == 1) {
    most[at] = -room[static_cast<size_t>(left)];
    return;
  }
  int32_t middle = left + (right - left) / 2;
  build(2 * at, left, middle, room);
  build(2 * at + 1, middle, right, room);
  most[at] = std::max(most[2 * at], most[2 * at + 1]);
}

void MemoryUse::change(size_t at, int32_t left, int32_t right, int32_t begin, int32_t end,
                       int64_t bytes) {
  if (begin <= left && right <= end) {
    most[at] += bytes;
    added[at] += bytes;
    return;
  }
  int32_t middle = left + (right - left) / 2;
  if (begin < middle)
    change(2 * at, left, middle, begin, end, bytes);
  if (end > middle)
    change(2 * at + 1, middle, right, begin, end, bytes);
  most[at] = std::max(most[2 * at], most[2 * at + 1]) + added[at];
}

int64_t MemoryUse::maxRange(size_t at, int32_t left, int32_t right, int32_t begin,
                            int32_t end) const {
  if (begin <= left && right <= end)
    return most[at];
  int32_t middle = left + (right - left) / 2;
  int64_t result = INT64_MIN / 2;
  if (begin < middle)
    result = std::max(result, maxRange(2 * at, left, middle, begin, end));
  if (end > middle)
    result = std::max(result, maxRange(2 * at + 1, middle, right, begin, end));
  return result + added[at];
}

void MemoryUse::addRange(int32_t begin, int32_t end, int64_t bytes) {
  if (bytes != 0 && begin < end)
    change(1, 0, times, begin, end, bytes);
}

void MemoryUse::add(const ReducedNode &node, int32_t k, int64_t sign) {
  for (size_t p = 0; p < node.memory.pieces.size(); ++p)
    addRange(node.memory.pieces[p].begin, node.memory.pieces[p].end,
             sign * node.memory.bytes[p * node.cost.size() + static_cast<size_t>(k)]);
}

int64_t MemoryUse::overAfter(const ReducedNode &node, int32_t k) {
  int64_t result = INT64_MIN / 2;
  add(node, k, 1);
  for (const Piece &piece : node.memory.pieces)
    result = std::max(result, maxRange(1, 0, times, piece.begin, piece.end));
  add(node, k, -1);
  return result;
}

} // namespace autopar::planner
