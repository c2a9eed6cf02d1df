// SPDX-License-Identifier: Apache-2.0
// How files that people write are read: whole, if they are of a size that people write.
#pragma once

#include "autopar/Base/Status.h"

#include <string>

namespace autopar {

/// The whole file as bytes. What is no regular file, such as a pipe, is read once in the life of a
/// process: whoever asks again for that path gets the same. NoInput where it cannot be opened,
/// IoError where it cannot be read, BadInput where it has more than 256 MiB: plans, clusters and
/// profiles have far less, and a device has no end.
Result<std::string> readWholeFile(const std::string &path);

} // namespace autopar
