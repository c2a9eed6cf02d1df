// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/CpuMath/AttentionCall.h"

namespace autopar::cpumath {

static AttentionStrides stridesOf(const artifact::StridedShape &shape) {
  return {shape.strides[0], shape.strides[1], shape.strides[2]};
}

Result<AttentionCall> AttentionCall::create(const artifact::AttentionGeometry &geometry,
                                            int threads) {
  AttentionCall call;
  AttentionShape &shape = call.shape;
  const auto &operands = geometry.operands;
  shape.type = geometry.type;
  shape.batch = operands[0].dims[0];
  shape.heads = operands[0].dims[1];
  shape.groups = operands[1].dims[1];
  shape.queries = operands[0].dims[2];
  shape.keys = operands[1].dims[2];
  shape.depth = operands[0].dims[3];
  shape.valueDepth = operands[2].dims[3];
  shape.scale = geometry.scale;
  shape.isCausal = geometry.causal;
  shape.hiddenKeys = geometry.hiddenKeys;
  shape.window = geometry.window;
  shape.q = stridesOf(operands[0]);
  shape.k = stridesOf(operands[1]);
  shape.v = stridesOf(operands[2]);
  shape.o = stridesOf(operands[3]);
  shape.hasBias = geometry.hasBias();
  if (shape.hasBias) {
    shape.biasType = geometry.biasType;
    shape.bias = stridesOf(geometry.bias);
  }
  call.isGradient = geometry.isGradient();
  if (call.isGradient) {
    shape.dO = stridesOf(operands[4]);
    shape.dQ = stridesOf(operands[5]);
    shape.dK = stridesOf(operands[6]);
    shape.dV = stridesOf(operands[7]);
  }
  AUTOPAR_RETURN_IF_ERROR(verifyAttention(shape));
  call.threads = threads;
  call.scratch = call.isGradient ? attentionBackwardScratchBytes(shape, threads)
                                 : attentionScratchBytes(shape, threads);
  return call;
}

void AttentionCall::run(void *const *inputs, void *const *outputs, void *scratchArea) const {
  if (isGradient) {
    AttentionBackward operands{.q = inputs[0],
                               .k = inputs[1],
                               .v = inputs[2],
                               .bias = shape.hasBias ? inputs[6] : nullptr,
                               .o = inputs[3],
                               .lse = static_cast<const float *>(inputs[4]),
                               .dO = inputs[5],
                               .dQ = outputs[0],
                               .dK = outputs[1],
                               .dV = outputs[2]};
    return attentionBackward(shape, operands, scratchArea, threads);
  }
  AttentionForward operands{.q = inputs[0],
                            .k = inputs[1],
                            .v = inputs[2],
                            .bias = shape.hasBias ? inputs[3] : nullptr,
                            .o = outputs[0],
                            .lse = static_cast<float *>(outputs[1])};
  attentionForward(shape, operands, scratchArea, threads);
}

} // namespace autopar::cpumath
