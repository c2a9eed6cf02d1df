// SPDX-License-Identifier: Apache-2.0
// Finds out which launcher started this process, and joins its world.
#pragma once

#include "LaunchOptions.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Rendezvous.h"
#include "autopar/Runtime/Transport.h"

#include <memory>
#include <string>

namespace autopar::tools {

/// What was found in the flags or the environment.
struct Launch {
  enum class Kind { InProcess, Mpi, Tcp, File } kind = Kind::InProcess;
  int32_t rank = 0;
  int32_t worldSize = 1;
  int32_t ranksHere = 0;  ///< 0 = not known
  int32_t localRank = -1; ///< among them; -1 = not known
  std::string host;
  uint16_t port = 0;
  std::string folder;
};

/// First match wins: flags; OpenMPI; torchrun's variables; Slurm. Usage when they are incomplete.
Result<Launch> detectLaunch(const LaunchOptions &options);

/// The connections of a rank; both null in process.
struct World {
  std::unique_ptr<runtime::Rendezvous> rendezvous;
  std::unique_ptr<runtime::Transport> transport;
};
Result<World> joinWorld(const Launch &launch, const LaunchOptions &options);

} // namespace autopar::tools
