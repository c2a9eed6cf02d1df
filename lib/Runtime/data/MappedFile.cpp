// SPDX-License-Identifier: Apache-2.0
// Files mapped read-only.
#include "MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autopar::runtime {

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); // a pipe does not wait
  if (fd < 0)
    return Status::noInput("cannot open " + path + ": " + std::strerror(errno));
  struct stat info {};
  std::shared_ptr<MappedFile> file(new MappedFile);
  Status status;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    status = Status::noInput("cannot open " + path + ": not a regular file");
  } else if (info.st_size > 0) {
    void *mapping = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
      status = Status::noInput("cannot map " + path + ": " + std::strerror(errno));
    } else {
      file->start = static_cast<const uint8_t *>(mapping);
      file->length = size_t(info.st_size);
    }
  }
  close(fd);
  if (!status.isOk())
    return status;
  return std::shared_ptr<const MappedFile>(std::move(file));
}

MappedFile::~MappedFile() {
  if (start)
    munmap(const_cast<uint8_t *>(start), length);
}

} // namespace autopar::runtime
