// SPDX-License-Identifier: Apache-2.0
// Folders of checkpoints.
#pragma once

#include "autopar/Base/Status.h"

#include <string>
#include <vector>

namespace autopar::runtime {

/// The folder and all that lead to it.
Status makeFolders(const std::string &path);
/// A folder of files, without subfolders; it need not exist.
Status removeFolder(const std::string &path);
/// Names in a folder, sorted; empty when it does not exist.
std::vector<std::string> listFolder(const std::string &path);

} // namespace autopar::runtime
