// SPDX-License-Identifier: Apache-2.0
// Convolutions and activation layout changes through oneDNN.
#include "LibraryDescriptors.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/CpuMath/LibraryCalls.h"

#include <cstring>
#include <optional>

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

/// In groups the library has fast code for images alone: a line is an image of height 1, which lies
/// in memory as it does.
artifact::ConvolutionGeometry withImages(artifact::ConvolutionGeometry g) {
  if (g.groups == 1 || g.x.size() != 3)
    return g;
  for (std::vector<int64_t> *shape : {&g.x, &g.w, &g.y})
    shape->insert(shape->begin() + 2, 1);
  for (std::vector<int64_t> *ones : {&g.strides, &g.dilations})
    ones->insert(ones->begin(), 1);
  for (std::vector<int64_t> *pads : {&g.padsBegin, &g.padsEnd})
    pads->insert(pads->begin(), 0);
  return g;
}

/// The library's code works on several neighbours of a row at once: an image of width 1 is called
/// as the row that it is in memory.
artifact::ConvolutionGeometry withRows(artifact::ConvolutionGeometry g) {
  auto isColumn = [](const std::vector<int64_t> &shape) {
    return shape.size() == 4 && shape[3] == 1;
  };
  if (!isColumn(g.x) || !isColumn(g.w) || !isColumn(g.y))
    return g;
  for (std::vector<int64_t> *shape : {&g.x, &g.w, &g.y})
    std::swap((*shape)[2], (*shape)[3]);
  for (std::vector<int64_t> *sides : {&g.strides, &g.dilations, &g.padsBegin, &g.padsEnd})
    std::swap((*sides)[0], (*sides)[1]);
  return g;
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

using Forward = dnnl::convolution_forward;

/// The library's implementation of Winograd's algorithm for tiles of 2x2: larger tiles cost digits.
/// Nothing if it has none for this geometry.
std::optional<Forward::primitive_desc> winogradOf(const Forward::desc &wanted,
                                                  const dnnl::primitive_attr &attributes) {
  constexpr bool allowEmpty = true;
  Forward::primitive_desc found(wanted, attributes, cpuEngine(), allowEmpty);
  if (!found)
    return std::nullopt;
  while (!std::strstr(found.impl_info_str(), "wino_2x3"))
    if (!found.next_impl())
      return std::nullopt;
  return found;
}

/// One of the library's kernels of bytes for AMX hands its sums on as f32, even where the result is
/// of i32. It is left out where they may be more than f32 has whole numbers for.
bool roundsSums(const artifact::ConvolutionGeometry &g, const Forward::primitive_desc &found) {
  constexpr int64_t mostExact = int64_t(1) << 24, mostProduct = 255 * 128;
  int64_t terms = 1;
  for (size_t dim = 1; dim < g.w.size(); ++dim)
    terms *= g.w[dim];
  return g.yType == DataType::I32 && terms > mostExact / mostProduct &&
         std::strstr(found.impl_info_str(), "jit:avx512_core_amx_int8");
}

/// Where the library leaves Winograd's algorithm out, as it does where what it works on overflows
/// the second cache, it may have it for a half or a quarter of the result's channels.
constexpr int64_t mostParts = 4;

/// The geometry of the calls that make as many equal parts of the channels, each from the whole
/// input. Nothing if a part is none that lies in one place.
std::optional<artifact::ConvolutionGeometry> partOf(const artifact::ConvolutionGeometry &g,
                                                    int64_t parts) {
  bool isBlocked =
      g.yLayout == artifact::Layout::Blocked8 || g.yLayout == artifact::Layout::Blocked16;
  int64_t block = g.yLayout == artifact::Layout::Blocked8 ? 8 : 16;
  if (parts > mostParts ||
      (parts > 1 && (g.y[0] != 1 || g.groups != 1 || !isBlocked || g.w[0] % (parts * block) != 0)))
    return std::nullopt;
  artifact::ConvolutionGeometry part = g;
  part.w[0] /= parts;
  part.y[1] /= parts;
  return part;
}

} // namespace

struct ConvolutionCall::Prepared {
  Status prepare(const artifact::ConvolutionGeometry &geometry);
  void prepareForward(const artifact::ConvolutionGeometry &geometry, const Operands &operands);
  void takeForward(const artifact::ConvolutionGeometry &geometry,
                   const Forward::primitive_desc &descriptor);
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
  int64_t scratch = 0, packed = 0;
  int64_t padded = 0; ///< of the scratch, in front: the filter's gradient before it is unpacked
  /// Calls of the primitive, each of which makes as many channels from its part of filter and bias.
  int64_t parts = 1;
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
std::string ConvolutionCall::packedLayout() const { return layoutText(prepared->w); }
bool ConvolutionCall::isReference() const { return prepared->isReference; }

Status ConvolutionCall::Prepared::prepare(const artifact::ConvolutionGeometry &geometry) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(geometry));
  artifact::ConvolutionGeometry g = withRows(withImages(geometry));
  hasBias = g.hasBias;
  hasResidual = g.hasResidual;
  isEmpty = artifact::checkedBytes(g.y, g.yType).value_or(0) == 0;
  if (isEmpty)
    return Status::ok();
  if (g.yType == DataType::I32 && !sumsBytesExactly())
    return withoutByteSums("convolutions");
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

/// The library's description of a convolution by the geometry and its operands.
static Forward::desc forwardDescriptor(const artifact::ConvolutionGeometry &g,
                                       const Operands &operands, dnnl::algorithm algorithm) {
  memory::desc bias;
  if (g.hasBias)
    bias = memory::desc({g.w[0]}, libraryType(g.biasType), memory::format_tag::x);
  return {dnnl::prop_kind::forward_inference,
          algorithm,
          operands.input,
          g.packedW ? operands.filter : operands.plainFilter,
          bias,
          operands.output,
          g.strides,
          operands.dilations,
          g.padsBegin,
          g.padsEnd};
}

void ConvolutionCall::Prepared::prepareForward(const artifact::ConvolutionGeometry &g,
                                               const Operands &operands) {
  dnnl::primitive_attr attributes = callersScratch();
  dnnl::post_ops ops;
  appendEpilogue(ops, g.hasResidual, g.epilogue);
  attributes.set_post_ops(ops);
  if (g.algorithm != artifact::ConvolutionAlgorithm::Winograd) {
    Forward::primitive_desc found(
        forwardDescriptor(g, operands, dnnl::algorithm::convolution_direct), attributes,
        cpuEngine());
    while (roundsSums(g, found))
      if (!found.next_impl())
        throw dnnl::error(dnnl_unimplemented, "there is no convolution with exact sums");
    return takeForward(g, found);
  }
  for (;; parts *= 2) {
    auto part = partOf(g, parts);
    if (!part)
      throw dnnl::error(dnnl_unimplemented, "there is no Winograd convolution with tiles of 2x2");
    Operands own(*part);
    plainFilter = own.plainFilter;
    if (auto found = winogradOf(
            forwardDescriptor(*part, own, dnnl::algorithm::convolution_winograd), attributes))
      return takeForward(*part, *found);
  }
}

void ConvolutionCall::Prepared::takeForward(const artifact::ConvolutionGeometry &g,
                                            const Forward::primitive_desc &descriptor) {
  take(descriptor);
  primitive = Forward(descriptor);
  x = descriptor.src_desc();
  w = descriptor.weights_desc();
  y = descriptor.dst_desc();
  bias = descriptor.bias_desc();
  packed = int64_t(w.get_size()) * parts;
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

/// Where a part of what lies at `address` begins, if parts are as large as `desc` says.
static void *placeOf(int64_t part, void *address, const memory::desc &desc) {
  return static_cast<uint8_t *>(address) + part * int64_t(desc.get_size());
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
      std::memcpy(y, residual, call.y.get_size() * size_t(call.parts));
    for (int64_t part = 0; part < call.parts; ++part) {
      std::unordered_map<int, memory> arguments = {
          {call.xRole, memory(call.x, engine, x)},
          {call.wRole, memory(call.w, engine, placeOf(part, w, call.w))},
          {call.yRole, memory(call.y, engine, placeOf(part, stored, call.y))}};
      if (call.hasBias)
        arguments[DNNL_ARG_BIAS] = memory(call.bias, engine, placeOf(part, bias, call.bias));
      if (call.scratch > 0)
        arguments[DNNL_ARG_SCRATCHPAD] =
            memory(call.scratchpad, engine, static_cast<uint8_t *>(scratch) + call.padded);
      call.primitive.execute(cpuStream(), arguments);
    }
    cpuStream().wait();
  }));
  if (call.padded == 0)
    return Status::ok();
  return reorder("gradient of a filter", call.unpacking, {call.y, stored}, {call.plainFilter, y});
}

Status ConvolutionCall::pack(void *plain, void *packed) const {
  if (prepared->isEmpty)
    return Status::ok();
  const memory::desc &from = prepared->plainFilter, &to = prepared->w;
  for (int64_t part = 0; part < prepared->parts; ++part)
    AUTOPAR_RETURN_IF_ERROR(reorder("pack", prepared->packing, {from, placeOf(part, plain, from)},
                                    {to, placeOf(part, packed, to)}));
  return Status::ok();
}

/// Integers and booleans are moved as they are.
static memory::data_type movedType(DataType type) {
  switch (type) {
  case DataType::Bool:
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
