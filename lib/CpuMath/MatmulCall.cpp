// SPDX-License-Identifier: Apache-2.0
// Matrix products: large plain ones by OwnProduct, all others through oneDNN's matmul primitive.
#include "LibraryDescriptors.h"
#include "OwnProduct.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/CpuMath/LibraryCalls.h"

#include <cstring>

namespace autopar::cpumath {

using dnnl::memory;

struct MatmulCall::Prepared {
  Status prepare(const artifact::MatmulGeometry &geometry);
  Status prepareInLibrary(const artifact::MatmulGeometry &geometry);
  Status runInLibrary(void *a, void *b, void *c, void *bias, void *residual, void *scratch) const;

  std::optional<OwnProduct> own; ///< then no primitive is used
  dnnl::matmul::primitive_desc descriptor;
  dnnl::primitive primitive;
  dnnl::reorder residualToC, packing, rounding;
  memory::desc a, b, c, bias, plainB, givenB, scratchpad;
  int64_t scratch = 0, packed = 0, denseBytes = 0, roundedBytes = 0;
  bool hasBias = false, hasResidual = false, isDense = false, isEmpty = false;
};

/// oneDNN counts some extents in 32 bits.
static Status checkExtents(const std::vector<int64_t> &dims) {
  for (int64_t extent : dims)
    if (extent > INT32_MAX)
      return Status::badInput("matmul: expected extents below 2^31 for oneDNN, got " +
                              std::to_string(extent));
  return Status::ok();
}

Result<MatmulCall> MatmulCall::create(const artifact::MatmulGeometry &geometry) {
  auto prepared = std::make_shared<Prepared>();
  AUTOPAR_RETURN_IF_ERROR(prepared->prepare(geometry));
  MatmulCall call;
  call.prepared = std::move(prepared);
  return call;
}

int64_t MatmulCall::scratchBytes() const { return prepared->scratch; }
int64_t MatmulCall::packedBytes() const { return prepared->packed; }
std::string MatmulCall::packedLayout() const { return layoutText(prepared->b); }

Status MatmulCall::Prepared::prepare(const artifact::MatmulGeometry &g) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  hasBias = g.hasBias;
  hasResidual = g.hasResidual;
  denseBytes = artifact::checkedBytes(g.c.dims, g.cType).value_or(0);
  isEmpty = denseBytes == 0;
  if (isEmpty)
    return Status::ok();
  if (isByteFloat(g.aType))
    return Status::mismatch("oneDNN has no product of " + std::string(name(g.aType)) +
                            "; compile the model for this device");
  if (g.epilogue > artifact::Epilogue::GeluTanh)
    return Status::mismatch("oneDNN has no product with the gradient of an activation behind it or "
                            "a second result; compile the model for this device");
  if (g.cType == DataType::I32 && !sumsBytesExactly())
    return withoutByteSums("products");
  own = OwnProduct::create(g);
  if (!own)
    return prepareInLibrary(g);
  scratch = own->scratchBytes();
  return Status::ok();
}

/// Matrices with `stride` elements from one row to the next.
static memory::desc rowsApart(const memory::dims &dims, memory::data_type type, int64_t stride) {
  memory::dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i-- > 0;)
    strides[i] = i + 2 == dims.size() ? stride : strides[i + 1] * dims[i + 1];
  return {dims, type, strides};
}

/// An odd number of cache lines. What the library reads as it is, a few columns of many rows at a
/// time (on CPUs without AVX-512), would else fall into few sets of the cache: 128 rows by 768x3072
/// weights take 9.9 ms on two cores of Zen 3, and 4.5 like this.
static int64_t strideOfPacked(int64_t row, memory::data_type type) {
  int64_t line = 64 / int64_t(memory::data_type_size(type)), lines = (row + line - 1) / line;
  bool isShort = lines < 8; // and fills all sets
  return isShort ? row : (lines | 1) * line;
}

Status MatmulCall::Prepared::prepareInLibrary(const artifact::MatmulGeometry &g) {
  for (const artifact::StridedShape *shape : {&g.a, &g.b, &g.c})
    AUTOPAR_RETURN_IF_ERROR(checkExtents(shape->dims));
  isDense = artifact::spanBytes(g.c, g.cType) == denseBytes;
  return guarded("matmul", [&] {
    a = stridedDescriptor(g.a, g.aType);
    givenB = stridedDescriptor(g.b, g.bType);
    // The library wants b in the type of a: it is rounded into scratch first.
    bool rounds = g.aType == DataType::BF16 && g.bType == DataType::F32;
    plainB = rounds ? stridedDescriptor(g.b, g.aType) : givenB;
    if (rounds && !g.packedB) {
      rounding = dnnl::reorder({cpuEngine(), givenB, cpuEngine(), plainB});
      roundedBytes = (int64_t(plainB.get_size()) + 63) / 64 * 64;
    }
    c = stridedDescriptor(g.c, g.cType);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (g.scale != 1.0f)
      attributes.set_output_scales(0, {g.scale});
    dnnl::post_ops ops;
    appendEpilogue(ops, g.hasResidual, g.epilogue);
    attributes.set_post_ops(ops);

    if (g.hasBias) {
      memory::dims dims(g.c.dims.size(), 1), strides(g.c.dims.size(), g.c.dims.back());
      dims.back() = g.c.dims.back();
      strides.back() = 1;
      bias = memory::desc(dims, libraryType(g.biasType), strides);
    }
    auto describe = [&](const memory::desc &weights) {
      descriptor =
          g.hasBias ? dnnl::matmul::primitive_desc({a, weights, bias, c}, attributes, cpuEngine())
                    : dnnl::matmul::primitive_desc({a, weights, c}, attributes, cpuEngine());
    };
    if (!g.packedB) {
      describe(plainB);
    } else {
      memory::data_type type = plainB.data_type();
      int64_t row = g.b.dims.back();
      describe({g.b.dims, type, memory::format_tag::any});
      if (descriptor.weights_desc() == rowsApart(g.b.dims, type, row))
        describe(rowsApart(g.b.dims, type, strideOfPacked(row, type)));
    }
    primitive = dnnl::matmul(descriptor);
    b = descriptor.weights_desc();
    packed = int64_t(b.get_size());
    scratchpad = descriptor.scratchpad_desc();
    scratch = roundedBytes + int64_t(scratchpad.get_size());
    if (g.packedB)
      packing = dnnl::reorder({cpuEngine(), givenB, cpuEngine(), b});
    if (g.hasResidual && !isDense)
      residualToC = dnnl::reorder({cpuEngine(), c, cpuEngine(), c});
  });
}

Status MatmulCall::run(void *a, void *b, void *c, void *bias, void *residual, void *scratch) const {
  if (prepared->isEmpty)
    return Status::ok();
  if (!prepared->own)
    return prepared->runInLibrary(a, b, c, bias, residual, scratch);
  prepared->own->run(a, b, c, prepared->hasBias ? bias : nullptr,
                     prepared->hasResidual ? residual : nullptr, scratch);
  return Status::ok();
}

Status MatmulCall::Prepared::runInLibrary(void *aData, void *bData, void *cData, void *biasData,
                                          void *residualData, void *scratchData) const {
  return guarded("matmul", [&] {
    const dnnl::engine &engine = cpuEngine();
    dnnl::stream &stream = cpuStream();
    memory cMemory(c, engine, cData);
    // The residual is accumulated into the destination, so it has to be there first.
    if (hasResidual && residualData != cData) {
      if (isDense)
        std::memcpy(cData, residualData, size_t(denseBytes));
      else
        residualToC.execute(
            stream, {{DNNL_ARG_FROM, memory(c, engine, residualData)}, {DNNL_ARG_TO, cMemory}});
    }
    if (roundedBytes > 0) {
      rounding.execute(stream, {{DNNL_ARG_FROM, memory(givenB, engine, bData)},
                                {DNNL_ARG_TO, memory(plainB, engine, scratchData)}});
      bData = scratchData;
      scratchData = static_cast<uint8_t *>(scratchData) + roundedBytes;
    }
    std::unordered_map<int, memory> arguments = {{DNNL_ARG_SRC, memory(a, engine, aData)},
                                                 {DNNL_ARG_WEIGHTS, memory(b, engine, bData)},
                                                 {DNNL_ARG_DST, cMemory}};
    if (hasBias)
      arguments[DNNL_ARG_BIAS] = memory(bias, engine, biasData);
    if (scratch > 0)
      arguments[DNNL_ARG_SCRATCHPAD] = memory(scratchpad, engine, scratchData);
    primitive.execute(stream, arguments);
    stream.wait();
  });
}

Status MatmulCall::pack(void *plain, void *packed) const {
  if (prepared->isEmpty)
    return Status::ok();
  return reorder("pack", prepared->packing, {prepared->givenB, plain}, {prepared->b, packed});
}

} // namespace autopar::cpumath
