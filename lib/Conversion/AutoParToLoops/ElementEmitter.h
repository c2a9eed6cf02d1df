// SPDX-License-Identifier: Apache-2.0
// The substitution machine: the element of any value of a group at any index, from memory where it
// stands in memory, else from its operation's formula.
#pragma once

#include "KernelPlan.h"

namespace mlir::autopar {

/// Elements that were stored on the way, to be read instead of computed again.
struct KeptElements {
  Value memref;      ///< flat
  AffineExpr offset; ///< over atoms
  Type elementType;  ///< of the elements, as a tensor would have it
  explicit operator bool() const { return static_cast<bool>(memref); }
};

/// A value that belongs to the current row: a scalar, or one element per column in a buffer.
struct RowValue {
  Value scalar;
  KeptElements perColumn;
};

/// The results of a row operation's finished passes for the current row.
struct RowState {
  /// Per finished pass.
  SmallVector<SmallVector<RowValue>> values;
  /// The elements of pass keptPass.
  KeptElements kept;
  int64_t keptPass = -1;
};

class ElementEmitter {
public:
  ElementEmitter(const GroupBody &body, const KernelPlan &plan, ValueRange inputs);

  /// Says what loop dimension `loop` of the plan (or another atom) is from here on.
  void bind(unsigned atom, Value index);
  /// Forgets what was emitted: from here on atoms may stand for other positions in the same block.
  void forget() { memo.clear(); }
  void rebind(unsigned atom, Value index) {
    bind(atom, index);
    forget();
  }
  /// A further dimension of index expressions, for an index that is not a loop of the plan.
  unsigned addAtom(int64_t extent, Value index = {});

  /// Says where a loop runs from here on: first and last position.
  void limit(unsigned atom, int64_t first, int64_t last) { limits[atom] = {first, last}; }
  /// Where an index lies, first and last position; nothing if that is not known.
  std::optional<std::pair<int64_t, int64_t>> rangeOf(AffineExpr index) const;

  /// Emits `expr` as an index.
  Value materialize(OpBuilder &builder, AffineExpr expr);
  /// The expression that an index value stands for.
  AffineExpr expressionOf(Value index);
  /// The memory that an input stands in; null for other values.
  Value bufferOf(Value input) const { return memrefs.lookup(input); }
  /// Where in it the element at `index` is.
  Value offsetOf(OpBuilder &builder, Value input, ArrayRef<AffineExpr> index);
  /// The scalar of `value` at `index`.
  Value evaluate(OpBuilder &builder, Value value, SmallVector<AffineExpr> index);
  Value loadAt(OpBuilder &builder, const KeptElements &kept);
  void storeAt(OpBuilder &builder, const KeptElements &kept, Value scalar);

  // Row passes of an operation at an index of its row domain.
  Value emitRowElement(OpBuilder &builder, ElementLoweringOpInterface op, int64_t pass,
                       ArrayRef<AffineExpr> index, RowState &state);
  SmallVector<Value> emitRowStep(OpBuilder &builder, ElementLoweringOpInterface op, int64_t pass,
                                 Value element, ValueRange accumulators, ArrayRef<AffineExpr> index,
                                 RowState &state);
  /// Row values after `pass`, read from their buffers if they are there.
  SmallVector<Value> rowValues(OpBuilder &builder, RowState &state, int64_t pass);

  /// State of a row operation of the plan.
  RowState &stateOf(Operation *op) { return states[op]; }
  /// The element of an input at the current point, if it was loaded since the last forget().
  Value loadedHere(Value input) const;
  /// From now on `value` at the current point is read from `kept`.
  void keep(Value value, KeptElements kept) { keptValues[value] = kept; }
  /// From now on this read of an input takes the copy in `kept`.
  void keepRead(const PlannedRead &read, KeptElements kept) { keptReads.push_back({read, kept}); }
  bool isKept(Value value) const { return keptValues.contains(value); }
  /// From now on a condition holds, or does not, everywhere.
  void assume(Value condition, bool holds) { assumed[condition] = holds; }
  void stopAssuming() { assumed.clear(); }

  const KernelPlan &plan;
  const GroupBody &body;
  Location loc;

private:
  friend class Frame;
  Value evaluateFormula(OpBuilder &builder, OpResult value, ArrayRef<AffineExpr> index);
  Value emitRowInline(OpBuilder &builder, OpResult value, ArrayRef<AffineExpr> index);
  Value loadInput(OpBuilder &builder, Value input, Value memref, ArrayRef<AffineExpr> index);
  bool isVisible(Value value, OpBuilder &builder) const;

  MLIRContext *context;
  DenseMap<Value, Value> memrefs;
  SmallVector<int64_t> extents;
  SmallVector<Value> atoms;
  DenseMap<unsigned, std::pair<int64_t, int64_t>> limits;
  DenseMap<Value, AffineExpr> known;
  DenseMap<Operation *, RowState> states;
  DenseMap<Value, KeptElements> keptValues;
  DenseMap<Value, bool> assumed;
  SmallVector<std::pair<PlannedRead, KeptElements>> keptReads;
  std::map<std::pair<void *, std::vector<const void *>>, Value> memo;
};

} // namespace mlir::autopar
