// SPDX-License-Identifier: Apache-2.0
// Counter-based numbers per element.
#include "SyntheticData.h"

#include "autopar/Base/Mix.h"
#include "autopar/Runtime/FloatElement.h"

#include <algorithm>
#include <cmath>
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

/// Box and Muller, 1958.
double normal(uint64_t bits) {
  double u = (double(bits >> 11) + 0.5) * 0x1.0p-53, v = double(mix(bits) >> 11) * 0x1.0p-53;
  return std::sqrt(-2 * std::log(u)) * std::cos(2 * 3.14159265358979323846 * v);
}

void store(DataType type, uint64_t bits, int64_t vocab, uint8_t *out) {
  if (isFloat(type))
    return storeFloat(type, normal(bits), out);
  uint64_t value = bits % uint64_t(type == DataType::Bool ? 2 : vocab);
  std::memcpy(out, &value, size_t(byteSize(type))); // little-endian: the low bytes
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

static bool isInteger(DataType type) { return type >= DataType::I8 && type <= DataType::U64; }

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
  int64_t count = 1, bound = vocabOf(input);
  for (size_t d = 1; d < box.extent.size(); ++d)
    count *= box.extent[d];
  for (int64_t i = 0; i < count; ++i) {
    // Place in the whole row, so that shards agree.
    int64_t rest = i, place = 0, scale = 1;
    for (size_t d = box.extent.size(); d-- > 1;) {
      place += (box.offset[d] + rest % box.extent[d]) * scale;
      rest /= box.extent[d];
      scale *= input.shape[d];
    }
    store(input.dtype, mix(key + uint64_t(place)), bound, out + i * byteSize(input.dtype));
  }
}

} // namespace autopar::runtime
