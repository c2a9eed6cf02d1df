// SPDX-License-Identifier: Apache-2.0
// Running combinations for a GPU: the warps of a row take a stretch of it together, each lane
// vectors of neighbouring elements. What lies before a lane in its warp comes by shuffles, what
// lies before a warp through shared memory with one barrier per stretch, and what lies before the
// stretch is carried. Every element is read and written once.
#include "EmitGpuScan.h"
#include "LoopNest.h"
#include "ReduceArithmetic.h"
#include "RowWarps.h"

using namespace mlir;
using namespace mlir::autopar;

/// What a lane holds of a row at once.
static constexpr int64_t bytesPerLane = 64;
/// Rows that a thread walks as fast.
static constexpr int64_t shortRow = 16;

namespace {

/// A vector of a lane: its elements combined one after the other, and where it is.
struct Piece {
  SmallVector<Value> running;
  Value vector, exists; ///< exists: none where it always does
  Value before;         ///< combination of the warp's elements before it in this stretch
};

class ScanEmitter {
public:
  ScanEmitter(CumulativeOp op, const RowWarps &team, Value input, Value output)
      : op(op), loc(op.getLoc()), element(op.getType().getElementType()),
        scalar(getScalarType(element)), address(op.getType().getShape(), op.getDim()), team(team),
        input(input), output(output) {}
  GpuGrid emit(OpBuilder &builder);

private:
  Value combine(OpBuilder &b, Value left, Value right) {
    Scalars s(b, loc, element);
    return runningStep(s, op.getKind(), left, right);
  }
  Value identity(OpBuilder &b) {
    Scalars s(b, loc, element);
    return reduceStart(s, op.getKind());
  }
  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Value less(OpBuilder &b, Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, y);
  }
  Value select(OpBuilder &b, Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  Value offsetOf(OpBuilder &b, Value vector, int64_t k);
  Piece load(OpBuilder &b, Value round, int64_t number);
  void store(OpBuilder &b, const Piece &piece, Value start);
  /// Combination of the lanes up to this one, of a warp of which the first `lanes` matter.
  Value emitLaneScan(OpBuilder &b, Value value, int64_t lanes);
  /// Sets `before` of the pieces; returns the combination of all elements of the warp.
  Value emitWarpScan(OpBuilder &b, MutableArrayRef<Piece> pieces);
  /// Returns the combination of the warps before this one, and of all.
  std::pair<Value, Value> emitBlockScan(OpBuilder &b, Value round, Value total);
  Value emitRound(OpBuilder &b, Value round, Value carried);

  CumulativeOp op;
  Location loc;
  Type element, scalar;
  RowAddress address;
  const RowWarps &team;
  Value input, output, shared, base;
  RowMember member;
};

GpuGrid ScanEmitter::emit(OpBuilder &builder) {
  member = team.locate(builder, loc);
  // Two of each, so that a warp that is ahead writes none that another one reads.
  if (team.warps > 1)
    shared = emitSharedBuffer(builder, loc, 2 * team.warps, scalar);
  emitWhere(builder, loc, member.exists, [&](OpBuilder &where) {
    base = address.base(where, loc, member.row);
    emitFor(where, loc, constant(where, 0), constant(where, team.rounds()), constant(where, 1),
            identity(where), [&](OpBuilder &b, Value round, ValueRange carried) {
              return SmallVector<Value>{emitRound(b, round, carried[0])};
            });
  });
  return team.grid();
}

Value ScanEmitter::emitRound(OpBuilder &b, Value round, Value carried) {
  SmallVector<Piece> pieces;
  for (int64_t i = 0; i < team.perRound; ++i)
    pieces.push_back(load(b, round, i));
  Value total = emitWarpScan(b, pieces), start = carried;
  if (team.warps > 1) {
    auto [before, all] = emitBlockScan(b, round, total);
    start = combine(b, carried, before);
    total = all;
  }
  for (const Piece &piece : pieces)
    store(b, piece, combine(b, start, piece.before));
  return combine(b, carried, total);
}

/// Where element k of a vector lies; vectors are counted in the order in which they are combined.
Value ScanEmitter::offsetOf(OpBuilder &b, Value vector, int64_t k) {
  if (op.getReverse()) {
    vector = arith::SubIOp::create(b, loc, constant(b, team.vectors - 1), vector);
    k = team.width - 1 - k;
  }
  Value first = arith::MulIOp::create(b, loc, vector, constant(b, team.width));
  return address.element(b, loc, base, arith::AddIOp::create(b, loc, first, constant(b, k)));
}

Piece ScanEmitter::load(OpBuilder &b, Value round, int64_t number) {
  Piece piece;
  piece.vector = team.vectorOf(b, loc, member, round, number);
  if (!team.isExact()) {
    piece.exists = less(b, piece.vector, constant(b, team.vectors));
    // Lanes without elements read those of another.
    piece.vector = arith::MinUIOp::create(b, loc, piece.vector, constant(b, team.vectors - 1));
  }
  Value none = identity(b);
  for (int64_t k = 0; k < team.width; ++k) {
    Value own = loadScalar(b, loc, input, offsetOf(b, piece.vector, k), element);
    if (piece.exists)
      own = select(b, piece.exists, own, none);
    piece.running.push_back(k == 0 ? own : combine(b, piece.running.back(), own));
  }
  return piece;
}

void ScanEmitter::store(OpBuilder &builder, const Piece &piece, Value start) {
  emitWhere(builder, loc, piece.exists, [&](OpBuilder &b) {
    Value before = start;
    for (int64_t k = 0; k < team.width; ++k) {
      Value after = combine(b, start, piece.running[k]);
      storeScalar(b, loc, op.getExclusive() ? before : after, output, offsetOf(b, piece.vector, k),
                  element);
      before = after;
    }
  });
}

Value ScanEmitter::emitLaneScan(OpBuilder &b, Value value, int64_t lanes) {
  for (int64_t by = 1; by < lanes; by *= 2) {
    Value joined = combine(b, emitShuffleUp(b, loc, value, by), value);
    value = select(b, less(b, member.lane, constant(b, by)), value, joined);
  }
  return value;
}

Value ScanEmitter::emitWarpScan(OpBuilder &b, MutableArrayRef<Piece> pieces) {
  Value isFirst = less(b, member.lane, constant(b, 1)), none = identity(b), total;
  for (Piece &piece : pieces) {
    Value upTo = emitLaneScan(b, piece.running.back(), kWarpThreads);
    piece.before = select(b, isFirst, none, emitShuffleUp(b, loc, upTo, 1));
    Value all = emitShuffleFrom(b, loc, upTo, constant(b, kWarpThreads - 1));
    if (total)
      piece.before = combine(b, total, piece.before);
    total = total ? combine(b, total, all) : all;
  }
  return total;
}

std::pair<Value, Value> ScanEmitter::emitBlockScan(OpBuilder &b, Value round, Value total) {
  Value parity = arith::RemUIOp::create(b, loc, round, constant(b, 2));
  Value side = arith::MulIOp::create(b, loc, parity, constant(b, team.warps));
  auto place = [&](OpBuilder &inner, Value warp) -> Value {
    return arith::AddIOp::create(inner, loc, side, warp);
  };
  emitWhere(b, loc, less(b, member.lane, constant(b, 1)), [&](OpBuilder &where) {
    storeScalar(where, loc, total, shared, place(where, member.warp), scalar);
  });
  emitBarrier(b, loc);
  Value last = constant(b, team.warps - 1);
  Value warp = arith::MinUIOp::create(b, loc, member.lane, last);
  Value upTo = emitLaneScan(b, loadScalar(b, loc, shared, place(b, warp), scalar), team.warps);
  // The first warp, which has none before it, asks for anything.
  Value isFirst = less(b, member.warp, constant(b, 1)), one = constant(b, 1);
  Value previous =
      arith::SubIOp::create(b, loc, arith::MaxUIOp::create(b, loc, member.warp, one), one);
  Value before = select(b, isFirst, identity(b), emitShuffleFrom(b, loc, upTo, previous));
  return {before, emitShuffleFrom(b, loc, upTo, last)};
}

} // namespace

SmallVector<int64_t> autopar::emitGpuScan(OpBuilder &builder, CumulativeOp op, Value input,
                                          Value output) {
  RowAddress address(op.getType().getShape(), op.getDim());
  if (address.length <= shortRow)
    return {};
  std::optional<RowWarps> team =
      RowWarps::choose(address, op.getType().getElementType(), bytesPerLane);
  if (!team || address.rows == 0)
    return {};
  GpuGrid grid = ScanEmitter(op, *team, input, output).emit(builder);
  return {grid.blocks, grid.threads};
}
