// SPDX-License-Identifier: Apache-2.0
// What a CUDA artifact asks of a machine, and how its header says it.
#pragma once

#include "autopar/Base/Status.h"

#include <string>

namespace autopar::artifact {

/// In the header's feature field: "ptx8.0+sm_80+sm_90".
struct CudaTarget {
  int ptxMajor = 8, ptxMinor = 0; ///< version of the PTX text: a driver of CUDA 12.0 or newer
  int leastChip = 80;             ///< the PTX runs on GPUs from this compute capability (x 10) on
  int chip = 80;                  ///< that the plan and the cubin are for

  std::string toText() const;
  static Result<CudaTarget> parse(const std::string &text);
  bool operator==(const CudaTarget &) const = default;
};

} // namespace autopar::artifact
