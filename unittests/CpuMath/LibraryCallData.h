// SPDX-License-Identifier: Apache-2.0
// What library calls are tried on.
#pragma once

#include "autopar/CpuMath/LibraryCalls.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

inline std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float((i * 31 + seed * 17) % 23 - 11) / 11.0f);
  return values;
}

inline int64_t countOf(const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t dim : dims)
    count *= dim;
  return count;
}

struct Free {
  void operator()(void *p) const { std::free(p); }
};
inline std::unique_ptr<void, Free> room(int64_t bytes) {
  return std::unique_ptr<void, Free>(std::aligned_alloc(64, size_t((bytes + 127) / 64 * 64)));
}

/// Whether the library has products of bf16 on this machine; where it has not, that they are
/// refused.
template <typename Call, typename Geometry>
bool multipliesBf16(const Geometry &geometry) {
  if (__builtin_cpu_supports("avx512bw"))
    return true;
  autopar::Status status = Call::create(geometry).status();
  EXPECT_EQ(status.code(), autopar::StatusCode::NoDevice);
  EXPECT_NE(status.message().find("bf16 needs AVX-512"), std::string::npos) << status.message();
  return false;
}

/// Whether this machine sums products of bytes exactly; where it does not, that they are refused.
template <typename Call, typename Geometry>
bool sumsBytes(const Geometry &geometry) {
  if (__builtin_cpu_supports("avx512vnni"))
    return true;
  autopar::Status status = Call::create(geometry).status();
  EXPECT_EQ(status.code(), autopar::StatusCode::Mismatch);
  EXPECT_NE(status.message().find("of 8-bit integers need a CPU with AVX512-VNNI"),
            std::string::npos)
      << status.message();
  return false;
}
