// SPDX-License-Identifier: Apache-2.0
#include "PlacedBuffers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <utility>

using namespace mlir::exec;

//===-- taken bytes ------------------------------------------------------------------------===//

size_t TakenBytes::firstUpTo(int64_t offset) const {
  auto isBelow = [](const Range &range, int64_t offset) { return range.end < offset; };
  return std::lower_bound(ranges.begin(), ranges.end(), offset, isBelow) - ranges.begin();
}

void TakenBytes::add(Range range) {
  auto first = ranges.begin() + firstUpTo(range.offset), last = first;
  if (first == ranges.end() || first->offset > range.end) {
    ranges.insert(first, range);
    return;
  }
  while (last != ranges.end() && last->offset <= range.end)
    ++last;
  *first = {std::min(first->offset, range.offset), std::max(std::prev(last)->end, range.end)};
  ranges.erase(std::next(first), last);
}

int64_t TakenBytes::lowestFree(int64_t offset, int64_t bytes) const {
  for (size_t i = firstUpTo(offset); i < ranges.size() && ranges[i].offset < offset + bytes; ++i)
    offset = std::max(offset, ranges[i].end);
  return offset;
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
  for (const Lifetime &lifetime : lifetimes) {
    size_t first = llvm::lower_bound(begins, lifetime.first) - begins.begin();
    size_t last = llvm::upper_bound(begins, lifetime.last) - begins.begin() - 1;
    lives.push_back({first, last});
  }
  leaves = llvm::PowerOf2Ceil(std::max<size_t>(begins.size(), 1));
  nodes.resize(2 * leaves);
}

/// Collects what all that live at the same time as `life` take, from the times [begin, end) of a
/// node.
void PlacedBuffers::collect(size_t node, size_t begin, size_t end, Span life,
                            std::vector<const TakenBytes *> &met) const {
  if (end <= life.first || life.last < begin)
    return;
  bool isAll = life.first <= begin && end <= life.last + 1;
  const TakenBytes &taken = isAll ? nodes[node].within : nodes[node].across;
  if (!taken.empty())
    met.push_back(&taken);
  if (isAll)
    return;
  size_t middle = (begin + end) / 2;
  collect(2 * node, begin, middle, life, met);
  collect(2 * node + 1, middle, end, life, met);
}

void PlacedBuffers::add(size_t node, size_t begin, size_t end, Span life, TakenBytes::Range range) {
  if (end <= life.first || life.last < begin)
    return;
  nodes[node].within.add(range);
  if (life.first <= begin && end <= life.last + 1) {
    nodes[node].across.add(range);
    return;
  }
  size_t middle = (begin + end) / 2;
  add(2 * node, begin, middle, life, range);
  add(2 * node + 1, middle, end, life, range);
}

bool PlacedBuffers::placeAt(int64_t offset, llvm::ArrayRef<size_t> indices, int64_t bytes) {
  std::vector<const TakenBytes *> met;
  for (size_t index : indices)
    collect(1, 0, leaves, lives[index], met);
  for (const TakenBytes *taken : met)
    if (taken->lowestFree(offset, bytes) != offset)
      return false;
  for (size_t index : indices)
    add(1, 0, leaves, lives[index], {offset, offset + bytes});
  return true;
}

int64_t PlacedBuffers::place(llvm::ArrayRef<size_t> indices, int64_t bytes) {
  std::vector<const TakenBytes *> met;
  for (size_t index : indices)
    collect(1, 0, leaves, lives[index], met);
  int64_t offset = base;
  // Until all that are met have agreed, one behind the other.
  for (size_t next = 0, agreed = 0; agreed < met.size(); next = (next + 1) % met.size()) {
    int64_t before = std::exchange(offset, met[next]->lowestFree(offset, bytes));
    agreed = offset == before ? agreed + 1 : 1;
  }
  for (size_t index : indices)
    add(1, 0, leaves, lives[index], {offset, offset + bytes});
  return offset;
}
