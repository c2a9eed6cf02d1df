// SPDX-License-Identifier: Apache-2.0
// Programs of one instruction for tests of the CUDA device: their buffers, and numbers of all types
// to put there.
#pragma once

#include "TestDevice.h"
#include "autopar/Base/ByteFloat.h"

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

namespace autopar::testing {

inline int32_t addBuffer(artifact::Program &program, int64_t elements, DataType dtype,
                         artifact::Space space = artifact::Space::Device) {
  artifact::Buffer buffer;
  buffer.name = "b" + std::to_string(program.buffers.size());
  buffer.space = space;
  buffer.dtype = dtype;
  buffer.shape = {elements};
  buffer.bytes = elements * byteSize(dtype);
  buffer.offset = program.arenaBytes[size_t(space)];
  program.arenaBytes[size_t(space)] += (buffer.bytes + 255) / 256 * 256;
  program.buffers.push_back(buffer);
  return int32_t(program.buffers.size() - 1);
}

/// Waits for what was issued.
inline void finish(runtime::Device &device, Result<runtime::Token> token) {
  ASSERT_TRUE(token.isOk()) << token.status().message();
  // A GPU at rest takes a while to start; asking costs less than a microsecond.
  using Clock = std::chrono::steady_clock;
  for (auto end = Clock::now() + std::chrono::seconds(20); Clock::now() < end;) {
    auto done = device.test(*token);
    ASSERT_TRUE(done.isOk()) << done.status().message();
    if (*done)
      return;
  }
  FAIL() << "stuck";
}

inline std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float((i * 31 + seed * 17) % 23 - 11) / 8.0f);
  return values;
}

inline std::vector<uint8_t> encode(const std::vector<float> &values, DataType dtype) {
  std::vector<uint8_t> bytes(values.size() * size_t(byteSize(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t bits;
    double wide = double(values[i]);
    _Float16 half = _Float16(values[i]);
    std::memcpy(&bits, &values[i], 4);
    uint16_t brief = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    uint8_t byte = isByteFloat(dtype) ? encodeByteFloat(dtype, wide) : 0;
    const void *from = isByteFloat(dtype)       ? static_cast<void *>(&byte)
                       : dtype == DataType::F64 ? static_cast<void *>(&wide)
                       : dtype == DataType::F32 ? static_cast<void *>(&bits)
                       : dtype == DataType::F16 ? static_cast<void *>(&half)
                                                : &brief;
    std::memcpy(bytes.data() + i * size_t(byteSize(dtype)), from, size_t(byteSize(dtype)));
  }
  return bytes;
}

inline double decode(const uint8_t *at, DataType dtype) {
  if (isByteFloat(dtype))
    return decodeByteFloat(dtype, *at);
  if (dtype == DataType::F64) {
    double d;
    std::memcpy(&d, at, 8);
    return d;
  }
  if (dtype == DataType::F16) {
    _Float16 h;
    std::memcpy(&h, at, 2);
    return double(h);
  }
  uint32_t bits = 0;
  if (dtype == DataType::F32)
    std::memcpy(&bits, at, 4);
  else
    std::memcpy(reinterpret_cast<uint8_t *>(&bits) + 2, at, 2);
  float f;
  std::memcpy(&f, &bits, 4);
  return double(f);
}

} // namespace autopar::testing
