// SPDX-License-Identifier: Apache-2.0
// The outputs of all steps of a program that keeps nothing from step to step: one file each, the
// samples in the order in which they were read.
#pragma once

#include "autopar/Runtime/Npy.h"
#include "autopar/Runtime/Session.h"

namespace autopar::tools {

class StackedOutputs {
public:
  /// In `folder`, for so many steps of `batch` samples each, of which `samples` are wanted: the
  /// last step may read more. Files appear with finish().
  static Result<StackedOutputs> create(const runtime::Session &session, const std::string &folder,
                                       int64_t steps, int64_t batch, int64_t samples);

  /// Those of the step that the session ran last, which it has collected.
  Status add(const runtime::Session &session);
  Status finish();

private:
  struct Stack {
    runtime::TensorSpec output;
    runtime::NpyWriter file;
    bool isOfSamples; ///< has a row per sample; else all of it is a row
    int64_t rowBytes;
  };
  std::vector<Stack> stacks;
  int64_t batch = 0, left = 0; ///< samples
};

} // namespace autopar::tools
