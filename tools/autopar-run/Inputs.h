// SPDX-License-Identifier: Apache-2.0
// The --input words: files, or made-up data when asked for.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Runtime/Session.h"

#include <string>
#include <vector>

namespace autopar::tools {

/// Applies "name=file.npy", "name=zeros", "name=random" words. "random" is N(0, 1) for floats and
/// small non-negative numbers for integers, the same on every rank.
Status setInputs(runtime::Session &session, const std::vector<std::string> &words);

/// <folder>/<name>.npy for every output; characters that no file name takes become '_'.
Status writeOutputs(const runtime::Session &session, const std::string &folder);

} // namespace autopar::tools
