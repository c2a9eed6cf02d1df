// SPDX-License-Identifier: Apache-2.0
// The feature text of CUDA artifacts.
#include "autopar/Artifact/CudaTarget.h"

#include <cstdio>

namespace autopar::artifact {

std::string CudaTarget::toText() const {
  return "ptx" + std::to_string(ptxMajor) + "." + std::to_string(ptxMinor) + "+sm_" +
         std::to_string(leastChip) + "+sm_" + std::to_string(chip);
}

Result<CudaTarget> CudaTarget::parse(const std::string &text) {
  CudaTarget target;
  int count = std::sscanf(text.c_str(), "ptx%d.%d+sm_%d+sm_%d", &target.ptxMajor, &target.ptxMinor,
                          &target.leastChip, &target.chip);
  if (count != 4 || target.toText() != text)
    return Status::badInput("the CUDA target '" + text +
                            "' is malformed; expected, for example, ptx8.0+sm_80+sm_90");
  if (target.chip < target.leastChip)
    return Status::badInput("the CUDA target '" + text +
                            "' names a chip that its PTX cannot run on");
  return target;
}

} // namespace autopar::artifact
