// SPDX-License-Identifier: Apache-2.0
// Convolutions and activation layout changes through oneDNN.
#include "LibraryDescriptors.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/CpuMath/LibraryCalls.h"

#include <cstring>

namespace autopar::cpumath {
namespace {

using dnnl::memory;

/// Filters as oneDNN spells them: with a group dim in front when there are groups.
memory::dims filterDims(const artifact::ConvolutionGeometry &g) {
  memory::dims dims = g.filter();
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

/// The three tensors of a convolution, of whatever kind. The filter is that of the call, its layout
/// left to the library; plainFilter is the same in rows.
struct Operands {
  explicit Operands(const artifact::ConvolutionGeometry &g) {
    using artifact::ConvolutionKind;
    bool ofInput = g.kind == ConvolutionKind::InputGradient,
         ofFilter = g.kind == ConvolutionKind::FilterGradient;
    input = ofInput ? layoutDescriptor(g.y, libraryType(g.yType), g.yLayout)
                    : layoutDescriptor(g.x, libraryType(g.xType), g.xLayout);
    output = ofInput    ? layoutDescriptor(g.x, libraryType(g.xType), g.xLayout)
             : ofFilter ? layoutDescriptor(g.w, libraryType(g.wType), g.yLayout)
                        : layoutDescriptor(g.y, libraryType(g.yType), g.yLayout);
    memory::dims dims = filterDims(g);
    memory::data_type type = libraryType(ofFilter ? g.yType : g.wType);
    plainFilter = memory::desc(dims, type, rowMajor(dims));
    filter = memory::desc(dims, type, memory::format_tag::any);
    dilations = minusOne(g.dilations);
  }
  memory::desc input, filter, plainFilter, output;
  memory::dims dilations;
};

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
  void prepareForward(const artifact::ConvolutionGeometry &geometry, const Operands &operands);
  void prepareInputGradient(const artifact::ConvolutionGeometry &geometry,
                            const Operands &operands);
  void prepareFilterGradient(const artifact::ConvolutionGeometry &geometry,
                             const Operands &operands);
  /// What every kind takes from its descriptor.
  template <typename Descriptor>
  void take(const Descriptor &descriptor) {
    scratchpad = descriptor.scratchpad_desc();
    scratch = int64_t(scratchpad.get_size());
    isReference = std::strncmp(descriptor.impl_info_str(), "ref", 3) == 0;
  }

  dnnl::primitive primitive;
  dnnl::reorder packing;   ///< of the plain filter
  dnnl::reorder unpacking; ///< of the filter's gradient, where the library has a layout of its own
  memory::desc x, w, y, bias, plainFilter, scratchpad;
  int xRole = DNNL_ARG_SRC, wRole = DNNL_ARG_WEIGHTS, yRole = DNNL_ARG_DST;
  int64_t scratch = 0, packed = 0, yBytes = 0;
  int64_t padded = 0; ///< of the scratch, in front: the filter's gradient before it is unpacked
  bool hasBias = false, hasResidual = false, isEmpty = false, isReference = false;
};

Result<ConvolutionCall> ConvolutionCall::create(const artifact::ConvolutionGeometry &geometry) {
  auto prepared = std::make_shared<Prepared>();
  AUTOPAR_RETURN_IF_ERROR(prepared->prepare(geometry));
  ConvolutionCall call;
  call.prepared = std::move(prepared);
  return call;
}

int64_t ConvolutionCall::scratchBytes() const { return prepared->padded + prepared->scratch; }
int64_t ConvolutionCall::packedBytes() const { return prepared->packed; }
bool ConvolutionCall::isReference() const { return prepared->isReference; }

Status ConvolutionCall::Prepared::prepare(const artifact::ConvolutionGeometry &g) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  hasBias = g.hasBias;
  hasResidual = g.hasResidual;
  isEmpty = artifact::checkedBytes(g.y, g.yType).value_or(0) == 0;
  if (isEmpty)
    return Status::ok();
  return guarded("convolution", [&] {
    Operands operands(g);
    plainFilter = operands.plainFilter;
    switch (g.kind) {
    case artifact::ConvolutionKind::Forward:
      return prepareForward(g, operands);
    case artifact::ConvolutionKind::InputGradient:
      return prepareInputGradient(g, operands);
    case artifact::ConvolutionKind::FilterGradient:
      return prepareFilterGradient(g, operands);
    }
  });
}

static dnnl::primitive_attr callersScratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

void ConvolutionCall::Prepared::prepareForward(const artifact::ConvolutionGeometry &g,
                                               const Operands &operands) {
  x = operands.input;
  y = operands.output;
  yBytes = int64_t(y.get_size());
  if (g.hasBias)
    bias = memory::desc({g.w[0]}, libraryType(g.biasType), memory::format_tag::x);
  dnnl::primitive_attr attributes = callersScratch();
  dnnl::post_ops ops;
  appendEpilogue(ops, g.hasResidual, g.epilogue);
  attributes.set_post_ops(ops);
  bool isWinograd = g.algorithm == artifact::ConvolutionAlgorithm::Winograd;
  auto algorithm =
      isWinograd ? dnnl::algorithm::convolution_winograd : dnnl::algorithm::convolution_direct;
  auto descriptor = implementation({dnnl::prop_kind::forward_inference, algorithm, x,
                                    g.packedW ? operands.filter : plainFilter, bias, y, g.strides,
                                    operands.dilations, g.padsBegin, g.padsEnd},
                                   attributes, isWinograd);
  take(descriptor);
  primitive = dnnl::convolution_forward(descriptor);
  w = descriptor.weights_desc();
  packed = int64_t(w.get_size());
  if (g.packedW)
    packing = dnnl::reorder({cpuEngine(), plainFilter, cpuEngine(), w});
}

/// The library asks for the convolution that a gradient belongs to.
static dnnl::convolution_forward::primitive_desc forwardOf(const artifact::ConvolutionGeometry &g,
                                                           const Operands &operands) {
  memory::desc filter(operands.filter.dims(), operands.input.data_type(), memory::format_tag::any);
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, operands.input,
           filter, operands.output, g.strides, operands.dilations, g.padsBegin, g.padsEnd},
          cpuEngine()};
}

void ConvolutionCall::Prepared::prepareInputGradient(const artifact::ConvolutionGeometry &g,
                                                     const Operands &operands) {
  x = operands.output;
  y = operands.input;
  xRole = DNNL_ARG_DIFF_DST;
  yRole = DNNL_ARG_DIFF_SRC;
  dnnl::convolution_backward_data::primitive_desc descriptor(
      {dnnl::algorithm::convolution_direct, y, g.packedW ? operands.filter : plainFilter, x,
       g.strides, operands.dilations, g.padsBegin, g.padsEnd},
      callersScratch(), cpuEngine(), forwardOf(g, operands));
  take(descriptor);
  primitive = dnnl::convolution_backward_data(descriptor);
  w = descriptor.weights_desc();
  packed = int64_t(w.get_size());
  if (g.packedW)
    packing = dnnl::reorder({cpuEngine(), plainFilter, cpuEngine(), w});
}

void ConvolutionCall::Prepared::prepareFilterGradient(const artifact::ConvolutionGeometry &g,
                                                      const Operands &operands) {
  x = operands.input;
  w = operands.output;
  wRole = DNNL_ARG_DIFF_DST;
  yRole = DNNL_ARG_DIFF_WEIGHTS;
  dnnl::convolution_backward_weights::primitive_desc descriptor(
      {dnnl::algorithm::convolution_direct, x, operands.filter, w, g.strides, operands.dilations,
       g.padsBegin, g.padsEnd},
      callersScratch(), cpuEngine(), forwardOf(g, operands));
  take(descriptor);
  primitive = dnnl::convolution_backward_weights(descriptor);
  y = descriptor.diff_weights_desc();
  if (y == plainFilter)
    return;
  constexpr int64_t alignment = 64;
  padded = (int64_t(y.get_size()) + alignment - 1) / alignment * alignment;
  unpacking = dnnl::reorder({cpuEngine(), y, cpuEngine(), plainFilter});
}

Status ConvolutionCall::run(void *x, void *w, void *y, void *bias, void *residual,
                            void *scratch) const {
  const Prepared &call = *prepared;
  if (call.isEmpty)
    return Status::ok();
  void *stored = call.padded > 0 ? scratch : y;
  AUTOPAR_RETURN_IF_ERROR(guarded("convolution", [&] {
    const dnnl::engine &engine = cpuEngine();
    if (call.hasResidual && residual != y)
      std::memcpy(y, residual, size_t(call.yBytes));
    std::unordered_map<int, memory> arguments = {{call.xRole, memory(call.x, engine, x)},
                                                 {call.wRole, memory(call.w, engine, w)},
                                                 {call.yRole, memory(call.y, engine, stored)}};
    if (call.hasBias)
      arguments[DNNL_ARG_BIAS] = memory(call.bias, engine, bias);
    if (call.scratch > 0)
      arguments[DNNL_ARG_SCRATCHPAD] =
          memory(call.scratchpad, engine, static_cast<uint8_t *>(scratch) + call.padded);
    call.primitive.execute(cpuStream(), arguments);
    cpuStream().wait();
  }));
  if (call.padded == 0)
    return Status::ok();
  return reorder("gradient of a filter", call.unpacking, {call.y, stored}, {call.plainFilter, y});
}

Status ConvolutionCall::pack(void *plain, void *packed) const {
  if (prepared->isEmpty)
    return Status::ok();
  return reorder("pack", prepared->packing, {prepared->plainFilter, plain}, {prepared->w, packed});
}

/// Integers are moved as they are.
static memory::data_type movedType(DataType type) {
  switch (type) {
  case DataType::I8:
  case DataType::U8:
    return memory::data_type::u8;
  case DataType::I32:
  case DataType::U32:
    return memory::data_type::s32;
  default:
    return libraryType(type);
  }
}

struct ReorderCall::Prepared {
  dnnl::reorder primitive;
  memory::desc from, to;
};

Result<ReorderCall> ReorderCall::create(const artifact::Reorder &reorder) {
  auto prepared = std::make_shared<Prepared>();
  AUTOPAR_RETURN_IF_ERROR(guarded("reorder", [&] {
    memory::data_type type = movedType(reorder.dtype);
    prepared->from = layoutDescriptor(reorder.dims, type, reorder.from);
    prepared->to = layoutDescriptor(reorder.dims, type, reorder.to);
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
