// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/InputFile.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <vector>

namespace autopar {

static constexpr size_t kMostBytes = size_t{256} << 20;

static Result<std::string> readToTheEnd(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    return Status::noInput("cannot open '" + path + "': " + std::strerror(errno));
  std::string bytes;
  std::vector<char> block(1 << 20);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    bytes.append(block.data(), static_cast<size_t>(in.gcount()));
    if (bytes.size() > kMostBytes)
      return Status::badInput(
          "cannot read '" + path +
          "': more than 256 MiB, which no plan, cluster, graph or profile has; name another file");
  }
  // A folder opens; reading says that it is one.
  if (in.bad())
    return Status::ioError("cannot read '" + path + "': " + std::strerror(errno));
  return bytes;
}

Result<std::string> readWholeFile(const std::string &path) {
  std::error_code unknown; // to reading, which says why
  if (!std::filesystem::exists(path, unknown) || std::filesystem::is_regular_file(path, unknown))
    return readToTheEnd(path);
  // A pipe gives its bytes once, but a plan's degrees are read before its placements.
  static std::mutex mutex;
  static std::map<std::string, std::string> kept;
  std::lock_guard lock(mutex);
  auto found = kept.find(path);
  if (found != kept.end())
    return found->second;
  Result<std::string> bytes = readToTheEnd(path);
  if (bytes)
    kept[path] = *bytes;
  return bytes;
}

} // namespace autopar
