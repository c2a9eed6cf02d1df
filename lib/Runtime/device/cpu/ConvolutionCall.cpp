// SPDX-License-Identifier: Apache-2.0
// Convolutions and activation layout changes through oneDNN.
#include "LibraryCalls.h"
#include "LibraryDescriptors.h"
#include "autopar/Artifact/Verify.h"

#include <cstring>

namespace autopar::runtime {
namespace {

using dnnl::memory;

/// Weights as oneDNN spells them: with a group dim in front when there are groups.
memory::dims weightDims(const artifact::ConvolutionGeometry &g) {
  memory::dims dims = g.w;
  if (g.groups > 1) {
    dims[0] /= g.groups;
    dims.insert(dims.begin(), g.groups);
  }
  return dims;
}

memory::dims rowMajor(const memory::dims &dims) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i)
    strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return strides;
}

memory::dims minusOne(memory::dims values) {
  for (int64_t &value : values)
    --value;
  return values;
}

/// The library's first implementation of the algorithm; of Winograd's, the one for tiles of 2x2:
/// larger tiles cost digits.
dnnl::convolution_forward::primitive_desc
implementation(const dnnl::convolution_forward::desc &wanted,
               const dnnl::primitive_attr &attributes, bool isWinograd) {
  dnnl::convolution_forward::primitive_desc found(wanted, attributes, cpuEngine());
  while (isWinograd && !std::strstr(found.impl_info_str(), "wino_2x3"))
    if (!found.next_impl())
      throw dnnl::error(dnnl_unimplemented, "there is no Winograd convolution with tiles of 2x2");
  return found;
}

} // namespace

Result<ConvolutionCall> ConvolutionCall::create(const artifact::ConvolutionGeometry &g) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  if (g.kind != artifact::ConvolutionKind::Forward)
    return Status::mismatch("the CPU device has no gradients of convolutions; compile the model "
                            "for this device");
  ConvolutionCall call;
  call.hasBias = g.hasBias;
  call.hasResidual = g.hasResidual;
  call.isEmpty = artifact::checkedBytes(g.y, g.yType).value_or(0) == 0;
  if (call.isEmpty)
    return call;
  Status status = guarded("convolution", [&] {
    call.x = layoutDescriptor(g.x, g.xType, g.xLayout);
    call.y = layoutDescriptor(g.y, g.yType, g.yLayout);
    call.yBytes = int64_t(call.y.get_size());
    memory::dims dims = weightDims(g);
    call.plainW = memory::desc(dims, libraryType(g.wType), rowMajor(dims));
    memory::desc anyW(dims, libraryType(g.wType), memory::format_tag::any);
    if (g.hasBias)
      call.bias = memory::desc({g.w[0]}, libraryType(g.biasType), memory::format_tag::x);

    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops ops;
    appendEpilogue(ops, g.hasResidual, g.epilogue);
    attributes.set_post_ops(ops);
    bool isWinograd = g.algorithm == artifact::ConvolutionAlgorithm::Winograd;
    auto algorithm =
        isWinograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
    call.descriptor = implementation({dnnl::prop_kind::forward_inference, algorithm, call.x,
                                      g.packedW ? anyW : call.plainW, call.bias, call.y, g.strides,
                                      minusOne(g.dilations), g.padsBegin, g.padsEnd},
                                     attributes, isWinograd);
    call.primitive = dnnl::convolution_forward(call.descriptor);
    call.w = call.descriptor.weights_desc();
    call.packed = int64_t(call.w.get_size());
    call.scratchpad = call.descriptor.scratchpad_desc();
    call.scratch = int64_t(call.scratchpad.get_size());
    if (g.packedW)
      call.packing = dnnl::reorder({cpuEngine(), call.plainW, cpuEngine(), call.w});
  });
  if (!status.isOk())
    return status;
  return call;
}

Status ConvolutionCall::run(void *xData, void *wData, void *yData, void *biasData,
                            void *residualData, void *scratchData) const {
  if (isEmpty)
    return Status::ok();
  return guarded("convolution", [&] {
    const dnnl::engine &engine = cpuEngine();
    if (hasResidual && residualData != yData)
      std::memcpy(yData, residualData, size_t(yBytes));
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, memory(x, engine, xData)},
                                                 {DNNL_ARG_WEIGHTS, memory(w, engine, wData)},
                                                 {DNNL_ARG_DST, memory(y, engine, yData)}};
    if (hasBias)
      arguments[DNNL_ARG_BIAS] = memory(bias, engine, biasData);
    if (scratch > 0)
      arguments[DNNL_ARG_SCRATCHPAD] = memory(scratchpad, engine, scratchData);
    primitive.execute(cpuStream(), arguments);
    cpuStream().wait();
  });
}

Status ConvolutionCall::pack(void *plain, void *packedData) const {
  if (isEmpty)
    return Status::ok();
  return guarded("pack", [&] {
    packing.execute(cpuStream(), {{DNNL_ARG_FROM, memory(plainW, cpuEngine(), plain)},
                                  {DNNL_ARG_TO, memory(w, cpuEngine(), packedData)}});
    cpuStream().wait();
  });
}

Result<ReorderCall> ReorderCall::create(const artifact::Reorder &reorder) {
  ReorderCall call;
  Status status = guarded("reorder", [&] {
    call.from = layoutDescriptor(reorder.dims, reorder.dtype, reorder.from);
    call.to = layoutDescriptor(reorder.dims, reorder.dtype, reorder.to);
    call.primitive = dnnl::reorder({cpuEngine(), call.from, cpuEngine(), call.to});
  });
  if (!status.isOk())
    return status;
  return call;
}

Status ReorderCall::run(void *src, void *dst) const {
  return guarded("reorder", [&] {
    primitive.execute(cpuStream(), {{DNNL_ARG_FROM, memory(from, cpuEngine(), src)},
                                    {DNNL_ARG_TO, memory(to, cpuEngine(), dst)}});
    cpuStream().wait();
  });
}

} // namespace autopar::runtime
