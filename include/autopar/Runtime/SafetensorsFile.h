// SPDX-License-Identifier: Apache-2.0
// The safetensors format (Hugging Face): eight bytes of header length, a JSON header with type,
// shape and place of every tensor, then their bytes.
#pragma once

#include "autopar/Base/DataType.h"
#include "autopar/Base/Digest.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace autopar::runtime {

struct SafetensorsEntry {
  std::string name;
  DataType dtype = DataType::F32;
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0; ///< bytes of the file
};

/// Lays out a file: `entries` get their places; returns the bytes in front of the data.
std::string layOutSafetensors(std::vector<SafetensorsEntry> &entries);

/// The entries of a file's bytes by name; BadInput says what is wrong with them.
Result<std::map<std::string, SafetensorsEntry>> readSafetensors(const uint8_t *bytes, size_t size);

} // namespace autopar::runtime
