// SPDX-License-Identifier: Apache-2.0
// Attention of the artifact's geometry, or its gradient, by cuDNN.
#pragma once

#include "CudnnGraph.h"
#include "Gpu.h"
#include "autopar/Artifact/CudaScratch.h"
#include "autopar/Artifact/Program.h"

#include <memory>
#include <vector>

namespace autopar::runtime::cuda {

/// Describes attention to cuDNN. The library knows its kernels by the form of the graph: these
/// operations in this order, and no others (docs/rationale/CudnnGraphs.md).
class CudnnAttentionGraph {
public:
  CudnnAttentionGraph(const CudnnCalls &calls, const artifact::AttentionGeometry &geometry);

  CudnnGraph &graph() { return described; }

  /// Where a tensor of the graph lies when it runs.
  enum class Place {
    Input,
    Output,
    QueryGradient,
    RowSums,
    Scale,
    Hidden,
    One,
    Queries,
    Keys,
    Window
  };
  struct Address {
    int64_t id;
    Place place;
    size_t number; ///< of inputs and outputs
  };
  const std::vector<Address> &addresses() const { return all; }

private:
  using Tensor = CudnnGraph::Tensor;
  void forward();
  void backward();
  Tensor operand(size_t number, Place place, size_t at, bool isTransposed = false);
  Tensor rows(Place place, size_t at);
  Tensor number(Place place, CudnnType numberType = CudnnType::F32);
  Tensor scaled(const Tensor &x);
  /// With the bias, which is input `at`.
  Tensor biased(const Tensor &x, size_t at);
  /// -inf where no key is seen.
  Tensor hidden(const Tensor &x);
  /// -inf before the window that a row sees.
  Tensor hiddenBefore(const Tensor &x);
  /// The weights' product with rows of queries, summed over the heads that share keys and values.
  void productForGroups(const Tensor &weights, const Tensor &rowsOfQueries, const Tensor &result);

  const artifact::AttentionGeometry &g;
  CudnnGraph described;
  std::vector<Address> all;
  CudnnType type;
  int64_t batch, heads, groups, queries, keys, depth, valueDepth;
  CudnnGraph::Dims scoreDims, rowDims;
  Tensor scale;
};

class CudnnAttention {
public:
  /// Mismatch where cuDNN has no such attention. The GPU outlives it.
  static Result<std::unique_ptr<CudnnAttention>>
  create(const Gpu &gpu, const CudnnCalls &calls, CudnnHandle handle,
         const artifact::AttentionGeometry &geometry);

  int64_t workspaceBytes() const { return own.total() + plan->workspaceBytes(); }
  /// `inputs` and `outputs` in the order of artifact::Attention.
  Status run(const std::vector<DevicePointer> &inputs, const std::vector<DevicePointer> &outputs,
             DevicePointer workspace, Stream stream) const;

private:
  /// Rows of a gradient that cuDNN does not write: of one head, in bytes.
  struct HiddenRows {
    size_t output;
    int64_t offset, pitch, width, count;
  };
  explicit CudnnAttention(const Gpu &gpu) : gpu(gpu) {}
  void findHiddenRows(const artifact::AttentionGeometry &geometry);

  const Gpu &gpu;
  std::vector<HiddenRows> hiddenRows;
  std::vector<CudnnAttentionGraph::Address> addresses;
  std::vector<int64_t> ids;
  std::unique_ptr<CudnnPlan> plan;
  artifact::CudaGradientSums own; ///< at the start of the workspace
  float scale = 1;
  int32_t queries = 0, keys = 0;
  float window = 0; ///< a row sees columns that are beyond it when this is added
};

} // namespace autopar::runtime::cuda
