// SPDX-License-Identifier: Apache-2.0
// The choice of as many warps per row as keep the GPU busy, and where they find their elements.
#include "RowWarps.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::autopar;

/// Warps from which on more of them do not make a GPU faster.
static constexpr int64_t manyWarps = 8192;
static constexpr int64_t mostWarps = 32, rowsOfABlock = 4;
/// Bytes of the first elements of all vectors that a lane takes at once, at most: each of them
/// needs a few registers beside its elements.
static constexpr int64_t mostFirstBytes = 32;

static int64_t divideUp(int64_t a, int64_t b) { return a / b + (a % b != 0); }

std::optional<RowWarps> RowWarps::choose(const RowAddress &address, Type element,
                                         int64_t bytesPerLane) {
  // Neighbouring threads read neighbouring elements of such rows.
  if (address.stride > 1 && address.rows >= manyWarps)
    return std::nullopt;
  RowWarps team;
  team.rows = std::max<int64_t>(address.rows, 1);
  if (address.stride == 1) {
    team.width = 16 * 8 / getStorageType(element).getIntOrFloatBitWidth();
    while (address.length % team.width != 0)
      team.width /= 2;
  }
  team.vectors = address.length / team.width;
  // Narrow elements take a register each.
  int64_t bytes = std::max(getScalarType(element).getIntOrFloatBitWidth() / 8, 4u);
  team.perRound =
      std::clamp<int64_t>(bytesPerLane / (team.width * bytes), 1, mostFirstBytes / bytes);
  int64_t useful = divideUp(team.vectors, kWarpThreads * team.perRound);
  int64_t idle = std::clamp<int64_t>(manyWarps / team.rows, 1, mostWarps);
  team.warps = std::min<int64_t>(llvm::bit_floor<uint64_t>(idle), llvm::bit_ceil<uint64_t>(useful));
  team.perRound = std::min(team.perRound, divideUp(team.vectors, kWarpThreads * team.warps));
  if (team.warps == 1)
    team.rowsPerBlock = std::min(rowsOfABlock, team.rows);
  return team;
}

RowMember RowWarps::locate(OpBuilder &builder, Location loc) const {
  auto constant = [&](int64_t value) { return indexConstant(builder, loc, value); };
  Value thread = emitThreadIndex(builder, loc), block = emitBlockIndex(builder, loc);
  RowMember member;
  member.lane = emitLaneIndex(builder, loc);
  Value warp = arith::DivUIOp::create(builder, loc, thread, constant(kWarpThreads));
  if (warps > 1) {
    // Else the assembler spills registers for more blocks.
    builder.getBlock()->getParentOp()->setAttr("autopar.few_blocks", builder.getUnitAttr());
    member.warp = warp;
    member.row = block;
    return member;
  }
  member.warp = constant(0);
  Value first = arith::MulIOp::create(builder, loc, block, constant(rowsPerBlock));
  member.row = arith::AddIOp::create(builder, loc, first, warp);
  if (rows % rowsPerBlock != 0)
    member.exists =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, member.row, constant(rows));
  return member;
}

Value RowWarps::vectorOf(OpBuilder &builder, Location loc, const RowMember &member, Value round,
                         int64_t number) const {
  auto scaled = [&](Value value, int64_t by) {
    return arith::MulIOp::create(builder, loc, value, indexConstant(builder, loc, by)).getResult();
  };
  auto add = [&](Value a, Value b) {
    return arith::AddIOp::create(builder, loc, a, b).getResult();
  };
  Value first = add(scaled(round, vectorsPerRound()), scaled(member.warp, kWarpThreads * perRound));
  return add(add(first, member.lane), indexConstant(builder, loc, number * kWarpThreads));
}
