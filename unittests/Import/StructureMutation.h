// SPDX-License-Identifier: Apache-2.0
// Mutation of models above the wire format.
#pragma once

#include <random>
#include <string>

namespace autopar::test {

/// The serialized model with one to three fields changed, removed or repeated; still a valid
/// protobuf.
std::string mutateStructure(const std::string &bytes, std::mt19937_64 &random);

} // namespace autopar::test
