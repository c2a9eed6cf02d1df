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
  // Of 8 bits and less; a byte each, those of 4 bits in its lower half. E and M count the bits of
  // exponent and mantissa; ONNX's data types of these names say which bits are NaN and infinite.
  F8E4M3FN = 13,
  F8E4M3FNUZ = 14,
  F8E5M2 = 15,
  F8E5M2FNUZ = 16,
  F4E2M1FN = 17,
};
/// The one with the greatest number.
constexpr DataType kLastDataType = DataType::F4E2M1FN;

/// Whether elements are of a float type.
constexpr bool isFloat(DataType type) { return type >= DataType::F16; }
/// Whether they are floats of 8 bits or less.
constexpr bool isByteFloat(DataType type) { return type >= DataType::F8E4M3FN; }

/// Bytes of one element.
int64_t byteSize(DataType type);
/// "f32", "bf16", "i64", "bool", "f8E4M3FN", ...
std::string_view name(DataType type);
/// The inverse of name(); nothing for an unknown word.
std::optional<DataType> dataTypeFromName(std::string_view word);

} // namespace autopar
