// SPDX-License-Identifier: Apache-2.0
// What cuDNN does for a device: the library's handle and its plans, one for all calls of one
// geometry. The library compiles each, and the layers of a model are alike.
#pragma once

#include "CudnnAttention.h"
#include "CudnnConvolution.h"
#include "Gpu.h"

#include <optional>
#include <vector>

namespace autopar::runtime::cuda {

/// Of one GPU, whose context is current in every call.
class CudnnPlans {
public:
  explicit CudnnPlans(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)) {}
  ~CudnnPlans();
  CudnnPlans(const CudnnPlans &) = delete;
  CudnnPlans &operator=(const CudnnPlans &) = delete;

  /// NoDevice where the library is missing, Mismatch where it has no such attention.
  Result<const CudnnAttention *> attention(const artifact::AttentionGeometry &geometry);
  /// The same, also where no engine is content with `mostWorkspace` bytes.
  Result<const CudnnConvolution *> convolution(const artifact::ConvolutionGeometry &geometry,
                                               int64_t mostWorkspace);

private:
  Status open(const std::string &what, const std::string &without);

  std::shared_ptr<Gpu> gpu;
  std::optional<const CudnnCalls *> calls;
  CudnnHandle handle = nullptr;
  struct AttentionPlan {
    artifact::AttentionGeometry geometry;
    std::unique_ptr<CudnnAttention> plan;
  };
  struct ConvolutionPlan {
    artifact::ConvolutionGeometry geometry;
    int64_t mostWorkspace;
    std::unique_ptr<CudnnConvolution> plan;
  };
  std::vector<AttentionPlan> attentions;
  std::vector<ConvolutionPlan> convolutions;
};

} // namespace autopar::runtime::cuda
