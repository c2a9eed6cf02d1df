// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "CudnnPlans.h"

namespace autopar::runtime::cuda {

CudnnPlans::~CudnnPlans() {
  attentions.clear();
  convolutions.clear();
  if (handle)
    (*calls)->destroy(handle);
}

Status CudnnPlans::open(const std::string &what, const std::string &without) {
  if (calls)
    return Status::ok();
  auto found = gpu->all().cudnn(what, without);
  if (!found)
    return found.status().at(gpu->text());
  calls = *found;
  return checkCudnn(**calls, (*calls)->create(&handle), gpu->text() + ": cudnnCreate");
}

Result<const CudnnAttention *> CudnnPlans::attention(const artifact::AttentionGeometry &geometry) {
  AUTOPAR_RETURN_IF_ERROR(open("attention", "--attention products"));
  for (const AttentionPlan &known : attentions)
    if (known.geometry == geometry)
      return known.plan.get();
  auto made = CudnnAttention::create(*gpu, **calls, handle, geometry);
  if (!made)
    return made.status().at(gpu->text());
  attentions.push_back({geometry, made.take()});
  return attentions.back().plan.get();
}

Result<const CudnnConvolution *>
CudnnPlans::convolution(const artifact::ConvolutionGeometry &geometry, int64_t mostWorkspace) {
  AUTOPAR_RETURN_IF_ERROR(open("convolutions", "--convolutions kernels"));
  for (const ConvolutionPlan &known : convolutions)
    if (known.mostWorkspace == mostWorkspace && known.geometry == geometry)
      return known.plan.get();
  auto made = CudnnConvolution::create(**calls, handle, geometry, mostWorkspace);
  if (!made)
    return made.status().at(gpu->text());
  convolutions.push_back({geometry, mostWorkspace, made.take()});
  return convolutions.back().plan.get();
}

} // namespace autopar::runtime::cuda
