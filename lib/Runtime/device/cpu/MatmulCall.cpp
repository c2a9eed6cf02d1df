// SPDX-License-Identifier: Apache-2.0
// Matrix products: large plain ones by the runtime's own, all others through oneDNN's matmul
// primitive.
#include "LibraryCalls.h"
#include "LibraryDescriptors.h"
#include "OpenMP.h"
#include "autopar/Artifact/Verify.h"

#include <cstring>

namespace autopar::runtime {

using dnnl::memory;

/// oneDNN counts some extents in 32 bits.
static Status checkExtents(const std::vector<int64_t> &dims) {
  for (int64_t extent : dims)
    if (extent > INT32_MAX)
      return Status::badInput("matmul: expected extents below 2^31 for oneDNN, got " +
                              std::to_string(extent));
  return Status::ok();
}

Result<MatmulCall> MatmulCall::create(const artifact::MatmulGeometry &g) {
  AUTOPAR_RETURN_IF_ERROR(artifact::verifyGeometry(g));
  MatmulCall call;
  call.hasBias = g.hasBias;
  call.hasResidual = g.hasResidual;
  call.denseBytes = artifact::checkedBytes(g.c.dims, g.cType).value_or(0);
  call.isEmpty = call.denseBytes == 0;
  if (call.isEmpty)
    return call;
  if (g.epilogue == artifact::Epilogue::GeluTanhGrad)
    return Status::mismatch("oneDNN has no product with the gradient of a GELU behind it; compile "
                            "the model for this device");
  call.own = OwnProduct::create(g);
  if (call.own) {
    call.scratch = call.own->scratchBytes();
    return call;
  }
  AUTOPAR_RETURN_IF_ERROR(call.createInLibrary(g));
  return call;
}

Status MatmulCall::createInLibrary(const artifact::MatmulGeometry &g) {
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
    memory::desc anyB(g.b.dims, plainB.data_type(), memory::format_tag::any);
    const memory::desc &weights = g.packedB ? anyB : plainB;

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
      descriptor = {{a, weights, bias, c}, attributes, cpuEngine()};
    } else {
      descriptor = {{a, weights, c}, attributes, cpuEngine()};
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

Status MatmulCall::run(void *aData, void *bData, void *cData, void *biasData, void *residualData,
                       void *scratchData) const {
  if (isEmpty)
    return Status::ok();
  if (!own)
    return runInLibrary(aData, bData, cData, biasData, residualData, scratchData);
  own->run(aData, bData, cData, hasBias ? biasData : nullptr, hasResidual ? residualData : nullptr,
           scratchData);
  return Status::ok();
}

Status MatmulCall::runInLibrary(void *aData, void *bData, void *cData, void *biasData,
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

Status MatmulCall::pack(void *plain, void *packedData) const {
  if (isEmpty)
    return Status::ok();
  return guarded("pack", [&] {
    packing.execute(cpuStream(), {{DNNL_ARG_FROM, memory(givenB, cpuEngine(), plain)},
                                  {DNNL_ARG_TO, memory(b, cpuEngine(), packedData)}});
    cpuStream().wait();
  });
}

} // namespace autopar::runtime
