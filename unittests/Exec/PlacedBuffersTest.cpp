// SPDX-License-Identifier: Apache-2.0
#include "PlacedBuffers.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace mlir::exec;

namespace {

struct Buffer {
  Lifetime life;
  int64_t bytes, offset = -1;
};

/// First fit by looking at all buffers.
int64_t lowestOffset(const std::vector<Buffer> &placed, const Buffer &next, int64_t base) {
  int64_t offset = base;
  for (bool isMoved = true; isMoved;) {
    isMoved = false;
    for (const Buffer &other : placed) {
      bool meets = other.life.first <= next.life.last && next.life.first <= other.life.last;
      if (meets && other.offset < offset + next.bytes && offset < other.offset + other.bytes) {
        offset = other.offset + other.bytes;
        isMoved = true;
      }
    }
  }
  return offset;
}

/// Buffers of a training step: some live across it as a stack of activations does, most shortly.
std::vector<Buffer> randomBuffers(std::mt19937 &random, bool isSorted) {
  std::vector<Buffer> buffers;
  int64_t times = 1 + random() % 120;
  for (size_t count = 1 + random() % 100; count > 0; --count) {
    int64_t first = random() % times, length = random() % (random() % 3 == 0 ? times : 4);
    int64_t last = random() % 4 == 0 ? std::max(first, times - first) : first + length;
    buffers.push_back({{first, last}, 1 + int64_t(random() % (random() % 2 == 0 ? 8 : 300))});
  }
  if (isSorted)
    std::sort(buffers.begin(), buffers.end(),
              [](const Buffer &a, const Buffer &b) { return a.bytes > b.bytes; });
  return buffers;
}

class PlacedBuffersInOrder : public testing::TestWithParam<bool> {};

TEST_P(PlacedBuffersInOrder, TakeTheLowestFreeBytes) {
  std::mt19937 random(7);
  for (int problem = 0; problem < 300; ++problem) {
    std::vector<Buffer> buffers = randomBuffers(random, GetParam()), placed;
    std::vector<Lifetime> lifetimes;
    for (const Buffer &buffer : buffers)
      lifetimes.push_back(buffer.life);
    int64_t base = random() % 3;
    PlacedBuffers fast(lifetimes, base);
    for (size_t index = 0; index < buffers.size(); ++index) {
      Buffer &buffer = buffers[index];
      buffer.offset = fast.place(index, buffer.bytes);
      ASSERT_EQ(buffer.offset, lowestOffset(placed, buffer, base))
          << "problem " << problem << ", buffer " << index;
      placed.push_back(buffer);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, PlacedBuffersInOrder, testing::Values(true, false),
                         [](const auto &info) { return info.param ? "Falling" : "Mixed"; });

} // namespace
