// SPDX-License-Identifier: Apache-2.0
// Who this process is among many, and how it finds the others, where flags say so. Of every command
// that launchers start.
#pragma once

#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace autopar::tools {

struct LaunchOptions {
  int32_t rank = -1, worldSize = -1;
  std::string master;     ///< host:port
  std::string rendezvous; ///< file:///folder
  double hangTimeoutSeconds = 10;
  double arrivalTimeoutSeconds = 60;
};

void addLaunchOptions(CLI::App &app, LaunchOptions &options);

} // namespace autopar::tools
