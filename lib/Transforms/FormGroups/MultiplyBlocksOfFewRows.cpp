// SPDX-License-Identifier: Apache-2.0
// For few rows: a kernel multiplies bytes where it reads them, and sums them up as integers.
#include "ProductInBlocks.h"

#include "autopar/Transforms/ByteSums.h"
#include "autopar/Transforms/FewRows.h"

using namespace mlir;
using namespace mlir::autopar;

/// [rows, columns, parts, blocks, bytes], of which parts and bytes are summed as integers.
void ProductInBlocks::multiplyBytes(const RoundedRows &lhs, const WeightsInBlocks &rhs) {
  int64_t parts = rhs.parts();
  int64_t all[] = {rows(), columns(), parts, blocks(), block / parts};
  int64_t sums[] = {rows(), columns(), blocks()};
  auto wide = [&](Value bytes, ArrayRef<int64_t> dims, const Twine &suffix) {
    return cast(repeated(bytes, all, dims, suffix + ".repeated"), builder.getI32Type(),
                suffix + ".wide");
  };
  Value numbers = transposed(rhs.numbers, {0, 3, 1, 2}, "/weights.in.parts");
  Value terms = binary(BinaryKind::Mul, wide(lhs.bytes, {0, 2, 3, 4}, "/rows"),
                       wide(numbers, {1, 2, 3, 4}, "/weights"), "/terms");
  Value sum = reduced(ReduceKind::Sum, terms, {2, 4}, "/byte.sums");
  sum.getDefiningOp()->setAttr(kByteSum, builder.getUnitAttr());
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
