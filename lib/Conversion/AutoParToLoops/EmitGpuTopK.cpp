// SPDX-License-Identifier: Apache-2.0
// Up to 32 results per row for a GPU. A warp keeps its best, one per lane, best first. It reads its
// part of the row once; while a lane has an element that is better than the worst that is kept,
// each lane proposes its best one, and the warp sorts the proposals and merges them. The warps of a
// block then merge what they kept. Rows of up to 32 elements lie side by side in a warp, which
// sorts them.
#include "EmitGpuTopK.h"
#include "LoopNest.h"
#include "RowWarps.h"
#include "WarpSort.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::autopar;

/// What a lane holds of a row at once.
static constexpr int64_t bytesPerLane = 32;

namespace {

class TopKEmitter {
public:
  TopKEmitter(const RankedRows &rows, const RowWarps &team)
      : rows(rows), loc(rows.loc), team(team) {}
  GpuGrid emit(OpBuilder &builder);

private:
  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Value less(OpBuilder &b, Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, constant(b, y));
  }
  SmallVector<RankedItem> readRound(OpBuilder &b, Value round);
  RankedItem keepBest(OpBuilder &b, RankedItem kept, ArrayRef<RankedItem> candidates);
  Value isAnyBetter(OpBuilder &b, const RankedItem &best, const RankedItem &kept);
  RankedItem joinWarps(OpBuilder &b, RankedItem kept);

  const RankedRows &rows;
  Location loc;
  const RowWarps &team;
  RowMember member;
  std::optional<WarpSort> network;
  SmallVector<Value> shared; ///< a list of 32 items per warp, a buffer per word
};

GpuGrid TopKEmitter::emit(OpBuilder &builder) {
  member = team.locate(builder, loc);
  network.emplace(rows, builder, member.lane);
  for (Type type : rows.types(builder))
    if (team.warps > 1)
      shared.push_back(emitSharedBuffer(builder, loc, team.warps * kWarpThreads, type));
  emitWhere(builder, loc, member.exists, [&](OpBuilder &where) {
    scf::ForOp loop =
        emitFor(where, loc, constant(where, 0), constant(where, team.rounds()), constant(where, 1),
                rows.none(where), [&](OpBuilder &b, Value round, ValueRange kept) {
                  return keepBest(b, RankedItem(kept), readRound(b, round));
                });
    RankedItem kept = joinWarps(where, RankedItem(loop.getResults()));
    Value isResult = less(where, member.lane, rows.kept());
    if (team.warps > 1)
      isResult = arith::AndIOp::create(where, loc, isResult, less(where, member.warp, 1));
    emitWhere(where, loc, isResult,
              [&](OpBuilder &b) { rows.write(b, member.row, member.lane, kept); });
  });
  return team.grid();
}

SmallVector<RankedItem> TopKEmitter::readRound(OpBuilder &b, Value round) {
  SmallVector<RankedItem> items;
  for (int64_t i = 0; i < team.perRound; ++i) {
    Value vector = team.vectorOf(b, loc, member, round, i), exists;
    if (!team.isExact()) {
      exists = less(b, vector, team.vectors);
      // Lanes without elements read those of another.
      vector = arith::MinUIOp::create(b, loc, vector, constant(b, team.vectors - 1));
    }
    Value first = arith::MulIOp::create(b, loc, vector, constant(b, team.width));
    for (int64_t k = 0; k < team.width; ++k) {
      Value position = arith::AddIOp::create(b, loc, first, constant(b, k));
      RankedItem item = rows.read(b, member.row, position);
      items.push_back(exists ? rows.select(b, exists, item, rows.none(b)) : item);
    }
  }
  return items;
}

Value TopKEmitter::isAnyBetter(OpBuilder &b, const RankedItem &best, const RankedItem &kept) {
  RankedItem worst;
  for (Value word : kept)
    worst.push_back(emitShuffleFrom(b, loc, word, constant(b, rows.kept() - 1)));
  Value everybody = arith::ConstantIntOp::create(b, loc, b.getI32Type(), -1);
  Value votes = NVVM::VoteSyncOp::create(b, loc, b.getI32Type(), everybody,
                                         rows.isBetter(b, best, worst), NVVM::VoteSyncKind::ballot);
  Value nobody = arith::ConstantIntOp::create(b, loc, b.getI32Type(), 0);
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, votes, nobody);
}

/// What the warp keeps after it has seen the candidates, of which each lane has some.
RankedItem TopKEmitter::keepBest(OpBuilder &builder, RankedItem kept,
                                 ArrayRef<RankedItem> candidates) {
  size_t words = kept.size();
  // Values as a loop carries them: items word by word.
  SmallVector<Value> initial(kept);
  for (const RankedItem &item : candidates)
    llvm::append_range(initial, item);
  auto itemOf = [&](ValueRange values, size_t i) {
    return RankedItem(values.slice(i * words, words));
  };
  SmallVector<Type> after(ValueRange(initial).getTypes());
  llvm::append_range(after, ValueRange(kept).getTypes());
  size_t count = candidates.size();
  auto propose = [&](OpBuilder &b, Location, ValueRange values) {
    RankedItem best = itemOf(values, 1);
    for (size_t i = 2; i <= count; ++i)
      best = rows.better(b, best, itemOf(values, i));
    SmallVector<Value> passed(values);
    llvm::append_range(passed, best);
    scf::ConditionOp::create(b, loc, isAnyBetter(b, best, itemOf(values, 0)), passed);
  };
  auto accept = [&](OpBuilder &b, Location, ValueRange values) {
    RankedItem best = itemOf(values, count + 1);
    RankedItem sorted = network->sort(b, best, kWarpThreads, /*isBestFirst=*/false);
    SmallVector<Value> next(network->merge(b, itemOf(values, 0), sorted));
    for (size_t i = 1; i <= count; ++i) {
      RankedItem item = itemOf(values, i);
      llvm::append_range(next, rows.select(b, rows.isSame(b, item, best), rows.none(b), item));
    }
    scf::YieldOp::create(b, loc, next);
  };
  auto loop = scf::WhileOp::create(builder, loc, after, initial, propose, accept);
  return itemOf(loop.getResults(), 0);
}

/// The best of all warps in the first one: half of those that are left merge what the others kept.
/// A warp stores its list once, since another one may read it until the kernel ends.
RankedItem TopKEmitter::joinWarps(OpBuilder &builder, RankedItem kept) {
  auto place = [&](OpBuilder &b, Value warp, Value lane) -> Value {
    Value first = arith::MulIOp::create(b, loc, warp, constant(b, kWarpThreads));
    return arith::AddIOp::create(b, loc, first, lane);
  };
  for (int64_t left = team.warps / 2; left > 0; left /= 2) {
    // Those below `left` become huge numbers.
    Value after = arith::SubIOp::create(builder, loc, member.warp, constant(builder, left));
    emitWhere(builder, loc, less(builder, after, left), [&](OpBuilder &b) {
      for (auto [word, buffer] : llvm::zip_equal(kept, shared))
        storeScalar(b, loc, word, buffer, place(b, member.warp, member.lane), word.getType());
    });
    emitBarrier(builder, loc);
    auto stays = scf::IfOp::create(builder, loc, ValueRange(kept).getTypes(),
                                   less(builder, member.warp, left), /*withElseRegion=*/true);
    OpBuilder b = stays.getThenBodyBuilder(), otherwise = stays.getElseBodyBuilder();
    Value other = arith::AddIOp::create(b, loc, member.warp, constant(b, left));
    Value opposite = arith::SubIOp::create(b, loc, constant(b, kWarpThreads - 1), member.lane);
    RankedItem worstFirst;
    for (auto [word, buffer] : llvm::zip_equal(kept, shared))
      worstFirst.push_back(loadScalar(b, loc, buffer, place(b, other, opposite), word.getType()));
    scf::YieldOp::create(b, loc, network->merge(b, kept, worstFirst));
    scf::YieldOp::create(otherwise, loc, kept);
    kept = RankedItem(stays.getResults());
  }
  return kept;
}

/// Rows that fit a warp, as many side by side as do.
GpuGrid emitShortRows(OpBuilder &builder, const RankedRows &rows) {
  Location loc = rows.loc;
  auto constant = [&](int64_t value) { return indexConstant(builder, loc, value); };
  auto less = [&](Value x, int64_t y) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, x, constant(y));
  };
  constexpr int64_t threads = 4 * kWarpThreads;
  int64_t lanes = llvm::bit_ceil<uint64_t>(rows.length());
  GpuGrid grid = GpuGrid::over(rows.rows() * lanes, threads);
  Value number = emitGridIndex(builder, loc, threads);
  Value row = arith::DivUIOp::create(builder, loc, number, constant(lanes));
  Value position = arith::RemUIOp::create(builder, loc, number, constant(lanes));
  Value isRow = less(row, rows.rows()), isElement = less(position, rows.length());
  // Lanes without elements read those of another.
  row = arith::MinUIOp::create(builder, loc, row, constant(rows.rows() - 1));
  Value source = arith::MinUIOp::create(builder, loc, position, constant(rows.length() - 1));
  RankedItem item =
      rows.select(builder, isElement, rows.read(builder, row, source), rows.none(builder));
  item = WarpSort(rows, builder, position).sort(builder, item, lanes, /*isBestFirst=*/true);
  Value isResult = arith::AndIOp::create(builder, loc, isRow, less(position, rows.kept()));
  emitWhere(builder, loc, isResult, [&](OpBuilder &b) { rows.write(b, row, position, item); });
  return grid;
}

} // namespace

std::optional<GpuGrid> autopar::emitGpuTopK(OpBuilder &builder, const RankedRows &rows) {
  std::optional<RowWarps> team = RowWarps::choose(rows.from, rows.element, bytesPerLane);
  // Positions are words of 32 bits, of which the last stands for none.
  if (!team || rows.length() >= std::numeric_limits<uint32_t>::max())
    return std::nullopt;
  if (rows.length() <= kWarpThreads)
    return emitShortRows(builder, rows);
  if (rows.kept() > kWarpThreads)
    return emitGpuBlockSort(builder, rows);
  return TopKEmitter(rows, *team).emit(builder);
}
