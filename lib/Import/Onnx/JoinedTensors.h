// SPDX-License-Identifier: Apache-2.0
// Tensors that an exporter stored once because their values were the same: scales and biases of all
// norms in a model that was never trained, layers that are copies of each other. What its source
// keeps apart is trained apart, and is apart for inference too: the weights of that training go in.
#pragma once

#include "ExportRecords.h"
#include "ModelFile.h"

#include <string>
#include <utility>
#include <vector>

namespace mlir::autopar {

class JoinedTensors {
public:
  JoinedTensors(ModelFile &file, ExportRecords &records, MLIRContext *context)
      : file(file), records(records), context(context) {}

  /// What the source calls the tensor that a node of the main graph reads where the model has
  /// `tensor`; empty: the same.
  std::string readInstead(const autopar_onnx::NodeProto &node,
                          const autopar_onnx::TensorProto &tensor);

  /// Names of the source that may be such a tensor, or tied to the initializer.
  std::vector<std::pair<std::string, std::string>> stillJoined;

private:
  ModelFile &file;
  ExportRecords &records;
  MLIRContext *context;
};

} // namespace mlir::autopar
