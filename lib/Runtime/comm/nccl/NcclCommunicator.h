// SPDX-License-Identifier: Apache-2.0
// A communicator between the memories of CUDA devices, by NCCL: one rank per GPU.
#pragma once

#include "NcclPlan.h"
#include "autopar/Runtime/Communicator.h"
#include "autopar/Runtime/Device.h"

#include <chrono>
#include <functional>
#include <memory>

namespace autopar::runtime {

struct NcclOptions {
  Communicator *host =
      nullptr;              ///< of the same ranks; carries NCCL's ids. Outlives the communicator
  Device *device = nullptr; ///< a CUDA device that outlives the communicator
  NcclPlan plan;
  /// Asked while ranks are waited for: not Ok ends it.
  std::function<Status()> verdict;
  std::chrono::milliseconds timeout{60000}; ///< for others to arrive
};

/// Returns when all communicators are ready. All ranks of the world call it. NoDevice where the
/// library is missing.
Result<std::unique_ptr<Communicator>> createNcclCommunicator(NcclOptions options);

} // namespace autopar::runtime
