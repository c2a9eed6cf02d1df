// SPDX-License-Identifier: Apache-2.0
// A convolution of the artifact's geometry, or the gradient of one, by cuDNN.
#pragma once

#include "CudnnGraph.h"
#include "autopar/Artifact/Program.h"

#include <memory>

namespace autopar::runtime::cuda {

/// The graph of one operation. Its tensors are x, w and y of the geometry, with identities 1, 2, 3.
CudnnGraph describeConvolution(const CudnnCalls &calls,
                               const artifact::ConvolutionGeometry &geometry);

/// Engines that keep the precision of the types (f32 is not computed in TF32, nothing is summed in
/// less than f32), yield the same bits every time and fit the workspace.
CudnnChoice convolutionChoice(const artifact::ConvolutionGeometry &geometry, int64_t mostWorkspace);

class CudnnConvolution {
public:
  /// Mismatch where cuDNN has no such convolution within the workspace.
  static Result<std::unique_ptr<CudnnConvolution>>
  create(const CudnnCalls &calls, CudnnHandle handle, const artifact::ConvolutionGeometry &geometry,
         int64_t mostWorkspace);

  int64_t workspaceBytes() const { return plan->workspaceBytes(); }
  Status run(DevicePointer x, DevicePointer w, DevicePointer y, DevicePointer workspace,
             Stream stream) const;

private:
  std::unique_ptr<CudnnPlan> plan;
};

} // namespace autopar::runtime::cuda
