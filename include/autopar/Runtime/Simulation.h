// SPDX-License-Identifier: Apache-2.0
// An artifact in virtual time: the executors that run it for real, on devices that hold no tensors
// and a network that carries no bytes. What they start takes as long as the cost model says of the
// cluster. One thread; the same times on every machine.
#pragma once

#include "autopar/Artifact/Reader.h"
#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Runtime/Session.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace autopar::runtime {

/// One rank, over all steps that were simulated; loading is none.
struct SimulatedRank {
  int32_t rank = 0;
  int64_t computeNs = 0;   ///< in which its compute queue worked
  int64_t memoryBytes = 0; ///< of the device, as the artifact plans it
};

class Simulation {
public:
  /// Rank i stands on device i of the cluster. Mismatch when the cluster has fewer devices.
  static Result<std::unique_ptr<Simulation>> open(artifact::Reader reader, Cluster cluster,
                                                  bool record);
  ~Simulation();

  /// Simulates a step of all ranks, begun by all at the same time; gives its nanoseconds.
  /// BadInput where ranks disagree about a collective or a message, or wait for each other forever:
  /// the message names them.
  Result<int64_t> runStep(int64_t step);

  const artifact::Reader &reader() const;
  const Cluster &cluster() const;
  std::vector<SimulatedRank> ranks() const;
  /// Instructions that were executed, loading included.
  int64_t instructions() const;
  std::vector<RankEvents> events() const;

private:
  struct State;
  explicit Simulation(std::unique_ptr<State> state);
  std::unique_ptr<State> state;
};

} // namespace autopar::runtime
