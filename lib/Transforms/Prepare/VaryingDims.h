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
  int64_t dim = 0, size = 0;
  /// Positions that go missing together with each step of the extent's range.
  int64_t pace = 1;
  int64_t inner = 1;
  /// What stands behind the end is zero.
  bool isZero = false;
  /// Positions of something else, behind all of the extent's.
  int64_t tail = 0;

  bool isSamePlace(const Varying &other) const {
    return extent == other.extent && dim == other.dim && size == other.size && pace == other.pace &&
           inner == other.inner && tail == other.tail;
  }
  /// The same, where nothing is known of what stands behind the end.
  Varying withoutZeros() const {
    Varying other = *this;
    other.isZero = false;
    return other;
  }
  /// The same, in groups of `count` neighbours; nothing where the end does not fall between two.
  std::optional<Varying> inGroupsOf(int64_t count) const {
    if (tail > 0 || size % count != 0 || pace % count != 0)
      return std::nullopt;
    Varying groups = *this;
    groups.size /= count;
    groups.pace /= count;
    groups.inner *= count;
    return groups;
  }
  /// Whether it is all of its dimension of a value.
  bool isAllOf(Value value) const {
    return inner == 1 && cast<RankedTensorType>(value.getType()).getDimSize(dim) == size;
  }
};
using VaryingList = SmallVector<Varying, 1>;

/// Entries of the lists that `autopar/Transforms/VaryingExtents.h` names; none where there is no
/// list. Of an entry, a number, or what counts where it is not there.
ArrayRef<Attribute> entriesOf(Attribute list);
int64_t numberIn(DictionaryAttr entry, StringRef name, int64_t otherwise = 0);
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
  /// From the least of an extent to its most.
  int64_t stepsOf(const Varying &varying) const { return steps.lookup(varying.extent); }
  /// Positions of a dimension that may be missing at most, and that there are at least.
  int64_t mostMissing(const Varying &varying) const { return stepsOf(varying) * varying.pace; }
  int64_t least(const Varying &varying) const { return varying.size - mostMissing(varying); }
  /// What `kVaryingAttribute` says of a value; null where nothing varies.
  ArrayAttr describe(Value value) const;

private:
  DenseMap<Value, VaryingList> known;
  DenseMap<StringAttr, int64_t> steps; ///< of the range of each extent
};

} // namespace mlir::autopar
