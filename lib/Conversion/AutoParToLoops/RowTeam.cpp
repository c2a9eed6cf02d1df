// SPDX-License-Identifier: Apache-2.0
// The choice of a team: enough threads to keep the memory busy, few enough that a thread has
// several loads under way, and the whole row in registers where that fits.
#include "RowTeam.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::autopar;

/// Threads from which on more of them do not make a GPU faster.
static constexpr int64_t manyThreads = 1 << 16;
/// Blocks from which on a thread takes several columns instead of more blocks one.
static constexpr int64_t manyBlocks = 256;
/// Elements that a thread holds at once: of a row that several warps share, and of one that a warp
/// has alone, which needs no shared memory and no barrier.
static constexpr int64_t mostHeld = 16, mostHeldAlone = 32;
/// Tensors of which a thread has registers for that many elements each; of more, for half of them.
static constexpr int64_t mostTensors = 8;

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

RowTeam RowTeam::choose(const RowSpace &space) {
  auto [rows, length, width, columns, columnWidth, isDivisible, tensors] = space;
  RowTeam team;
  bool isShort = length <= (columns > 0 ? 64 : 16);
  if (!isDivisible || isShort || (columns > 0 && rows / columnWidth >= manyThreads)) {
    team.rowsPerBlock = rows >= manyThreads ? 128 : 32;
    team.perRound = std::clamp<int64_t>(length, 1, columns > 0 ? 4 : mostHeld);
  } else if (columns > 0) {
    team.kind = Kind::Column;
    team.columns = columnWidth;
    while (team.columns > 1 && rows / (kWarp * team.columns) < manyBlocks)
      team.columns /= 2;
    bool isWide = team.columns > 1;
    team.warps = std::clamp<int64_t>(divideUp(length, isWide ? 32 : 16), 1, 16);
    team.perRound = std::clamp<int64_t>(divideUp(length, team.warps), 1, isWide ? 8 : 4);
  } else {
    team.width = width;
    bool areMany = rows >= 512;
    int64_t vectors = length / width, mostWarps = areMany ? 16 : 32;
    int64_t held = !areMany ? 4 : length <= kWarp * mostHeldAlone ? mostHeldAlone : mostHeld;
    held = tensors > mostTensors ? held / 2 : held;
    int64_t most = std::max<int64_t>(held / width, 1);
    team.warps = std::clamp<int64_t>(divideUp(vectors, kWarp * most), 1, mostWarps);
    // Warps that divide the row evenly need no checks.
    for (int64_t warps = team.warps; warps <= mostWarps; ++warps)
      if (vectors % (kWarp * warps) == 0 && vectors / (kWarp * warps) <= most) {
        team.warps = warps;
        break;
      }
    team.perRound = std::clamp<int64_t>(divideUp(vectors, kWarp * team.warps), 1, most);
    team.kind = team.warps == 1 ? Kind::Warp : Kind::Block;
    team.rowsPerBlock = team.kind == Kind::Warp ? 4 : 1;
    // Many rows of a few vectors share a warp, which has a row for all of its lanes or for none.
    int64_t lanes = std::max<int64_t>(llvm::PowerOf2Ceil(vectors), 2);
    if (lanes < kWarp && rows * lanes >= manyThreads && rows % (kWarp / lanes) == 0) {
      team.lanes = lanes;
      team.rowsPerBlock *= kWarp / lanes;
    }
  }
  int64_t together = team.members() * team.perRound, vectors = length / team.width;
  team.rounds = divideUp(vectors, together);
  team.isExact = vectors == together * team.rounds;
  return team;
}
