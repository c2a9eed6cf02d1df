// SPDX-License-Identifier: Apache-2.0
// What the ranks of an emulated communicator share: files in a folder, so that they may be threads
// or processes. A file is there at once and whole, or not at all.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace emulated {

class SharedFolder {
public:
  explicit SharedFolder(std::string path) : path(std::move(path)) {}
  void create() const;
  void put(const std::string &name, const void *data, size_t bytes) const;
  bool has(const std::string &name) const;
  std::vector<uint8_t> get(const std::string &name) const;
  void remove(const std::string &name) const;
  /// The folder with all that is in it.
  void removeAll() const;

private:
  std::string path;
};

/// Adds, multiplies or compares `count` elements of NCCL's type into `sum`; false for a type or
/// operation that NCCL does not have.
bool reduceInto(uint8_t *sum, const uint8_t *more, uint64_t count, int type, int operation);
/// Bytes of an element of NCCL's type; 0: there is none such.
uint64_t bytesOfType(int type);

} // namespace emulated
