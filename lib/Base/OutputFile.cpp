// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/OutputFile.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

std::string autopar::placeBeside(const std::string &path, const std::string &suffix) {
  std::error_code ignored; // whoever opens the file says what is wrong
  auto status = std::filesystem::status(path, ignored);
  bool isElse = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
                !std::filesystem::is_directory(status);
  return isElse ? path : path + suffix;
}

autopar::Status autopar::flushStandardOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return Status::ok();
  return Status::ioError(std::string("cannot write to standard output") +
                         (errno ? std::string(": ") + std::strerror(errno) : ""));
}
