// SPDX-License-Identifier: Apache-2.0
// First fit for many buffers: where the lowest free bytes are for a buffer, among those that have
// a place already and live at the same time.
#pragma once

#include "llvm/ADT/ArrayRef.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mlir::exec {

/// The time in which a buffer's bytes matter, both ends included.
struct Lifetime {
  int64_t first = 0, last = 0;
};

/// Bytes that are taken, as ranges that do not touch, from low to high.
class TakenBytes {
public:
  struct Range {
    int64_t offset, end;
  };
  void add(Range range);
  bool empty() const { return ranges.empty(); }
  /// The lowest offset from `offset` on at which `bytes` are free.
  int64_t lowestFree(int64_t offset, int64_t bytes) const;

private:
  /// The first range that ends at `offset` or above.
  size_t firstUpTo(int64_t offset) const;
  std::vector<Range> ranges;
};

/// Buffers that are placed one by one. A tree over time keeps what is taken: as first fit packs
/// buffers densely, what many of them take together is a few ranges.
class PlacedBuffers {
public:
  /// All the buffers that are to be placed, at offsets from `base` on.
  PlacedBuffers(const std::vector<Lifetime> &lifetimes, int64_t base);

  /// Gives buffer number `index` the lowest `bytes` that are free during its life. Returns the
  /// offset.
  int64_t place(size_t index, int64_t bytes) { return place(llvm::ArrayRef(index), bytes); }
  /// The same for buffers that are to have one place, and do not live at the same time.
  int64_t place(llvm::ArrayRef<size_t> indices, int64_t bytes);
  /// Gives them that place; false where some of it is taken during their lives.
  bool placeAt(int64_t offset, llvm::ArrayRef<size_t> indices, int64_t bytes);

private:
  struct Span {
    size_t first, last; ///< times, numbered by the buffers that begin in them
  };
  /// A part of time.
  struct Node {
    TakenBytes within; ///< by buffers that live in this part and not in all of the one above it
    TakenBytes across; ///< by those of them that live in all of this part
  };
  void collect(size_t node, size_t begin, size_t end, Span life,
               std::vector<const TakenBytes *> &met) const;
  void add(size_t node, size_t begin, size_t end, Span life, TakenBytes::Range range);

  int64_t base;
  std::vector<Span> lives;
  size_t leaves = 1;
  std::vector<Node> nodes; ///< 1 is the root, below number i are 2 i and 2 i + 1
};

} // namespace mlir::exec
