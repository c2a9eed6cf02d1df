// SPDX-License-Identifier: Apache-2.0
// Installed memory and the limits of control groups, versions 1 and 2.
#include "MachineMemory.h"

#include <algorithm>
#include <fstream>
#include <unistd.h>

namespace autopar::tools {

Result<int64_t> machineMemoryBytes() {
  int64_t pages = sysconf(_SC_PHYS_PAGES), pageBytes = sysconf(_SC_PAGE_SIZE);
  if (pages <= 0 || pageBytes <= 0)
    return Status(StatusCode::NoDevice, "the system does not say how much memory it has");
  int64_t bytes = pages * pageBytes;
  for (const char *path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    // "max" stands for no limit and is no number.
    int64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0)
      bytes = std::min(bytes, limit);
  }
  return bytes;
}

} // namespace autopar::tools
