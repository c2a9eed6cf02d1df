// SPDX-License-Identifier: Apache-2.0
// A file that is read where it lies: pages come from disk when they are touched.
#pragma once

#include "autopar/Base/Status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace autopar::runtime {

class MappedFile {
public:
  /// NoInput when it cannot be opened, or is no regular file.
  static Result<std::shared_ptr<const MappedFile>> open(const std::string &path);
  ~MappedFile();

  const uint8_t *data() const { return start; }
  size_t size() const { return length; }

private:
  MappedFile() = default;
  const uint8_t *start = nullptr;
  size_t length = 0;
};

} // namespace autopar::runtime
