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

/// `has`; where this machine has not what the geometry needs, that it is refused in these words.
template <typename Call, typename Geometry>
bool hasOrRefuses(bool has, const Geometry &geometry, autopar::StatusCode code, const char *words) {
  if (has)
    return true;
  autopar::Status status = Call::create(geometry).status();
  EXPECT_EQ(status.code(), code);
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  return false;
}

/// Whether the library has products of bf16 on this machine.
template <typename Call, typename Geometry>
bool multipliesBf16(const Geometry &geometry) {
  return hasOrRefuses<Call>(__builtin_cpu_supports("avx512bw"), geometry,
                            autopar::StatusCode::NoDevice, "bf16 needs AVX-512");
}

/// Whether this machine sums products of bytes exactly.
template <typename Call, typename Geometry>
bool sumsBytes(const Geometry &geometry) {
  return hasOrRefuses<Call>(__builtin_cpu_supports("avx512vnni"), geometry,
                            autopar::StatusCode::Mismatch,
                            "of 8-bit integers need a CPU with AVX512-VNNI");
}
