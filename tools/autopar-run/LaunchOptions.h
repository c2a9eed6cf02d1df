// SPDX-License-Identifier: Apache-2.0
// The flags of runtime::LaunchOptions. Of every command that launchers start.
#pragma once

#include "autopar/Runtime/Launch.h"

namespace CLI {
class App;
}

namespace autopar::tools {

void addLaunchOptions(CLI::App &app, runtime::LaunchOptions &options);

} // namespace autopar::tools
