// SPDX-License-Identifier: Apache-2.0
// Elements of a row and their positions as integers whose order is that of a sort, so that threads
// of a GPU compare, move and keep them without asking what they were.
#pragma once

#include "RowAddress.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// An element and where it stood. Elements of up to 32 bits are one word with the position below
/// them; others have it beside them.
using RankedItem = SmallVector<Value>;

/// The rows that a top_k reads and writes.
class RankedRows {
public:
  RankedRows(TopKOp op, Value input, Value values, Value indices);

  int64_t length() const { return from.length; }
  int64_t kept() const { return to.length; }
  int64_t rows() const { return from.rows; }

  /// Types of the words of an item.
  SmallVector<Type> types(OpBuilder &builder) const;
  /// The item at `position` of a row.
  RankedItem read(OpBuilder &builder, Value row, Value position) const;
  /// Writes the element of an item, and its position, as number `rank` of the row's results.
  void write(OpBuilder &builder, Value row, Value rank, const RankedItem &item) const;

  /// What is worse than every item.
  RankedItem none(OpBuilder &builder) const;
  /// Whether `a` belongs before `c`; never where they are the same.
  Value isBetter(OpBuilder &builder, const RankedItem &a, const RankedItem &c) const;
  Value isSame(OpBuilder &builder, const RankedItem &a, const RankedItem &c) const;
  RankedItem select(OpBuilder &builder, Value condition, const RankedItem &a,
                    const RankedItem &c) const;
  RankedItem better(OpBuilder &builder, const RankedItem &a, const RankedItem &c) const {
    return select(builder, isBetter(builder, a, c), a, c);
  }

  Location loc;
  Type element;
  RowAddress from, to;

private:
  bool isPacked() const { return getScalarType(element).getIntOrFloatBitWidth() <= 32; }
  Value keyOf(OpBuilder &builder, Value scalar) const;

  bool isSmallest;
  Value input, values, indices;
};

} // namespace mlir::autopar
