// SPDX-License-Identifier: Apache-2.0
// Vectors of sums of i32, to which products of bytes are added by the instructions of a processor.
#pragma once

#include "autopar/Transforms/ByteSums.h"

#include "mlir/IR/Builders.h"

namespace mlir::autopar {

class ByteDotSums {
public:
  /// As many vectors as `sums` has, of what was added before; `bits` of numbers without a sign, no
  /// more than the instructions sum exactly.
  ByteDotSums(Location loc, ByteDots dots, int64_t bits, ArrayRef<Value> sums);
  /// The vectors are 0.
  ByteDotSums(OpBuilder &builder, Location loc, ByteDots dots, int64_t bits, int64_t vectors);

  /// vector<i8> both.
  void add(OpBuilder &builder, size_t vector, Value withoutSign, Value withSign);
  /// vector<i32>, all that was added.
  SmallVector<Value> take(OpBuilder &builder);

  /// The vectors of a processor: i8, i32.
  static VectorType bytes(OpBuilder &builder, ByteDots dots);
  static VectorType sums(OpBuilder &builder, ByteDots dots);

private:
  void flush(OpBuilder &builder, size_t vector);

  Location loc;
  ByteDots dots;
  int64_t mostPairs;         ///< whose sum 16 bits hold
  SmallVector<Value> total;  ///< i32
  SmallVector<Value> narrow; ///< i16, of the last `pairs`; null: none
  SmallVector<int64_t> pairs;
};

} // namespace mlir::autopar
