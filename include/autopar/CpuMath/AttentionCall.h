// SPDX-License-Identifier: Apache-2.0
// Attention of the artifact as a call of the CPU's own kernel.
#pragma once

#include "autopar/CpuMath/Attention.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

namespace autopar::cpumath {

/// Attention, or its gradient, for one geometry and number of threads.
class AttentionCall {
public:
  static Result<AttentionCall> create(const artifact::AttentionGeometry &geometry, int threads);

  int64_t scratchBytes() const { return scratch; }
  /// `inputs` and `outputs` in the order of artifact::Attention.
  void run(void *const *inputs, void *const *outputs, void *scratch) const;

private:
  AttentionShape shape;
  int threads = 1;
  bool isGradient = false;
  int64_t scratch = 0;
};

} // namespace autopar::cpumath
