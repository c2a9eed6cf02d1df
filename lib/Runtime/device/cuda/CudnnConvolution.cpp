// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "CudnnConvolution.h"

#include "autopar/Artifact/Verify.h"

namespace autopar::runtime::cuda {

using artifact::ConvolutionGeometry;
using artifact::ConvolutionKind;
using artifact::Layout;
using Dims = CudnnGraph::Dims;

static Status refuse(const std::string &why) {
  return Status::mismatch("cuDNN has no such convolution: " + why +
                          "; compile the model with --convolutions kernels");
}

/// What the library's engines take; other things do not get here, they are kernels.
static Status verify(const ConvolutionGeometry &g) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  if (g.xType != g.wType || g.xType != g.yType)
    return refuse("of several types");
  if (g.xLayout != Layout::Plain || g.yLayout != Layout::Plain || g.packedW)
    return refuse("on blocks of channels");
  if (g.hasBias || g.hasResidual || g.epilogue != artifact::Epilogue::None)
    return refuse("with an epilogue");
  for (const Dims *dims : {&g.x, &g.w, &g.y})
    for (int64_t dim : *dims)
      if (dim == 0)
        return refuse("of an empty tensor");
  for (const Dims *pads : {&g.padsBegin, &g.padsEnd})
    for (int64_t pad : *pads)
      if (pad < 0)
        return refuse("with a negative padding");
  return Status::ok();
}

/// The library knows two and three spatial dimensions.
static Dims widened(Dims values, size_t dim, int64_t value) {
  values.insert(values.begin() + ptrdiff_t(dim), value);
  return values;
}

CudnnGraph describeConvolution(const CudnnCalls &calls, const ConvolutionGeometry &g) {
  bool isFlat = g.strides.size() == 1;
  CudnnType type = g.xType == DataType::F32   ? CudnnType::F32
                   : g.xType == DataType::F16 ? CudnnType::F16
                                              : CudnnType::BF16;
  CudnnGraph graph(calls);
  auto tensor = [&](const Dims &shape) {
    Dims dims = isFlat ? widened(shape, 2, 1) : shape;
    return graph.stored(type, dims, CudnnGraph::dense(dims));
  };
  CudnnGraph::Window window{g.strides, g.padsBegin, g.padsEnd, g.dilations};
  if (isFlat)
    window = {widened(g.strides, 0, 1), widened(g.padsBegin, 0, 0), widened(g.padsEnd, 0, 0),
              widened(g.dilations, 0, 1)};
  CudnnGraph::Tensor x = tensor(g.x), w = tensor(g.w), y = tensor(g.y);
  if (g.kind == ConvolutionKind::InputGradient)
    graph.convolve(CudnnKind::InputGradientOperation, window, y, w, x);
  else if (g.kind == ConvolutionKind::FilterGradient)
    graph.convolve(CudnnKind::FilterGradientOperation, window, x, y, w);
  else
    graph.convolve(CudnnKind::ConvolutionOperation, window, x, w, y);
  return graph;
}

CudnnChoice convolutionChoice(const ConvolutionGeometry &g, int64_t mostWorkspace) {
  CudnnChoice choice{{CudnnNote::ReducedPrecisionReduction, CudnnNote::Nondeterministic},
                     mostWorkspace};
  if (g.xType == DataType::F32)
    choice.refused.insert(choice.refused.end(),
                          {CudnnNote::TensorCore, CudnnNote::DownConvertInputs});
  return choice;
}

Result<std::unique_ptr<CudnnConvolution>> CudnnConvolution::create(const CudnnCalls &calls,
                                                                   CudnnHandle handle,
                                                                   const ConvolutionGeometry &g,
                                                                   int64_t mostWorkspace) {
  AUTOPAR_RETURN_IF_ERROR(verify(g));
  std::unique_ptr<CudnnConvolution> convolution(new CudnnConvolution());
  auto plan = CudnnPlan::create(calls, handle, describeConvolution(calls, g),
                                convolutionChoice(g, mostWorkspace));
  if (!plan)
    return plan.status().code() == StatusCode::Mismatch ? refuse(plan.status().message())
                                                        : plan.status();
  convolution->plan = plan.take();
  return convolution;
}

Status CudnnConvolution::run(DevicePointer x, DevicePointer w, DevicePointer y,
                             DevicePointer workspace, Stream stream) const {
  auto pointer = [](DevicePointer address) { return reinterpret_cast<void *>(uintptr_t(address)); };
  return plan->run({1, 2, 3}, {pointer(x), pointer(w), pointer(y)}, pointer(workspace), stream);
}

} // namespace autopar::runtime::cuda
