// SPDX-License-Identifier: Apache-2.0
// Addresses of the rows along one dimension of a row-major tensor.
#pragma once

#include "ScalarArithmetic.h"

namespace mlir::autopar {

/// Row r is the elements that differ only along `dim`; rows are numbered row-major over the others.
struct RowAddress {
  RowAddress(ArrayRef<int64_t> shape, int64_t dim)
      : length(shape[dim]), stride(llvm::product_of(shape.drop_front(dim + 1))),
        rows(stride * llvm::product_of(shape.take_front(dim))) {}

  /// Flat position of the row's first element.
  Value base(OpBuilder &builder, Location loc, Value row) const {
    if (stride == 1)
      return arith::MulIOp::create(builder, loc, row, indexConstant(builder, loc, length));
    Value inner = indexConstant(builder, loc, std::max<int64_t>(stride, 1));
    Value outer = arith::DivUIOp::create(builder, loc, row, inner);
    Value block = indexConstant(builder, loc, length * stride);
    Value start = arith::MulIOp::create(builder, loc, outer, block);
    Value rest = arith::RemUIOp::create(builder, loc, row, inner);
    return arith::AddIOp::create(builder, loc, start, rest);
  }
  /// Flat position of element `position` of the row that starts at `base`.
  Value element(OpBuilder &builder, Location loc, Value base, Value position) const {
    if (stride != 1)
      position = arith::MulIOp::create(builder, loc, position, indexConstant(builder, loc, stride));
    return arith::AddIOp::create(builder, loc, base, position);
  }

  int64_t length; ///< elements of a row
  int64_t stride; ///< between them
  int64_t rows;
};

} // namespace mlir::autopar
