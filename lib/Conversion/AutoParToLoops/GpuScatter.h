// SPDX-License-Identifier: Apache-2.0
// The kernel of a scatter for a GPU, and how its warps find the updates of their targets.
#pragma once

#include "ScatterEmitter.h"
#include "UpdateList.h"

namespace mlir::autopar {

/// Updates that a warp looks at together, 32 per mask; a bit is set where one falls into its range.
struct Round {
  SmallVector<Value> masks, locals; ///< which updates, and the lane's target within the range
  Value first;                      ///< update
  Value listed; ///< the lane's update (i32), where they do not follow each other
};

/// An update that is applied.
struct Hit {
  Value exists;        ///< none: it always does
  Value update, local; ///< its number, and its target within the range (i32)
};

class GpuScatterEmitter {
public:
  GpuScatterEmitter(ScatterEmitter &scatter, const ScatterShape &shape)
      : scatter(scatter), shape(shape), loc(scatter.loc) {
    divide();
  }
  GpuGrid emit(OpBuilder &builder);

private:
  void divide();
  void locateBatch(OpBuilder &builder, int64_t blocks);
  void locate(OpBuilder &builder, Value unit);
  void emitCopy(OpBuilder &builder);
  void emitRange(OpBuilder &builder);
  void emitListed(OpBuilder &builder, Value warp);
  void applyRange(OpBuilder &builder, int64_t masks, Value endRound,
                  function_ref<Round(OpBuilder &, Value)> read);
  void emitTarget(OpBuilder &builder);
  void storeShares(OpBuilder &builder, ArrayRef<Value> partial);
  /// Calls `body` for each batch of hits; it returns what `carried` becomes.
  SmallVector<Value>
  overBatches(OpBuilder &builder, Value firstRound, Value endRound, ValueRange carried,
              int64_t batch, int64_t masks, function_ref<Round(OpBuilder &, Value)> read,
              function_ref<SmallVector<Value>(OpBuilder &, ArrayRef<Hit>, ValueRange)> body);
  Round readRound(OpBuilder &builder, Value number);
  Round readListed(OpBuilder &builder, const UpdateList &list, Value count, Value number);
  Value ballot(OpBuilder &builder, Value hit);
  Hit takeHit(OpBuilder &builder, Round &round, bool isCertain);

  using Load = Value (ScatterEmitter::*)(OpBuilder &, Value);
  /// The lane's elements of a slice; where the hit does not exist anything, unread.
  SmallVector<Value> load(OpBuilder &builder, Load function, Value slice, Value exists = {});
  /// Those of a target: lanes without elements read none, since others store there.
  SmallVector<Value> loadTarget(OpBuilder &builder, Load function, Value slice, Value exists = {}) {
    return load(builder, function, slice, whereInside(builder, exists));
  }
  void store(OpBuilder &builder, ValueRange elements, Value slice, Value exists = {});
  SmallVector<Value> combine(OpBuilder &builder, ValueRange old, ValueRange updates);
  Value positionOf(OpBuilder &builder, Value slice, int64_t element);

  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Value word(OpBuilder &b, int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  Value add(OpBuilder &b, Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  /// Number `x` of the batch, of all.
  Value fromFirst(OpBuilder &b, Value first, Value x) { return first ? add(b, first, x) : x; }
  Value bitAnd(OpBuilder &b, Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value times(OpBuilder &b, Value x, int64_t y) {
    return arith::MulIOp::create(b, loc, x, constant(b, y));
  }
  Value less(OpBuilder &b, Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, constant(b, y));
  }
  Value isZero(OpBuilder &b, Value x) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, word(b, 0));
  }
  Value select(OpBuilder &b, Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  /// `exists` (none: always), of lanes that have elements.
  Value whereInside(OpBuilder &b, Value exists) {
    return exists && isInside ? bitAnd(b, exists, isInside) : exists ? exists : isInside;
  }
  SmallVector<Value> select(OpBuilder &b, Value condition, ValueRange x, ValueRange y) {
    SmallVector<Value> chosen;
    for (auto [left, right] : llvm::zip_equal(x, y))
      chosen.push_back(select(b, condition, left, right));
    return chosen;
  }
  Value toI32(OpBuilder &b, Value x) {
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), x);
  }
  Value toIndex(OpBuilder &b, Value x) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), x);
  }

  ScatterEmitter &scatter;
  const ScatterShape &shape;
  Location loc;
  int64_t width = 1;  ///< neighbouring elements of a slice that a lane takes
  int64_t parts = 1;  ///< warps that share a slice
  int64_t ranges = 1; ///< of target slices, in each batch
  int64_t rangeSlices = 1;
  int64_t shares = 1;            ///< warps that share the updates of one target
  int64_t masks = 1, rounds = 0; ///< of 32 updates in a round; rounds that all updates are
  Value block;                   ///< number of the block among those of its batch
  Value firstTarget, firstUpdate, endTarget; ///< of the batch, where there are several
  Value lane, low, start; ///< low: the first target; start: the lane's first element
  Value share;            ///< the warp's number among the shares
  Value isInside;         ///< whether the lane has elements, where some have none
};

} // namespace mlir::autopar
