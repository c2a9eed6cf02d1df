// SPDX-License-Identifier: Apache-2.0
// What a rank holds from load on: parameters, state, and what load makes of parameters. Each has an
// identity, by which programs that run in one process find what they may hold once.
#pragma once

#include "autopar/Artifact/Reader.h"

#include <functional>
#include <string>
#include <vector>

namespace autopar::artifact {

/// Equal identities: the same bytes after load, whichever of the programs loads them; of a state
/// the same thing, whatever it has become.
struct LastingValue {
  int32_t buffer = -1; ///< no view
  Digest identity;
};

/// What is not in the artifact.
struct LastingFacts {
  /// The layout in words that a Pack writes on this machine; empty: it is not to be told.
  std::function<std::string(const Pack &)> layoutOf;
  /// Where a parameter comes from instead of its source; empty: from its source.
  std::function<std::string(const Port &)> replacedBy;
};

/// Those of a rank, each once. What nothing identifies is left out.
std::vector<LastingValue> lastingValues(const Reader &reader, int32_t rank,
                                        const LastingFacts &facts);

} // namespace autopar::artifact
