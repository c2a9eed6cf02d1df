// SPDX-License-Identifier: Apache-2.0
// From artifact types, layouts and epilogues to oneDNN's descriptors.
#include "LibraryDescriptors.h"

namespace autopar::cpumath {

using dnnl::memory;

const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::stream &cpuStream() {
  thread_local dnnl::stream stream(cpuEngine());
  return stream;
}

memory::data_type libraryType(DataType type) {
  switch (type) {
  case DataType::F32:
    return memory::data_type::f32;
  case DataType::BF16:
    return memory::data_type::bf16;
  case DataType::F16:
    return memory::data_type::f16;
  case DataType::I8:
    return memory::data_type::s8;
  case DataType::U8:
    return memory::data_type::u8;
  case DataType::I32:
    return memory::data_type::s32;
  default:
    return memory::data_type::undef;
  }
}

bool sumsBytesExactly() { return __builtin_cpu_supports("avx512vnni"); }

Status withoutByteSums(const char *what) {
  return Status::mismatch(std::string(what) +
                          " of 8-bit integers need a CPU with AVX512-VNNI; compile the model for "
                          "this machine (--target-cpu x86-64-v4 or x86-64-v3)");
}

memory::desc stridedDescriptor(const artifact::StridedShape &shape, DataType type) {
  memory::dims strides = shape.strides;
  // A broadcast dim's stride is never used; oneDNN wants it positive.
  for (size_t i = 0; i < strides.size(); ++i)
    if (shape.dims[i] == 1 && strides[i] == 0)
      strides[i] = 1;
  return memory::desc(shape.dims, libraryType(type), strides);
}

std::string layoutText(const memory::desc &descriptor) {
  const dnnl_memory_desc_t &d = descriptor.data;
  if (d.format_kind != dnnl_blocked)
    return "";
  std::string text = "type " + std::to_string(d.data_type);
  auto add = [&](const char *what, const auto *numbers, int count) {
    text += std::string(" ") + what;
    for (int i = 0; i < count; ++i)
      text += " " + std::to_string(numbers[i]);
  };
  const dnnl_blocking_desc_t &blocks = d.format_desc.blocking;
  add("dims", d.dims, d.ndims);
  add("padded", d.padded_dims, d.ndims);
  add("strides", blocks.strides, d.ndims);
  add("blocks", blocks.inner_blks, blocks.inner_nblks);
  add("of", blocks.inner_idxs, blocks.inner_nblks);
  add("extra", &d.extra.flags, 1);
  add("sums", &d.extra.compensation_mask, 1);
  add("and", &d.extra.asymm_compensation_mask, 1);
  add("scale", &d.extra.scale_adjust, 1);
  return text;
}

memory::desc layoutDescriptor(const std::vector<int64_t> &dims, memory::data_type type,
                              artifact::Layout layout) {
  using tag = memory::format_tag;
  static const tag tags[4][3] = {{tag::ncw, tag::nchw, tag::ncdhw},
                                 {tag::nwc, tag::nhwc, tag::ndhwc},
                                 {tag::nCw8c, tag::nChw8c, tag::nCdhw8c},
                                 {tag::nCw16c, tag::nChw16c, tag::nCdhw16c}};
  return memory::desc(dims, type, tags[size_t(layout)][dims.size() - 3]);
}

void appendEpilogue(dnnl::post_ops &ops, bool hasResidual, artifact::Epilogue epilogue) {
  if (hasResidual)
    ops.append_sum(1.0f);
  switch (epilogue) {
  default: // none; what is not below is refused before
    break;
  case artifact::Epilogue::Relu:
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    break;
  case artifact::Epilogue::GeluErf:
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_gelu_erf, 0.0f, 0.0f);
    break;
  case artifact::Epilogue::GeluTanh:
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_gelu_tanh, 0.0f, 0.0f);
    break;
  }
}

Status reorder(const char *what, const dnnl::reorder &primitive, const Placed &from,
               const Placed &to) {
  return guarded(what, [&] {
    primitive.execute(cpuStream(), {{DNNL_ARG_FROM, memory(from.type, cpuEngine(), from.data)},
                                    {DNNL_ARG_TO, memory(to.type, cpuEngine(), to.data)}});
    cpuStream().wait();
  });
}

} // namespace autopar::cpumath
