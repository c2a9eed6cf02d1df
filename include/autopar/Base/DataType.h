// SPDX-License-Identifier: Apache-2.0
// The element types that programs, cost models and files speak of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace autopar {

/// Element types; the numbers are part of the artifact format and never change.
enum class DataType : uint8_t {
  Bool = 0, ///< one byte, 0 or 1
  I8 = 1,
  I16 = 2,
  I32 = 3,
  I64 = 4,
  U8 = 5,
  U16 = 6,
  U32 = 7,
  U64 = 8,
  F16 = 9,
  BF16 = 10,
  F32 = 11,
  F64 = 12,
};

/// Bytes of one element.
int64_t byteSize(DataType type);
/// "f32", "bf16", "i64", "bool", ...
std::string_view name(DataType type);
/// The inverse of name(); nothing for an unknown word.
std::optional<DataType> dataTypeFromName(std::string_view word);

} // namespace autopar
