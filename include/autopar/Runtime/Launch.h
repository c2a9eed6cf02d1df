// SPDX-License-Identifier: Apache-2.0
// Finds out which launcher started this process, and joins its world.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Runtime/Rendezvous.h"
#include "autopar/Runtime/Transport.h"

#include <cstdint>
#include <memory>
#include <string>

namespace autopar::runtime {

/// Who this process is among many, and how it finds the others, where its user says so instead of a
/// launcher.
struct LaunchOptions {
  int32_t rank = -1, worldSize = -1;
  std::string master;     ///< host:port
  std::string rendezvous; ///< file:///folder
  double hangTimeoutSeconds = 10;
  double arrivalTimeoutSeconds = 60;
};

/// What was found in the options or the environment.
struct LaunchedRank {
  enum class Kind { InProcess, Mpi, Tcp, File } kind = Kind::InProcess;
  int32_t rank = 0;
  int32_t worldSize = 1;
  int32_t ranksHere = 0;  ///< 0 = not known
  int32_t localRank = -1; ///< among them; -1 = not known
  std::string host;
  uint16_t port = 0;
  std::string folder;
};

/// First match wins: options; OpenMPI; torchrun's variables; Slurm. Usage when they are incomplete.
Result<LaunchedRank> detectLaunch(const LaunchOptions &options);

/// The connections of a rank; both null in process.
struct World {
  std::unique_ptr<Rendezvous> rendezvous;
  std::unique_ptr<Transport> transport;

  /// Tells all ranks that this one fails, and why.
  void fail(const Status &reason);
};
Result<World> joinWorld(const LaunchedRank &launch, const LaunchOptions &options);

/// A transport of its own for each session of a process: they run one at a time, on all ranks in
/// the same order, so the messages of all go through the transport of the world, which stays as
/// long as one of them.
std::unique_ptr<Transport> shareTransport(std::shared_ptr<World> world);

} // namespace autopar::runtime
