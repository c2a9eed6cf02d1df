// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/OutputFile.h"

#include <filesystem>

std::string autopar::placeBeside(const std::string &path, const std::string &suffix) {
  std::error_code ignored; // whoever opens the file says what is wrong
  auto status = std::filesystem::status(path, ignored);
  bool isElse = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
                !std::filesystem::is_directory(status);
  return isElse ? path : path + suffix;
}
