// SPDX-License-Identifier: Apache-2.0
// Writing and reading safetensors headers.
#include "autopar/Runtime/SafetensorsFile.h"

#include "autopar/Artifact/Verify.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>

namespace autopar::runtime {
namespace {

using nlohmann::ordered_json;

constexpr struct {
  const char *word;
  DataType dtype;
} kWords[] = {
    {"BOOL", DataType::Bool},
    {"I8", DataType::I8},
    {"I16", DataType::I16},
    {"I32", DataType::I32},
    {"I64", DataType::I64},
    {"U8", DataType::U8},
    {"U16", DataType::U16},
    {"U32", DataType::U32},
    {"U64", DataType::U64},
    {"F16", DataType::F16},
    {"BF16", DataType::BF16},
    {"F32", DataType::F32},
    {"F64", DataType::F64},
    {"F8_E4M3", DataType::F8E4M3FN},
    {"F8_E5M2", DataType::F8E5M2},
    {"F8_E4M3FNUZ", DataType::F8E4M3FNUZ},
    {"F8_E5M2FNUZ", DataType::F8E5M2FNUZ},
};

std::optional<DataType> typeFromWord(const std::string &word) {
  for (const auto &row : kWords)
    if (word == row.word)
      return row.dtype;
  return std::nullopt;
}

const char *wordOf(DataType dtype) {
  for (const auto &row : kWords)
    if (row.dtype == dtype)
      return row.word;
  return "";
}

/// Readers may want tensors aligned; the header is padded with blanks.
constexpr size_t kAlignment = 64;

} // namespace

std::string layOutSafetensors(std::vector<SafetensorsEntry> &entries) {
  ordered_json header = ordered_json::object();
  int64_t at = 0;
  for (SafetensorsEntry &entry : entries) {
    int64_t bytes = artifact::checkedBytes(entry.shape, entry.dtype).value_or(0);
    entry.begin = at;
    entry.end = at += bytes;
    header[entry.name] = {{"dtype", wordOf(entry.dtype)},
                          {"shape", entry.shape},
                          {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = header.dump();
  text.append((kAlignment - (8 + text.size()) % kAlignment) % kAlignment, ' ');
  uint64_t length = text.size();
  std::string front(8, '\0');
  std::memcpy(front.data(), &length, 8);
  front += text;
  for (SafetensorsEntry &entry : entries) {
    entry.begin += int64_t(front.size());
    entry.end += int64_t(front.size());
  }
  return front;
}

Result<std::map<std::string, SafetensorsEntry>> readSafetensors(const uint8_t *bytes, size_t size) {
  uint64_t length = 0;
  if (size < 8)
    return Status::badInput("too short for a safetensors file");
  std::memcpy(&length, bytes, 8);
  if (length > size - 8)
    return Status::badInput("the header is cut off");
  auto json = nlohmann::json::parse(bytes + 8, bytes + 8 + length, nullptr, false);
  if (!json.is_object())
    return Status::badInput("the header is no JSON object");
  std::map<std::string, SafetensorsEntry> entries;
  for (const auto &[name, value] : json.items()) {
    if (name == "__metadata__")
      continue;
    auto bad = [&](const std::string &what) {
      return Status::badInput("tensor " + name + ": " + what);
    };
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string() ||
        !value.contains("shape") || !value["shape"].is_array() || !value.contains("data_offsets") ||
        !value["data_offsets"].is_array() || value["data_offsets"].size() != 2)
      return bad("expected dtype, shape and data_offsets");
    SafetensorsEntry entry;
    entry.name = name;
    auto word = value["dtype"].get<std::string>();
    auto dtype = typeFromWord(word);
    if (!dtype)
      return bad("unknown dtype " + word);
    entry.dtype = *dtype;
    for (const auto &extent : value["shape"]) {
      if (!extent.is_number_unsigned())
        return bad("extents must be whole numbers");
      entry.shape.push_back(extent.get<int64_t>());
    }
    for (const auto &offset : value["data_offsets"])
      if (!offset.is_number_unsigned())
        return bad("data_offsets must be whole numbers");
    auto begin = value["data_offsets"][0].get<uint64_t>();
    auto end = value["data_offsets"][1].get<uint64_t>();
    auto expected = artifact::checkedBytes(entry.shape, entry.dtype);
    uint64_t data = size - 8 - length;
    if (!expected || begin > end || end > data || end - begin != uint64_t(*expected))
      return bad("its bytes do not fit its shape or the file");
    entry.begin = int64_t(8 + length + begin);
    entry.end = int64_t(8 + length + end);
    entries[name] = std::move(entry);
  }
  return entries;
}

} // namespace autopar::runtime
