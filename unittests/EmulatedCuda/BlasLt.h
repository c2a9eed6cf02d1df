// SPDX-License-Identifier: Apache-2.0
// What the emulated cuBLASLt keeps of descriptors, and products by definition.
#pragma once

#include "../../lib/Runtime/device/cuda/BlasLtCalls.h"

#include <cstddef>
#include <cstdint>

namespace autopar::runtime::cuda {

struct BlasContextRecord {
  int device;
};
struct BlasOperationRecord {
  int compute = 0, scaleType = 0;
  int32_t transposeA = 0, transposeB = 0, biasType = -1;
  uint32_t epilogue = kBlasNoEpilogue;
  uint64_t bias = 0, aux = 0;
  int64_t auxLeading = 0;
};
struct BlasLayoutRecord {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0, stride = 0;
  int32_t count = 1;
};
struct BlasPreferenceRecord {
  uint64_t workspace = 0;
  uint32_t reductions = 7; ///< all
  uint32_t alignments[4] = {256, 256, 256, 256};
};

} // namespace autopar::runtime::cuda

namespace emulated {

using autopar::runtime::cuda::BlasLayoutRecord;
using autopar::runtime::cuda::BlasOperationRecord;

int bytesOf(int type);
double loadNumber(int type, const uint8_t *at);
void storeNumber(int type, uint8_t *at, double value);

inline bool has(const BlasOperationRecord &o, int bits) { return (int(o.epilogue) & bits) == bits; }
/// Whether the epilogue multiplies by a derivative.
inline bool hasGradient(const BlasOperationRecord &o) {
  using namespace autopar::runtime::cuda;
  return has(o, kBlasGeluGradient) || has(o, kBlasReluGradient);
}
/// Whether it sums up an operand.
inline bool hasSums(const BlasOperationRecord &o) {
  using namespace autopar::runtime::cuda;
  return has(o, kBlasSumsOfLeft) || has(o, kBlasSumsOfRight);
}
/// Whether aux is a mask, of a ReLU.
inline bool hasMask(const BlasOperationRecord &o) {
  using namespace autopar::runtime::cuda;
  return has(o, kBlasRelu | kBlasAux) || has(o, kBlasReluGradient);
}

/// Where the operands of one product lie. `bias` is read as a bias or stored as sums, `aux` is read
/// by gradients and else stored; null without.
struct BlasOperands {
  const uint8_t *a, *b, *c;
  uint8_t *d, *bias, *aux;
};
struct BlasLayouts {
  BlasLayoutRecord a, b, c, d;
};
/// The definition, in f32 or f64 as the operation says.
void multiply(const BlasOperationRecord &operation, const BlasLayouts &layouts, double alpha,
              double beta, const BlasOperands &operands);

} // namespace emulated
