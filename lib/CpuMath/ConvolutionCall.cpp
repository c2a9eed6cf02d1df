// SPDX-License-Identifier: Apache-2.0
// Convolutions and activation layout changes through oneDNN.
#include "LibraryDescriptors.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/CpuMath/LibraryCalls.h"

#include <cstring>

namespace autopar::cpumath {
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

struct ConvolutionCall::Prepared {
  Status prepare(const artifact::ConvolutionGeometry &geometry);

  dnnl::convolution_forward::primitive_desc descriptor;
  dnnl::primitive primitive;
  dnnl::reorder packing;
  memory::desc x, w, y, bias, plainW, scratchpad;
  int64_t scratch = 0, packed = 0, yBytes = 0;
  bool hasBias = false, hasResidual = false, isEmpty = false;
};

Result<ConvolutionCall> ConvolutionCall::create(const artifact::ConvolutionGeometry &geometry) {
  auto prepared = std::make_shared<Prepared>();
  AUTOPAR_RETURN_IF_ERROR(prepared->prepare(geometry));
  ConvolutionCall call;
  call.prepared = std::move(prepared);
  return call;
}

int64_t ConvolutionCall::scratchBytes() const { return prepared->scratch; }
int64_t ConvolutionCall::packedBytes() const { return prepared->packed; }

Status ConvolutionCall::Prepared::prepare(const artifact::ConvolutionGeometry &g) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  if (g.kind != artifact::ConvolutionKind::Forward)
    return Status::mismatch("the CPU device has no gradients of convolutions; compile the model "
                            "for this device");
  hasBias = g.hasBias;
  hasResidual = g.hasResidual;
  isEmpty = artifact::checkedBytes(g.y, g.yType).value_or(0) == 0;
  if (isEmpty)
    return Status::ok();
  return guarded("convolution", [&] {
    x = layoutDescriptor(g.x, g.xType, g.xLayout);
    y = layoutDescriptor(g.y, g.yType, g.yLayout);
    yBytes = int64_t(y.get_size());
    memory::dims dims = weightDims(g);
    plainW = memory::desc(dims, libraryType(g.wType), rowMajor(dims));
    memory::desc anyW(dims, libraryType(g.wType), memory::format_tag::any);
    if (g.hasBias)
      bias = memory::desc({g.w[0]}, libraryType(g.biasType), memory::format_tag::x);

    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::post_ops ops;
    appendEpilogue(ops, g.hasResidual, g.epilogue);
    attributes.set_post_ops(ops);
    bool isWinograd = g.algorithm == artifact::ConvolutionAlgorithm::Winograd;
    auto algorithm =
        isWinograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
    descriptor =
        implementation({dnnl::prop_kind::forward_inference, algorithm, x, g.packedW ? anyW : plainW,
                        bias, y, g.strides, minusOne(g.dilations), g.padsBegin, g.padsEnd},
                       attributes, isWinograd);
    primitive = dnnl::convolution_forward(descriptor);
    w = descriptor.weights_desc();
    packed = int64_t(w.get_size());
    scratchpad = descriptor.scratchpad_desc();
    scratch = int64_t(scratchpad.get_size());
    if (g.packedW)
      packing = dnnl::reorder({cpuEngine(), plainW, cpuEngine(), w});
  });
}

Status ConvolutionCall::run(void *x, void *w, void *y, void *bias, void *residual,
                            void *scratch) const {
  const Prepared &call = *prepared;
  if (call.isEmpty)
    return Status::ok();
  return guarded("convolution", [&] {
    const dnnl::engine &engine = cpuEngine();
    if (call.hasResidual && residual != y)
      std::memcpy(y, residual, size_t(call.yBytes));
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, memory(call.x, engine, x)},
                                                 {DNNL_ARG_WEIGHTS, memory(call.w, engine, w)},
                                                 {DNNL_ARG_DST, memory(call.y, engine, y)}};
    if (call.hasBias)
      arguments[DNNL_ARG_BIAS] = memory(call.bias, engine, bias);
    if (call.scratch > 0)
      arguments[DNNL_ARG_SCRATCHPAD] = memory(call.scratchpad, engine, scratch);
    call.primitive.execute(cpuStream(), arguments);
    cpuStream().wait();
  });
}

Status ConvolutionCall::pack(void *plain, void *packed) const {
  if (prepared->isEmpty)
    return Status::ok();
  return reorder("pack", prepared->packing, {prepared->plainW, plain}, {prepared->w, packed});
}

struct ReorderCall::Prepared {
  dnnl::reorder primitive;
  memory::desc from, to;
};

Result<ReorderCall> ReorderCall::create(const artifact::Reorder &reorder) {
  auto prepared = std::make_shared<Prepared>();
  AUTOPAR_RETURN_IF_ERROR(guarded("reorder", [&] {
    prepared->from = layoutDescriptor(reorder.dims, reorder.dtype, reorder.from);
    prepared->to = layoutDescriptor(reorder.dims, reorder.dtype, reorder.to);
    prepared->primitive = dnnl::reorder({cpuEngine(), prepared->from, cpuEngine(), prepared->to});
  }));
  ReorderCall call;
  call.prepared = std::move(prepared);
  return call;
}

Status ReorderCall::run(void *src, void *dst) const {
  return reorder("reorder", prepared->primitive, {prepared->from, src}, {prepared->to, dst});
}

} // namespace autopar::cpumath
