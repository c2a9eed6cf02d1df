// SPDX-License-Identifier: Apache-2.0
// Files and folders that are on disk when the call returns.
#pragma once

#include "autopar/Base/Digest.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::runtime {

/// A file that is written from front to back; removed again unless it was finished.
class DurableFile {
public:
  explicit DurableFile(std::string path) : path(std::move(path)) {}
  ~DurableFile();
  DurableFile(const DurableFile &) = delete;
  DurableFile &operator=(const DurableFile &) = delete;

  Status create();
  Status append(const void *data, size_t bytes);
  /// Waits until the bytes are on disk.
  Status finish();

private:
  std::string path;
  int fd = -1;
};

/// The folder and all that lead to it.
Status makeFolders(const std::string &path);
/// Waits until the names in `folder` are on disk.
Status syncFolder(const std::string &folder);
/// A folder of files, without subfolders; it need not exist.
Status removeFolder(const std::string &path);
/// Names in a folder, sorted; empty when it does not exist.
std::vector<std::string> listFolder(const std::string &path);

} // namespace autopar::runtime
