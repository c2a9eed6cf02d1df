// SPDX-License-Identifier: Apache-2.0
// Floats of any width through double.
#include "autopar/Runtime/FloatElement.h"

#include "autopar/Base/Bf16.h"
#include "autopar/Base/ByteFloat.h"

#include <cstdint>
#include <cstring>

namespace autopar::runtime {
namespace {

template <typename T>
double loadAs(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return double(value);
}

template <typename T>
void put(T value, void *to) {
  std::memcpy(to, &value, sizeof(T));
}

} // namespace

double loadFloat(DataType dtype, const void *from) {
  if (isByteFloat(dtype))
    return decodeByteFloat(dtype, *static_cast<const uint8_t *>(from));
  switch (dtype) {
  case DataType::F64:
    return loadAs<double>(from);
  case DataType::F32:
    return loadAs<float>(from);
  case DataType::F16:
    return double(float(loadAs<_Float16>(from)));
  default:
    uint16_t bits;
    std::memcpy(&bits, from, 2);
    return fromBf16(bits);
  }
}

void storeFloat(DataType dtype, double value, void *to) {
  if (isByteFloat(dtype))
    return put(encodeByteFloat(dtype, value), to);
  switch (dtype) {
  case DataType::F64:
    return put(value, to);
  case DataType::F32:
    return put(float(value), to);
  case DataType::F16:
    return put(_Float16(float(value)), to);
  case DataType::BF16:
    return put(toBf16(float(value)), to);
  default:
    std::memset(to, 0, size_t(byteSize(dtype)));
  }
}

} // namespace autopar::runtime
