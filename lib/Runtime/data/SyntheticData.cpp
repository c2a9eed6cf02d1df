// SPDX-License-Identifier: Apache-2.0
// Counter-based numbers per element.
#include "SyntheticData.h"

#include "RowCopy.h"
#include "autopar/Base/Mix.h"
#include "autopar/Runtime/FloatElement.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace autopar::runtime {
namespace {

uint64_t hash(const std::string &text) {
  uint64_t value = 0;
  for (char c : text)
    value = mix(value ^ uint8_t(c));
  return value;
}

/// Close to N(0, 1), without a logarithm and a cosine: the sum of four even numbers (Irwin; Hall,
/// Biometrika 19, 1927), which is within 3.47.
float normal(uint64_t bits) {
  constexpr uint64_t part = 0xffff;
  auto sum = int32_t((bits & part) + (bits >> 16 & part) + (bits >> 32 & part) + (bits >> 48));
  return float(sum - 2 * int32_t(part)) * 2.6428900e-5f; // sqrt(3) / 2^16
}

/// Elements whose bits are those of `counter` and the numbers behind it.
void fillRun(DataType type, uint64_t counter, int64_t count, int64_t bound, uint8_t *out) {
  int64_t size = byteSize(type);
  if (type == DataType::F32) {
    for (int64_t i = 0; i < count; ++i) {
      float value = normal(mix(counter + uint64_t(i)));
      std::memcpy(out + i * size, &value, sizeof(value));
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = mix(counter + uint64_t(i));
    if (isFloat(type)) {
      storeFloat(type, normal(bits), out + i * size);
      continue;
    }
    uint64_t value = bits % uint64_t(bound);
    std::memcpy(out + i * size, &value, size_t(size)); // little-endian: the low bytes
  }
}

constexpr const char *kName = "synthetic";

} // namespace

bool SyntheticData::isMeant(const std::string &path) {
  return path == kName || path.rfind(std::string(kName) + "(", 0) == 0;
}

Result<SyntheticData> SyntheticData::parse(const std::string &path, uint64_t seed) {
  SyntheticData data;
  data.seed = seed;
  if (path == kName)
    return data;
  const std::string before = std::string(kName) + "(vocab=";
  char *end = nullptr;
  if (path.rfind(before, 0) == 0)
    data.vocab = std::strtoll(path.c_str() + before.size(), &end, 10);
  if (!end || std::strcmp(end, ")") != 0 || data.vocab < 1)
    return Status{StatusCode::Usage,
                  "data '" + path + "': expected synthetic or synthetic(vocab=N)"};
  return data;
}

Status SyntheticData::checkVocab(const TensorSpec &input) const {
  if (vocab == 0 || !input.limits || !isInteger(input.dtype) || vocab - 1 <= input.limits->most)
    return Status::ok();
  return Status::badInput("input " + input.name + " takes values up to " +
                          std::to_string(input.limits->most) + "; vocab must be at most " +
                          std::to_string(input.limits->most + 1));
}

int64_t SyntheticData::vocabOf(const TensorSpec &input) const {
  constexpr int64_t usual = 256;
  if (vocab > 0)
    return vocab;
  return input.limits ? std::max<int64_t>(1, input.limits->most + 1) : usual;
}

void SyntheticData::fillRowBox(const TensorSpec &input, int64_t sample, const Box &box,
                               uint8_t *out) const {
  uint64_t key = mix(seed ^ mix(hash(input.name) ^ mix(uint64_t(sample))));
  int64_t bound = input.dtype == DataType::Bool ? 2 : vocabOf(input);
  size_t last = box.extent.size() - 1;
  int64_t run = last > 0 ? box.extent[last] : 1, runs = 1;
  for (size_t d = 1; d < last; ++d)
    runs *= box.extent[d];
  for (int64_t r = 0; r < runs; ++r) {
    // Place in the whole row, so that shards agree.
    int64_t rest = r, place = 0, scale = 1;
    if (last > 0) {
      place = box.offset[last];
      scale = input.shape[last];
    }
    for (size_t d = last; d-- > 1;) {
      place += (box.offset[d] + rest % box.extent[d]) * scale;
      rest /= box.extent[d];
      scale *= input.shape[d];
    }
    fillRun(input.dtype, key + uint64_t(place), run, bound, out + r * run * byteSize(input.dtype));
  }
}

} // namespace autopar::runtime
