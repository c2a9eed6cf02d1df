// SPDX-License-Identifier: Apache-2.0
// Where extents vary in the values of a function.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mlir::autopar {

/// An extent that varies in a dimension of a value: position p of the dimension is position
/// p / inner % size of the extent, of which the last ones may be missing.
struct Varying {
  StringAttr extent;
  int64_t dim, size, inner = 1;
  /// What stands behind the end is zero.
  bool isZero = false;
  /// Positions of something else, behind all of the extent's.
  int64_t tail = 0;

  bool isSamePlace(const Varying &other) const {
    return extent == other.extent && dim == other.dim && size == other.size &&
           inner == other.inner && tail == other.tail;
  }
  /// The same, where nothing is known of what stands behind the end.
  Varying withoutZeros() const {
    Varying other = *this;
    other.isZero = false;
    return other;
  }
  /// Whether it is all of its dimension of a value.
  bool isAllOf(Value value) const {
    return inner == 1 && cast<RankedTensorType>(value.getType()).getDimSize(dim) == size;
  }
};
using VaryingList = SmallVector<Varying, 1>;

/// Entries of the lists that `autopar/Transforms/VaryingExtents.h` names; none where there is no
/// list.
ArrayRef<Attribute> entriesOf(Attribute list);
int64_t numberIn(DictionaryAttr entry, StringRef name);
/// Whether an entry of a list of `op` is of this dimension and extent.
bool hasEntry(Operation *op, StringRef list, int64_t dim, StringAttr extent);

/// "'seq' cannot vary: autopar.slice ", to be gone on with.
InFlightDiagnostic refuseToVary(Operation *op, StringAttr extent);

class VaryingDims {
public:
  /// Those of the arguments.
  explicit VaryingDims(func::FuncOp function);

  bool empty() const { return known.empty(); }
  bool contains(Value value) const { return known.contains(value); }
  /// A copy: others may be added while it is walked.
  VaryingList of(Value value) const { return known.lookup(value); }
  void add(Value value, Varying varying);
  /// Positions that an extent may be missing at most.
  int64_t mostMissing(StringAttr extent) const { return missing.lookup(extent); }
  /// What `kVaryingAttribute` says of a value; null where nothing varies.
  ArrayAttr describe(Value value) const;

private:
  DenseMap<Value, VaryingList> known;
  DenseMap<StringAttr, int64_t> missing;
};

} // namespace mlir::autopar
