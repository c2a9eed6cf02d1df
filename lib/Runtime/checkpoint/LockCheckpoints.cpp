// SPDX-License-Identifier: Apache-2.0
// The folder itself is locked, so that nothing lies in it for it; the system lets go of it however
// the process ends.
#include "autopar/Runtime/Checkpoint.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace autopar::runtime {

Result<std::shared_ptr<void>> lockCheckpoints(const std::string &folder) {
  int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return Status::noInput("cannot open " + folder + ": " + std::strerror(errno));
  std::shared_ptr<void> lock(nullptr, [fd](void *) { close(fd); });
  // File systems that lock nothing are used without.
  if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Status{StatusCode::CannotCreate, "another run keeps its checkpoints in " + folder +
                                                "; end it, or give this one a folder of its own"};
  return lock;
}

} // namespace autopar::runtime
