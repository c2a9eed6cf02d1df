// SPDX-License-Identifier: Apache-2.0
// A tensor value taken apart for evaluation at compile time: row-major f64 or 64-bit integers.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <optional>
#include <vector>

namespace mlir::autopar {

/// Elements of a tensor: `floats` for float element types, `integers` for all others (sign- or
/// zero-extended; i1 is 0 or 1). A splat holds one element.
struct ConstantTable {
  RankedTensorType type;
  std::vector<double> floats;
  std::vector<int64_t> integers;
  bool splat = false;

  bool isFloat() const { return isa<FloatType>(type.getElementType()); }
  bool isUnsigned() const { return type.getElementType().isUnsignedInteger(); }
  size_t size() const { return isFloat() ? floats.size() : integers.size(); }
  double number(size_t i) const { return splat ? floats[0] : floats[i]; }
  int64_t integer(size_t i) const { return splat ? integers[0] : integers[i]; }

  /// An empty table of `type` with room for `count` elements.
  static ConstantTable make(RankedTensorType type, size_t count);
  static ConstantTable decode(DenseElementsAttr value);
  /// Rounds to the element type; finds splats.
  DenseElementsAttr encode() const;
  /// Element `from` of `source` into place `to`.
  void copyElement(size_t to, const ConstantTable &source, size_t from);
};

/// `value` wrapped to the width and signedness of an integer type.
int64_t wrapInteger(int64_t value, Type element);

/// Steps `index` through `shape` in row-major order; false after the last one.
bool nextIndex(SmallVectorImpl<int64_t> &index, ArrayRef<int64_t> shape);

/// Elementwise operations (unary, binary, compare, select, cast) over operands of `count` elements
/// each; nothing where undefined.
std::optional<ConstantTable> evaluateElementwise(Operation *op, ArrayRef<ConstantTable> operands,
                                                 RankedTensorType type, size_t count);

} // namespace mlir::autopar
