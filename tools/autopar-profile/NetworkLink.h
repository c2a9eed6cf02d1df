// SPDX-License-Identifier: Apache-2.0
// The network between hosts, measured by ranks that a launcher started: one process for each device
// of each host.
#pragma once

#include "ProfileOptions.h"

#include "autopar/Cost/Cluster.h"
#include "autopar/Runtime/Launch.h"

namespace autopar::tools {

/// As many hosts as the ranks stand on, each as `host` says, and the level that joins them. All
/// ranks call it and get the same. Mismatch: the hosts have not as many ranks as `host` devices, or
/// their ranks are not numbered host by host.
Result<Cluster> measureHosts(const Cluster &host, runtime::World &world,
                             const ProfileOptions &options);

} // namespace autopar::tools
