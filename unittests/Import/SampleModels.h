// SPDX-License-Identifier: Apache-2.0
// Small ONNX models for tests, written as protobuf text.
#pragma once

#include <string>
#include <vector>

namespace autopar::test {

/// Serialized models that use initializers, subgraphs, functions, sequences, windows and recurrent
/// operators.
std::vector<std::string> sampleModels();

/// A model y = x + w, where w [4] of f32 lies in the external file `location` with further entries
/// ("offset", "4") of its external data.
std::string externalModel(const std::string &location,
                          const std::vector<std::pair<std::string, std::string>> &entries = {});

} // namespace autopar::test
