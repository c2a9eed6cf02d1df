// SPDX-License-Identifier: Apache-2.0
// write, fsync, rename: the steps that a commit is made of.
#include "DurableFile.h"

#include "autopar/Base/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autopar::runtime {

static Status cannot(const std::string &verb, const std::string &path, StatusCode code) {
  return {code, "cannot " + verb + " " + path + ": " + std::strerror(errno)};
}

DurableFile::~DurableFile() {
  if (fd < 0)
    return;
  close(fd);
  unlink(path.c_str());
}

Status DurableFile::create() {
  fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  return fd < 0 ? cannot("create", path, StatusCode::CannotCreate) : Status::ok();
}

Status DurableFile::append(const void *data, size_t bytes) {
  return writeAll(fd, {static_cast<const char *>(data), bytes})
             ? Status::ok()
             : cannot("write", path, StatusCode::IoError);
}

Status DurableFile::finish() {
  if (fsync(fd) != 0)
    return cannot("write", path, StatusCode::IoError);
  close(fd);
  fd = -1;
  return Status::ok();
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

Status syncFolder(const std::string &folder) {
  int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return cannot("open", folder, StatusCode::IoError);
  int failed = fsync(fd);
  Status status = failed ? cannot("write", folder, StatusCode::IoError) : Status::ok();
  close(fd);
  return status;
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
