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
  /// Where NCCL's ids lie while they are under way. Outlives the host's communicator, which may
  /// still write there when others did not come in time.
  std::vector<uint8_t> *ids = nullptr;
  NcclPlan plan;
  int32_t ranksOfProcess = 1; ///< that communicate by NCCL
  /// Asked while ranks are waited for: not Ok ends it.
  std::function<Status()> verdict;
  std::chrono::milliseconds timeout{60000}; ///< for others to arrive
};

/// Returns when all communicators are ready. All ranks of the world call it. NoDevice where the
/// library is missing.
Result<std::unique_ptr<Communicator>> createNcclCommunicator(NcclOptions options);

} // namespace autopar::runtime
