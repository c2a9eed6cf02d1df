// SPDX-License-Identifier: Apache-2.0
// Weights that an exporter stored a second time. An embedding that is also the output matrix (tied
// weights), or a layer that is used again, is one parameter in its source; exporters that compute
// transposes ahead write several, which training would drive apart.
#pragma once

#include "ExportRecords.h"
#include "ModelFile.h"

#include "mlir/IR/BuiltinTypes.h"

#include <vector>

namespace mlir::autopar {

class RepeatedWeights {
public:
  RepeatedWeights(ModelFile &file, const ExportRecords &records, MLIRContext *context)
      : file(file), records(records), context(context) {}

  /// The initializer that another one repeats, as it is or transposed; null where it repeats none.
  struct Original {
    const autopar_onnx::TensorProto *tensor = nullptr;
    bool isTransposed = false;
  };
  /// To be asked of the weights of a model in the order in which its nodes read them: of those that
  /// are alike the first is the original.
  Original originalOf(const autopar_onnx::TensorProto &tensor, RankedTensorType type,
                      const TensorPlace &place);

private:
  const autopar_onnx::TensorProto *findTransposed(const autopar_onnx::TensorProto &tensor,
                                                  RankedTensorType type, const TensorPlace &place);
  const autopar_onnx::TensorProto *findComputedAlike(const autopar_onnx::TensorProto &tensor,
                                                     RankedTensorType type,
                                                     const TensorPlace &place);

  ModelFile &file;
  const ExportRecords &records;
  MLIRContext *context;
  /// What the exporter computed from one tensor of the source alone, by its name.
  llvm::StringMap<std::vector<const autopar_onnx::TensorProto *>> computed;
};

} // namespace mlir::autopar
