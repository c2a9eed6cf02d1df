// SPDX-License-Identifier: Apache-2.0
// One pass for the least and the most, a second one only where they are outside.
#include "InputLimits.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

namespace autopar::runtime {
namespace {

using artifact::Limits;

template <typename T>
std::optional<OutsideValue> scan(const Limits &limits, const void *data, int64_t count) {
  auto isOutside = [&](T value) {
    return std::cmp_less(value, limits.least) || std::cmp_greater(value, limits.most);
  };
  constexpr T lowest = std::numeric_limits<T>::min(), highest = std::numeric_limits<T>::max();
  if (!isOutside(lowest) && !isOutside(highest))
    return std::nullopt;
  auto valueAt = [&](int64_t i) { // may not be aligned
    T value;
    std::memcpy(&value, static_cast<const uint8_t *>(data) + i * int64_t(sizeof(T)), sizeof(T));
    return value;
  };
  T least = highest, most = lowest;
  for (int64_t i = 0; i < count; ++i) {
    least = std::min(least, valueAt(i));
    most = std::max(most, valueAt(i));
  }
  if (count == 0 || (!isOutside(least) && !isOutside(most)))
    return std::nullopt;
  for (int64_t i = 0; i < count; ++i) {
    T value = valueAt(i);
    bool isException = limits.exception && std::cmp_equal(value, *limits.exception);
    if (!isOutside(value) || isException)
      continue;
    std::string text = std::to_string(value) + " is out of range: expected " +
                       std::to_string(limits.least) + " to " + std::to_string(limits.most);
    if (limits.exception)
      text += ", or " + std::to_string(*limits.exception);
    return OutsideValue{i, text};
  }
  return std::nullopt;
}

} // namespace

std::optional<OutsideValue> firstOutside(const std::optional<Limits> &limits, DataType dtype,
                                         const void *data, int64_t count) {
  if (!limits)
    return std::nullopt;
  switch (dtype) {
  case DataType::I8:
    return scan<int8_t>(*limits, data, count);
  case DataType::I16:
    return scan<int16_t>(*limits, data, count);
  case DataType::I32:
    return scan<int32_t>(*limits, data, count);
  case DataType::I64:
    return scan<int64_t>(*limits, data, count);
  case DataType::U8:
    return scan<uint8_t>(*limits, data, count);
  case DataType::U16:
    return scan<uint16_t>(*limits, data, count);
  case DataType::U32:
    return scan<uint32_t>(*limits, data, count);
  case DataType::U64:
    return scan<uint64_t>(*limits, data, count);
  default:
    return std::nullopt;
  }
}

std::string indexText(int64_t place, const std::vector<int64_t> &shape) {
  std::string text;
  for (size_t d = shape.size(); d-- > 0;) {
    text = std::to_string(place % shape[d]) + (text.empty() ? "" : ",") + text;
    place /= shape[d];
  }
  return "[" + text + "]";
}

} // namespace autopar::runtime
