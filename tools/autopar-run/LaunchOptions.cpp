// SPDX-License-Identifier: Apache-2.0
#include "LaunchOptions.h"

#include <CLI/CLI.hpp>

namespace autopar::tools {

void addLaunchOptions(CLI::App &app, runtime::LaunchOptions &options) {
  app.add_option("--rank", options.rank, "this process is that rank (with --world-size)");
  app.add_option("--world-size", options.worldSize, "number of ranks");
  app.add_option("--master", options.master, "HOST:PORT of rank 0");
  app.add_option("--rendezvous", options.rendezvous,
                 "file:///folder that all ranks share, empty at the start");
  app.add_option("--hang-timeout", options.hangTimeoutSeconds,
                 "seconds without a heartbeat until a rank counts as stuck")
      ->check(CLI::Range(0.5, 86400.0));
  app.add_option("--arrival-timeout", options.arrivalTimeoutSeconds,
                 "seconds to wait for all ranks to arrive")
      ->check(CLI::Range(0.5, 86400.0));
}

} // namespace autopar::tools
