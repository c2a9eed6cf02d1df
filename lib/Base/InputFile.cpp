// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/InputFile.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <vector>

namespace autopar {

static constexpr size_t kMostBytes = size_t{256} << 20;

Result<std::string> readWholeFile(const std::string &path) {
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

} // namespace autopar
