// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "PackedNumbers.h"

using namespace mlir;
using namespace mlir::autopar;

Value mlir::autopar::shiftedNumbers(TensorBuilder &b, Value packed, unsigned width,
                                    bool highFirst) {
  unsigned perByte = 8 / width;
  SmallVector<double> starts;
  for (unsigned i = 0; i < perByte; ++i)
    starts.push_back((highFirst ? perByte - 1 - i : i) * width);
  int64_t rank = TensorBuilder::rankOf(packed);
  Shape spread(TensorBuilder::shapeOf(packed));
  spread.push_back(perByte);
  Value shifts = b.floats(starts, {perByte}, TensorBuilder::elementOf(packed));
  return b.binary(BinaryKind::ShiftRight,
                  b.broadcast(packed, spread, llvm::to_vector(llvm::seq(rank))),
                  b.broadcast(shifts, spread, {rank}));
}

Value mlir::autopar::unpackedNumbers(TensorBuilder &b, Value packed, unsigned width,
                                     bool highFirst) {
  if (width == 8)
    return packed;
  Shape shape(TensorBuilder::shapeOf(packed));
  shape.back() *= 8 / width;
  return b.reshape(
      b.binary(BinaryKind::And, shiftedNumbers(b, packed, width, highFirst), (1 << width) - 1),
      shape);
}
