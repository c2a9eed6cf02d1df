// SPDX-License-Identifier: Apache-2.0
// The flags of autopar-compile.
#pragma once

#include "autopar/Pipelines/Compile.h"

namespace mlir::autopar {

enum class Explain { No, Text, Json };

struct CommandLine {
  CompileOptions compile;
  Explain explain = Explain::No;
  std::vector<std::string> compare; ///< two plans to compare instead of compiling
  bool quiet = false;
};

/// Parses the command line. Usage errors name the flag and say what it expects. Ends the process
/// for --help and --version only.
::autopar::Result<CommandLine> parseCommandLine(int argc, char **argv);

} // namespace mlir::autopar
