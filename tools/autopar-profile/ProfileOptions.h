// SPDX-License-Identifier: Apache-2.0
// What autopar-profile was asked to do.
#pragma once

#include "../autopar-run/LaunchOptions.h"

#include <cstdint>
#include <string>

namespace autopar::tools {

struct ProfileOptions : runtime::LaunchOptions {
  std::string output;   ///< the cluster file
  std::string hosts;    ///< the cluster file of one host, where a launcher started this on several
  std::string database; ///< the profile database; empty: none
  int32_t ranks = 0;    ///< 0: one per core
  int32_t threads = 0;  ///< per rank; 0: cores divided by ranks
  bool quick = false, quiet = false;
};

/// Parses the command line. Returns -1 to go on, else the exit code (0 after --help and --version).
int parseCommandLine(int argc, char **argv, ProfileOptions &options);

} // namespace autopar::tools
