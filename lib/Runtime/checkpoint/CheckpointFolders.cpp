// SPDX-License-Identifier: Apache-2.0
#include "CheckpointFolders.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autopar::runtime {

static Status cannot(const std::string &verb, const std::string &path, StatusCode code) {
  return {code, "cannot " + verb + " " + path + ": " + std::strerror(errno)};
}

Status makeFolders(const std::string &path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    std::string part = path.substr(0, slash);
    if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST)
      return cannot("create", part, StatusCode::CannotCreate);
    if (slash == std::string::npos)
      return Status::ok();
  }
}

Status removeFolder(const std::string &path) {
  for (const std::string &name : listFolder(path))
    if (unlink((path + "/" + name).c_str()) != 0)
      return cannot("remove", path + "/" + name, StatusCode::IoError);
  if (rmdir(path.c_str()) != 0 && errno != ENOENT)
    return cannot("remove", path, StatusCode::IoError);
  return Status::ok();
}

std::vector<std::string> listFolder(const std::string &path) {
  std::vector<std::string> names;
  DIR *folder = opendir(path.c_str());
  if (!folder)
    return names;
  while (dirent *entry = readdir(folder))
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
  closedir(folder);
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace autopar::runtime
