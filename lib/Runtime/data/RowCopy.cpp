// SPDX-License-Identifier: Apache-2.0
// Runs of the last dimension, one after the other.
#include "RowCopy.h"

#include <cstring>

namespace autopar::runtime {
namespace {

bool isUnsigned(DataType type) { return type >= DataType::U8 && type <= DataType::U64; }

template <typename T>
int64_t loadAs(const uint8_t *at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return int64_t(value);
}

int64_t load(DataType type, const uint8_t *at) {
  switch (type) {
  case DataType::I8:
    return loadAs<int8_t>(at);
  case DataType::I16:
    return loadAs<int16_t>(at);
  case DataType::I32:
    return loadAs<int32_t>(at);
  case DataType::U8:
    return loadAs<uint8_t>(at);
  case DataType::U16:
    return loadAs<uint16_t>(at);
  case DataType::U32:
    return loadAs<uint32_t>(at);
  default:
    return loadAs<int64_t>(at);
  }
}

void copyRun(const uint8_t *from, DataType fromType, int64_t count, DataType toType, uint8_t *to) {
  int64_t fromBytes = byteSize(fromType), toBytes = byteSize(toType);
  if (fromType == toType) {
    std::memcpy(to, from, size_t(count * fromBytes));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = load(fromType, from + i * fromBytes);
    std::memcpy(to + i * toBytes, &value, size_t(toBytes)); // little-endian: the low bytes
  }
}

} // namespace

bool isInteger(DataType type) { return type >= DataType::I8 && type <= DataType::U64; }

bool widens(DataType from, DataType to) {
  if (from == to)
    return true;
  if (!isInteger(from) || !isInteger(to) || byteSize(from) >= byteSize(to))
    return false;
  return isUnsigned(from) || !isUnsigned(to);
}

void copyRowBox(const uint8_t *row, DataType from, const std::vector<int64_t> &shape,
                const std::vector<int64_t> &offset, const std::vector<int64_t> &extent,
                size_t first, DataType to, uint8_t *out) {
  if (first == shape.size())
    return copyRun(row, from, 1, to, out);
  if (first + 1 == shape.size())
    return copyRun(row + offset[first] * byteSize(from), from, extent[first], to, out);
  int64_t inner = 1, innerOut = 1;
  for (size_t d = first + 1; d < shape.size(); ++d) {
    inner *= shape[d];
    innerOut *= extent[d];
  }
  for (int64_t i = 0; i < extent[first]; ++i)
    copyRowBox(row + (offset[first] + i) * inner * byteSize(from), from, shape, offset, extent,
               first + 1, to, out + i * innerOut * byteSize(to));
}

} // namespace autopar::runtime
