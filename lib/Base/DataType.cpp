// SPDX-License-Identifier: Apache-2.0
// One table of names and sizes.
#include "autopar/Base/DataType.h"

#include <array>

namespace autopar {
namespace {
struct Row {
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Row, size_t(kLastDataType) + 1> table = {{{"bool", 1},
                                                               {"i8", 1},
                                                               {"i16", 2},
                                                               {"i32", 4},
                                                               {"i64", 8},
                                                               {"u8", 1},
                                                               {"u16", 2},
                                                               {"u32", 4},
                                                               {"u64", 8},
                                                               {"f16", 2},
                                                               {"bf16", 2},
                                                               {"f32", 4},
                                                               {"f64", 8},
                                                               {"f8E4M3FN", 1},
                                                               {"f8E4M3FNUZ", 1},
                                                               {"f8E5M2", 1},
                                                               {"f8E5M2FNUZ", 1},
                                                               {"f4E2M1FN", 1}}};
} // namespace

int64_t byteSize(DataType type) { return table[static_cast<size_t>(type)].bytes; }
std::string_view name(DataType type) { return table[static_cast<size_t>(type)].name; }

std::optional<DataType> dataTypeFromName(std::string_view word) {
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i].name == word)
      return static_cast<DataType>(i);
  return std::nullopt;
}

} // namespace autopar
