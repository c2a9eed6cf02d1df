// SPDX-License-Identifier: Apache-2.0
#include "PlacedBuffers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <limits>

using namespace mlir::exec;

//===-- ground -----------------------------------------------------------------------------===//

SolidGround::SolidGround(size_t times, int64_t base, int64_t threshold)
    : leaves(llvm::PowerOf2Ceil(std::max<size_t>(times, 1))), threshold(threshold),
      nodes(2 * leaves, Range{base, base}) {}

int64_t SolidGround::highest(size_t node, size_t begin, size_t end, size_t first,
                             size_t last) const {
  const Range &range = nodes[node];
  if (range.low == range.high || (first <= begin && end <= last + 1))
    return range.high;
  size_t middle = (begin + end) / 2;
  if (last < middle)
    return highest(2 * node, begin, middle, first, last);
  if (first >= middle)
    return highest(2 * node + 1, middle, end, first, last);
  return std::max(highest(2 * node, begin, middle, first, last),
                  highest(2 * node + 1, middle, end, first, last));
}

void SolidGround::add(size_t node, size_t begin, size_t end, size_t first, size_t last,
                      int64_t offset, int64_t top) {
  Range &range = nodes[node];
  bool isApart = end <= first || last < begin;
  if (isApart || range.high + threshold <= offset || range.low >= top)
    return;
  bool isWithin = first <= begin && end <= last + 1;
  if (isWithin && range.low + threshold > offset && range.high <= top) {
    range = {top, top};
    return;
  }
  if (range.low == range.high)
    nodes[2 * node] = nodes[2 * node + 1] = range;
  size_t middle = (begin + end) / 2;
  add(2 * node, begin, middle, first, last, offset, top);
  add(2 * node + 1, middle, end, first, last, offset, top);
  const Range &left = nodes[2 * node], &right = nodes[2 * node + 1];
  range = {std::min(left.low, right.low), std::max(left.high, right.high)};
}

//===-- buffers ----------------------------------------------------------------------------===//

PlacedBuffers::PlacedBuffers(const std::vector<Lifetime> &lifetimes, int64_t base) : base(base) {
  // Whoever lives between one begin and the next one also lives at the first of them, so that
  // begins are all the times there are.
  std::vector<int64_t> begins;
  for (const Lifetime &lifetime : lifetimes)
    begins.push_back(lifetime.first);
  llvm::sort(begins);
  begins.erase(llvm::unique(begins), begins.end());
  times = begins.size();
  placeIn.resize(lifetimes.size());
  for (auto [index, lifetime] : llvm::enumerate(lifetimes)) {
    size_t first = llvm::lower_bound(begins, lifetime.first) - begins.begin();
    size_t last = llvm::upper_bound(begins, lifetime.last) - begins.begin() - 1;
    buffers.push_back({first, last});
    size_t number = llvm::Log2_64(last - first + 1);
    if (groups.size() <= number)
      groups.resize(number + 1);
    groups[number].byFirst.push_back(index);
    groups[number].longest = std::max(groups[number].longest, last - first + 1);
  }
  for (auto [number, group] : llvm::enumerate(groups)) {
    llvm::sort(group.byFirst, [&](size_t a, size_t b) {
      return std::make_pair(buffers[a].first, a) < std::make_pair(buffers[b].first, b);
    });
    for (auto [leaf, index] : llvm::enumerate(group.byFirst))
      placeIn[index] = {number, leaf};
    group.leaves = llvm::PowerOf2Ceil(std::max<size_t>(group.byFirst.size(), 1));
    group.bytes.assign(2 * group.leaves, {std::numeric_limits<int64_t>::max(), base});
  }
}

/// Whether one of the leaves [begin, end) may live at the same time as the buffer.
bool PlacedBuffers::mayMeet(const Group &group, size_t begin, size_t end,
                            const Placed &buffer) const {
  if (begin >= group.byFirst.size())
    return false;
  size_t back = std::min(end, group.byFirst.size()) - 1;
  return buffers[group.byFirst[begin]].first <= buffer.last &&
         buffers[group.byFirst[back]].first + group.longest > buffer.first;
}

/// Raises `offset` over what `bytes` there meet on the way through the leaves [begin, end) under a
/// node.
void PlacedBuffers::climb(const Group &group, size_t node, size_t begin, size_t end,
                          const Placed &buffer, int64_t bytes, bool backwards,
                          int64_t &offset) const {
  const Bytes &under = group.bytes[node];
  if (under.end <= offset || under.offset >= offset + bytes || !mayMeet(group, begin, end, buffer))
    return;
  if (node >= group.leaves) {
    const Placed &other = buffers[group.byFirst[begin]];
    if (other.last >= buffer.first)
      offset = other.end;
    return;
  }
  size_t middle = (begin + end) / 2;
  if (backwards)
    climb(group, 2 * node + 1, middle, end, buffer, bytes, backwards, offset);
  climb(group, 2 * node, begin, middle, buffer, bytes, backwards, offset);
  if (!backwards)
    climb(group, 2 * node + 1, middle, end, buffer, bytes, backwards, offset);
}

/// Collects what meets the buffer and has bytes within `range`, among the leaves [begin, end) under
/// a node.
void PlacedBuffers::collect(const Group &group, size_t node, size_t begin, size_t end,
                            const Placed &buffer, Bytes range,
                            std::vector<const Placed *> &met) const {
  const Bytes &under = group.bytes[node];
  if (under.end <= range.offset || under.offset >= range.end || !mayMeet(group, begin, end, buffer))
    return;
  if (node >= group.leaves) {
    const Placed &other = buffers[group.byFirst[begin]];
    if (other.last >= buffer.first)
      met.push_back(&other);
    return;
  }
  size_t middle = (begin + end) / 2;
  collect(group, 2 * node, begin, middle, buffer, range, met);
  collect(group, 2 * node + 1, middle, end, buffer, range, met);
}

/// A smaller buffer fits where no larger one did, so that the ground is another one; it is computed
/// anew where sizes fall below a power of two.
void PlacedBuffers::renewGround(int64_t bytes) {
  threshold = int64_t(1) << llvm::Log2_64(std::max<int64_t>(bytes, 1));
  ground = SolidGround(times, base, threshold);
  std::vector<size_t> byOffset = placed;
  llvm::sort(byOffset, [&](size_t a, size_t b) { return buffers[a].offset < buffers[b].offset; });
  for (size_t index : byOffset) {
    const Placed &buffer = buffers[index];
    ground.add(buffer.first, buffer.last, buffer.offset, buffer.end);
  }
}

int64_t PlacedBuffers::place(size_t index, int64_t bytes) {
  if (threshold == 0 || bytes < threshold)
    renewGround(bytes);
  Placed &buffer = buffers[index];
  int64_t offset = ground.highest(buffer.first, buffer.last);
  // No hole is skipped: below the end of what is met nothing fits. Walks in both directions of time
  // climb most stacks at once.
  constexpr int kWalks = 4;
  bool isFree = false;
  for (int walk = 0; walk < kWalks && !isFree; ++walk) {
    int64_t before = offset;
    for (const Group &group : groups)
      climb(group, 1, 0, group.leaves, buffer, bytes, walk % 2 == 1, offset);
    isFree = offset == before;
  }
  // The rest of what is met is looked at in windows, as most of it lies above the first hole that
  // fits.
  for (int64_t window = 4 * bytes; !isFree; window *= 4) {
    Bytes range{offset, offset + window};
    std::vector<const Placed *> met;
    for (const Group &group : groups)
      collect(group, 1, 0, group.leaves, buffer, range, met);
    llvm::sort(met, [](const Placed *a, const Placed *b) { return a->offset < b->offset; });
    for (const Placed *other : met) {
      if (other->offset >= offset + bytes)
        break;
      offset = std::max(offset, other->end);
    }
    isFree = offset + bytes <= range.end;
  }
  buffer.offset = offset;
  buffer.end = offset + bytes;
  placed.push_back(index);
  auto [number, leaf] = placeIn[index];
  Group &group = groups[number];
  for (size_t node = group.leaves + leaf; node > 0; node /= 2) {
    Bytes &under = group.bytes[node];
    under = {std::min(under.offset, buffer.offset), std::max(under.end, buffer.end)};
  }
  ground.add(buffer.first, buffer.last, buffer.offset, buffer.end);
  return offset;
}
