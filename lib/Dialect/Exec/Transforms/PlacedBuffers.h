// SPDX-License-Identifier: Apache-2.0
// First fit for many buffers: where the lowest free bytes are for a buffer, among those that have
// a place already and live at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mlir::exec {

/// The time in which a buffer's bytes matter, both ends included.
struct Lifetime {
  int64_t first = 0, last = 0;
};

/// For every time an offset below which nothing of at least `threshold` bytes fits any more.
class SolidGround {
public:
  SolidGround() = default;
  SolidGround(size_t times, int64_t base, int64_t threshold);

  /// The highest ground from time `first` to `last`.
  int64_t highest(size_t first, size_t last) const { return highest(1, 0, leaves, first, last); }
  /// Raises the ground where the bytes from `offset` to `end` leave too little below them.
  void add(size_t first, size_t last, int64_t offset, int64_t end) {
    add(1, 0, leaves, first, last, offset, end);
  }

private:
  int64_t highest(size_t node, size_t begin, size_t end, size_t first, size_t last) const;
  void add(size_t node, size_t begin, size_t end, size_t first, size_t last, int64_t offset,
           int64_t top);

  size_t leaves = 1;
  int64_t threshold = 1;
  struct Range {
    int64_t low, high;
  };
  /// Node 1 is the root; where low is high, the nodes below are not kept.
  std::vector<Range> nodes;
};

/// Buffers that are placed one by one, from large to small as first fit wants it.
class PlacedBuffers {
public:
  /// All the buffers that are to be placed, at offsets from `base` on.
  PlacedBuffers(const std::vector<Lifetime> &lifetimes, int64_t base);

  /// Gives buffer number `index` the lowest `bytes` that are free during its life. Returns the
  /// offset. Fast where no buffer is larger than the one before.
  int64_t place(size_t index, int64_t bytes);

private:
  struct Placed {
    size_t first, last; ///< times, numbered by the buffers that begin in them
    int64_t offset = 0, end = 0;
  };
  struct Bytes {
    int64_t offset, end;
  };
  /// Buffers that live about equally long, by the time at which they begin.
  struct Group {
    size_t longest = 0;
    std::vector<size_t> byFirst;
    size_t leaves = 1;
    std::vector<Bytes> bytes; ///< from the lowest to the highest under a node; 1 is the root
  };
  bool mayMeet(const Group &group, size_t begin, size_t end, const Placed &buffer) const;
  void climb(const Group &group, size_t node, size_t begin, size_t end, const Placed &buffer,
             int64_t bytes, bool backwards, int64_t &offset) const;
  void collect(const Group &group, size_t node, size_t begin, size_t end, const Placed &buffer,
               Bytes range, std::vector<const Placed *> &met) const;
  void renewGround(int64_t bytes);

  int64_t base;
  std::vector<Placed> buffers;
  std::vector<Group> groups;
  std::vector<std::pair<size_t, size_t>> placeIn; ///< group and leaf of each buffer
  std::vector<size_t> placed;
  SolidGround ground;
  size_t times = 0;
  int64_t threshold = 0; ///< of the ground
};

} // namespace mlir::exec
