// SPDX-License-Identifier: Apache-2.0
// For few rows: a kernel multiplies bytes where it reads them, and sums them up as integers.
#include "ProductInBlocks.h"

#include "autopar/Transforms/FewRows.h"

using namespace mlir;
using namespace mlir::autopar;

/// i32 [rows, columns, blocks] of bytes [rows, parts, blocks, bytes] and numbers [columns, blocks,
/// bytes, parts], which are [rows, columns, parts, blocks, bytes] before they are summed.
Value ProductInBlocks::byteSums(Value bytes, Value numbers, const Twine &suffix) {
  ArrayRef<int64_t> shape = typeOf(bytes).getShape();
  int64_t all[] = {shape[0], columns(), shape[1], shape[2], shape[3]};
  auto wide = [&](Value bytes, ArrayRef<int64_t> dims, const Twine &suffix) {
    return cast(repeated(bytes, all, dims, suffix + ".repeated"), builder.getI32Type(),
                suffix + ".wide");
  };
  numbers = transposed(numbers, {0, 3, 1, 2}, suffix + "/weights.in.parts");
  Value terms = binary(BinaryKind::Mul, wide(bytes, {0, 2, 3, 4}, suffix + "/rows"),
                       wide(numbers, {1, 2, 3, 4}, suffix + "/weights"), suffix + "/terms");
  Value sum = reduced(ReduceKind::Sum, terms, {2, 4}, suffix + "/byte.sums");
  sum.getDefiningOp()->setAttr(kByteSum, builder.getStringAttr(nameOf(dots)));
  return sum;
}

void ProductInBlocks::multiplyBytes(const RoundedRows &lhs, const WeightsInBlocks &rhs) {
  int64_t sums[] = {rows(), columns(), blocks()}, bits = mostBitsOf(dots);
  Value sum;
  if (8 / rhs.parts() <= bits) {
    sum = byteSums(lhs.bytes, rhs.numbers, "");
  } else { // in halves: 16 times the high one, and the low one
    Value high = binary(BinaryKind::ShiftRight, rhs.numbers, whole(bits, rhs.numbers, "/high.bits"),
                        "/high");
    Value low = binary(BinaryKind::And, rhs.numbers,
                       whole((1 << bits) - 1, rhs.numbers, "/low.bits"), "/low");
    Value ofHigh = byteSums(lhs.bytes, high, "/high"), ofLow = byteSums(lhs.bytes, low, "/low");
    sum = binary(BinaryKind::Mul, ofHigh, whole(1 << bits, ofHigh, "/high.step"), "/high.sums");
    sum = binary(BinaryKind::Add, sum, ofLow, "/sums.of.both");
  }
  sum = cast(sum, builder.getF32Type(), "/block.sums");
  auto ofRows = [&](Value value, const Twine &suffix) {
    return repeated(value, sums, {0, 2}, suffix);
  };
  auto ofColumns = [&](Value value, const Twine &suffix) {
    bool isSingle = typeOf(value).getRank() == 0;
    return repeated(value, sums, isSingle ? ArrayRef<int64_t>() : ArrayRef<int64_t>{1, 2}, suffix);
  };
  if (rhs.zeros)
    sum = binary(BinaryKind::Sub, sum,
                 binary(BinaryKind::Mul, ofRows(lhs.sums, "/rows.sums"),
                        ofColumns(rhs.zeros, "/zeros"), "/zero.sums"),
                 "/less.zeros");
  Value scales = binary(BinaryKind::Mul, ofRows(lhs.scales, "/rows.scales"),
                        ofColumns(rhs.scales, "/weights.scales"), "/scales.of.both");
  Value result =
      reduced(ReduceKind::Sum, binary(BinaryKind::Mul, sum, scales, "/of.blocks"), {2}, "");
  result.getDefiningOp()->setAttr(kFewRows, builder.getUnitAttr());
  replaceProduct(result);
}
