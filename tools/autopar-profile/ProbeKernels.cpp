// SPDX-License-Identifier: Apache-2.0
// Takes the built shared object into this program.
#include "ProbeKernels.h"

asm(".section .rodata\n"
    ".balign 64\n"
    "autoparProbeKernelsBegin:\n"
    ".incbin \"" AUTOPAR_PROBE_KERNELS "\"\n"
    "autoparProbeKernelsEnd:\n"
    ".previous\n");

extern "C" const uint8_t autoparProbeKernelsBegin[], autoparProbeKernelsEnd[];

namespace autopar::tools {

std::span<const uint8_t> probeKernels() {
  return {autoparProbeKernelsBegin, autoparProbeKernelsEnd};
}

} // namespace autopar::tools
