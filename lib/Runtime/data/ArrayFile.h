// SPDX-License-Identifier: Apache-2.0
// Named arrays of a data file: raw tokens, .npy, .npz.
#pragma once

#include "MappedFile.h"
#include "autopar/Runtime/Npy.h"

#include <map>

namespace autopar::runtime {

/// Arrays that stay in the mapped file.
struct ArrayFile {
  std::shared_ptr<const MappedFile> file;
  std::map<std::string, NpyView> arrays;
};

/// By the ending of the name: .npz holds arrays under their names; .npy one called "array";
/// anything else raw little-endian numbers of `tokenType` called "tokens", or those of llm.c's
/// header where there is one. BadInput when the file is not what its ending or header says, or ends
/// in the middle of a number.
Result<ArrayFile> openArrayFile(const std::string &path, DataType tokenType);

} // namespace autopar::runtime
