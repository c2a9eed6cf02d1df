// SPDX-License-Identifier: Apache-2.0
// C++ side of the lowering interfaces: how an operation reads the elements of its operands while
// its own element is being emitted, and on which rows it works.
#pragma once

#include "mlir/IR/AffineMap.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::autopar {

/// The iteration space of an operation that combines elements along dimensions.
struct RowDomain {
  /// Extents of all dimensions, combined ones included.
  SmallVector<int64_t> shape;
  /// Ascending positions in `shape` of the dimensions that are combined: together they are a row.
  SmallVector<int64_t> rowDims;
  /// Whether the result has only the other dimensions (reduce) or the whole shape (softmax).
  bool reduces = true;

  /// Whether the operation combines elements at all.
  explicit operator bool() const { return !rowDims.empty(); }
  bool isRowDim(int64_t dim) const { return llvm::is_contained(rowDims, dim); }
  /// Same iteration space: operations that agree can share their loops.
  bool agrees(const RowDomain &other) const {
    return shape == other.shape && rowDims == other.rowDims;
  }
};

/// Gives access to operand elements while one element of an operation is emitted. Whether an
/// element comes from memory, a row buffer or the producer's own formula is the loader's business.
/// Scalars travel in the element type, with two exceptions: narrower floats than f32 travel as f32
/// (rounded when stored or cast), and unsigned integers travel signless.
class ElementLoader {
public:
  virtual ~ElementLoader() = default;

  /// The element of operand `operand` at the operation's own operand map.
  virtual Value load(OpBuilder &builder, unsigned operand) = 0;
  /// The element at `map` of the current index. Preferred over explicit indices, because the loader
  /// sees through it when it decides on loops and addresses.
  virtual Value load(OpBuilder &builder, unsigned operand, AffineMap map) = 0;
  /// The element at explicit indices (index-typed, one per operand dimension).
  virtual Value load(OpBuilder &builder, unsigned operand, ValueRange indices) = 0;
  /// Position along dimension `dim` of the result (in row passes: of the row domain). Only for
  /// dimensions that getPositionDimensions names.
  virtual Value index(OpBuilder &builder, unsigned dim) = 0;
  /// Where the position along dimension `dim` lies, first and last position included, as far as the
  /// loops tell; nothing if they do not.
  virtual std::optional<std::pair<int64_t, int64_t>> range(unsigned dim) = 0;
  /// The values that the last finished row pass left behind.
  virtual ValueRange rowValues() = 0;
  /// The row element as the previous pass (in emitElement: the last one) emitted it.
  virtual Value rowElement(OpBuilder &builder) = 0;
};

} // namespace mlir::autopar

#include "autopar/Interfaces/LoweringInterface.h.inc"
