// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/OutputFile.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>
#include <utility>

namespace autopar {

namespace {

/// Where the bytes go first.
std::string placeBeside(const std::string &path) {
  std::error_code ignored; // whoever opens the file says what is wrong
  auto status = std::filesystem::status(path, ignored);
  bool isElse = std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
  return isElse ? path : path + ".tmp." + std::to_string(getpid());
}

/// A link stays, what it leads to is replaced.
std::string behindLinks(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error))
    return path;
  std::filesystem::path target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

Status cannot(const char *verb, StatusCode code, const std::string &path) {
  return {code, std::string("cannot ") + verb + " '" + path + "': " + std::strerror(errno)};
}

/// Waits until it is on disk. Devices and some file systems keep nothing.
bool isSynced(int descriptor) {
  return fsync(descriptor) == 0 || errno == EINVAL || errno == ENOTSUP;
}

constexpr size_t kGathered = 1 << 16;

} // namespace

OutputFile::OutputFile(std::string path, std::string temporary, int descriptor)
    : path(std::move(path)), temporary(std::move(temporary)), descriptor(descriptor) {}

Result<std::unique_ptr<OutputFile>> OutputFile::create(const std::string &named) {
  std::string path = behindLinks(named);
  std::string temporary = placeBeside(path);
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored)) {
    errno = EISDIR;
    return cannot("create", StatusCode::CannotCreate, path);
  }
  int descriptor = open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0)
    return cannot("create", StatusCode::CannotCreate, path);
  return std::unique_ptr<OutputFile>(new OutputFile(path, std::move(temporary), descriptor));
}

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    close(descriptor);
  if (!temporary.empty() && temporary != path)
    unlink(temporary.c_str());
}

bool writeAll(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    bytes.remove_prefix(size_t(written));
  }
  return true;
}

Status OutputFile::writeNow(std::string_view bytes) {
  return writeAll(descriptor, bytes) ? Status::ok() : cannot("write", StatusCode::IoError, path);
}

Status OutputFile::write(std::string_view bytes) {
  if (gathered.size() + bytes.size() < kGathered) {
    gathered += bytes;
    return Status::ok();
  }
  AUTOPAR_RETURN_IF_ERROR(writeNow(gathered));
  gathered.clear();
  return writeNow(bytes);
}

Status OutputFile::finish() {
  AUTOPAR_RETURN_IF_ERROR(writeNow(gathered));
  gathered.clear();
  if (!isSynced(descriptor))
    return cannot("write", StatusCode::IoError, path);
  int closed = close(std::exchange(descriptor, -1));
  if (closed != 0)
    return cannot("write", StatusCode::IoError, path);
  if (temporary != path && rename(temporary.c_str(), path.c_str()) != 0)
    return cannot("create", StatusCode::CannotCreate, path);
  bool isNew = std::exchange(temporary, "") != path;
  return isNew ? syncFolder(std::filesystem::path(path).parent_path()) : Status::ok();
}

Status syncFolder(const std::string &folder) {
  std::string named = folder.empty() ? "." : folder;
  int descriptor = open(named.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 && errno == EACCES)
    return Status::ok(); // files may be made in it, but nobody may look
  if (descriptor < 0)
    return cannot("open", StatusCode::IoError, named);
  Status status = isSynced(descriptor) ? Status::ok() : cannot("write", StatusCode::IoError, named);
  close(descriptor);
  return status;
}

Status writeWholeFile(const std::string &path, std::string_view bytes) {
  auto file = OutputFile::create(path);
  if (!file)
    return file.status();
  AUTOPAR_RETURN_IF_ERROR((*file)->write(bytes));
  return (*file)->finish();
}

Status checkCanCreate(const std::string &path) {
  auto file = OutputFile::create(path);
  return file ? Status::ok() : file.status();
}

void refuseOversizedFiles() {
  // Blocked rather than ignored: LLVM installs a handler of its own later, which dies of it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Status flushStandardOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && !std::ferror(stdout))
    return Status::ok();
  return Status::ioError(std::string("cannot write to standard output") +
                         (errno ? std::string(": ") + std::strerror(errno) : ""));
}

} // namespace autopar
