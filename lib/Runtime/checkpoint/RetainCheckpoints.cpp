// SPDX-License-Identifier: Apache-2.0
// Old checkpoints make room. One that is being removed has another name first, so that what has the
// name of a checkpoint is whole.
#include "autopar/Runtime/Checkpoint.h"

#include "CheckpointFolders.h"
#include "CheckpointIndex.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace autopar::runtime {

Status keepNewestCheckpoints(const std::string &folder, int64_t count) {
  std::vector<std::string> whole = checkpointsIn(folder);
  for (size_t i = 0; int64_t(i + size_t(count)) < int64_t(whole.size()); ++i) {
    std::string path = folder + "/" + whole[i], going = path + ".partial";
    AUTOPAR_RETURN_IF_ERROR(removeFolder(going));
    if (std::rename(path.c_str(), going.c_str()) != 0)
      return Status::ioError("cannot rename " + path + ": " + std::strerror(errno));
    AUTOPAR_RETURN_IF_ERROR(removeFolder(going));
  }
  return Status::ok();
}

} // namespace autopar::runtime
