// SPDX-License-Identifier: Apache-2.0
// A trained model as an ONNX file: what its source was, with other values in its weights.
#pragma once

#include "autopar/Base/DataType.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlir {
class MLIRContext;
}

namespace mlir::autopar {

/// A tensor in rows. The bytes are the caller's.
struct Weight {
  ::autopar::DataType dtype;
  std::vector<int64_t> shape;
  std::string_view bytes;
};

/// What the adapters among weights are: alpha / rank A^T B^T is added to a matrix.
struct AdapterSizes {
  int64_t rank = 8;
  double alpha = 8;
};

/// Writes the model in the file `path` to `output`, with `weights`, by the names that autopar-run
/// --export gives them, in place of those that it holds. What an exporter stored twice gets its
/// value in both places, what it stored once for several parameters is stored apart again, and
/// other tensors stay as they are. Adapters are added to the matrices beside which they were
/// trained where `adapters` says what they are, and are weights like others where it does not.
/// Where the model has external data, all of it goes to `output`.data. BadInput where a weight is
/// none of the model's, or of another type or shape.
::autopar::Status writeWeights(const std::string &path,
                               const std::map<std::string, Weight> &weights,
                               const std::optional<AdapterSizes> &adapters,
                               const std::string &output, MLIRContext &context);

} // namespace mlir::autopar
