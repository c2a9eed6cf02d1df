// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters of a file of weights, added to the matrices of the model beside which they were
// trained (include/autopar/Training/Adapters.h).
#pragma once

#include "autopar/Import/Onnx/WriteWeights.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringRef.h"

namespace autopar_onnx {
class GraphProto;
class NodeProto;
class TensorProto;
} // namespace autopar_onnx

namespace mlir::autopar {

class MergeAdapters {
public:
  /// BadInput where there is none, one of a pair is missing, or their shapes do not fit.
  static ::autopar::Result<MergeAdapters> of(const std::map<std::string, Weight> &weights,
                                             const AdapterSizes &sizes);

  /// The names in the file of what belongs to a matrix; empty where it has no adapter.
  std::vector<std::string> namesFor(StringRef matrix) const;
  /// Adds the adapter of `matrix` to the values of `tensor`, in rows, which lie in it as the nodes
  /// of `graph` read it. BadInput where no node multiplies by it, or others read it, too.
  ::autopar::Status addTo(const autopar_onnx::TensorProto &tensor, StringRef matrix,
                          const autopar_onnx::GraphProto &graph, std::string &values) const;

private:
  struct Pair {
    const Weight *a = nullptr, *b = nullptr; ///< [rank, in] and [out, rank]
  };
  std::map<std::string, Pair> pairs; ///< by the module that has the matrix
  double scale = 1;
};

} // namespace mlir::autopar
