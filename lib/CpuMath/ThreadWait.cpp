// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/CpuMath/ThreadWait.h"

#include <cstdlib>
#include <string>
#include <unistd.h>

void autopar::cpumath::waitBriefly(char **argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY"))
    return;
  setenv("GOMP_SPINCOUNT", std::to_string(kThreadWaitRounds).c_str(), 1);
  execv("/proc/self/exe", argv);
}
