// SPDX-License-Identifier: Apache-2.0
// Which phase a compilation is in, and what it tries: a line that is rewritten where a person
// watches; in a log, one now and then.
#pragma once

#include "autopar/Base/LogPace.h"
#include "autopar/Pipelines/Compile.h"

#include <string>

namespace mlir::autopar {

class PhaseProgress {
public:
  /// Of a compilation with these options, which outlives it.
  explicit PhaseProgress(CompileOptions &options);
  ~PhaseProgress();

private:
  void log(const std::string &detail);

  bool isWatched;
  ::autopar::LogPace pace;
  std::string phase;
};

} // namespace mlir::autopar
