// SPDX-License-Identifier: Apache-2.0
// How files come to their place: complete or not at all.
#pragma once

#include "autopar/Base/Status.h"

#include <string>

namespace autopar {

/// Where the bytes of `path` are written before they are moved to it: `path` with `suffix`, or
/// `path` itself where something else than a file stands. A device such as /dev/null is written to
/// and not replaced.
std::string placeBeside(const std::string &path, const std::string &suffix);

/// An error where something that was printed did not get out, such as to a file on a full disk.
Status flushStandardOutput();

} // namespace autopar
