// SPDX-License-Identifier: Apache-2.0
// How the threads of a GPU share rows: which threads are a team that works on one row, and how many
// elements each of them holds at once.
#pragma once

#include "KernelPlan.h"

namespace mlir::autopar {

/// What a kernel has rows of.
struct RowSpace {
  int64_t rows = 1;
  int64_t length = 1;      ///< elements of a row
  int64_t width = 1;       ///< neighbouring elements of a row that may be taken at once
  int64_t columns = 0;     ///< where memory is contiguous across rows: across that many
  int64_t columnWidth = 1; ///< neighbouring rows that a thread may take at once there
  bool isDivisible = true; ///< whether several threads may share a row
  int64_t tensors = 1;     ///< that have an element for each of a row, read or written
};

struct RowTeam {
  static constexpr int64_t kWarp = 32;
  enum class Kind {
    Thread, ///< a thread per row; neighbouring threads take neighbouring rows
    Warp,   ///< a warp per row, or `lanes` of it
    Block,  ///< a block per row
    Column, ///< a block takes neighbouring columns, 32 times `columns`; each warp has a part of
            ///< their rows
  };
  Kind kind = Kind::Thread;
  int64_t warps = 1;        ///< of a team
  int64_t lanes = kWarp;    ///< of each of its warps; fewer where a warp has several rows
  int64_t width = 1;        ///< neighbouring elements that a thread takes at once
  int64_t columns = 1;      ///< neighbouring columns of a thread
  int64_t perRound = 1;     ///< vectors of `width` that a thread takes before it goes on
  int64_t rounds = 1;       ///< how often it goes on
  bool isExact = true;      ///< whether the row ends with the last thread of the last round
  int64_t rowsPerBlock = 1; ///< teams of a block

  /// Threads that share a row.
  int64_t members() const {
    return kind == Kind::Thread ? 1 : kind == Kind::Column ? warps : warps * lanes;
  }
  int64_t blockThreads() const {
    return kind == Kind::Column   ? warps * kWarp
           : kind == Kind::Thread ? rowsPerBlock
                                  : members() * rowsPerBlock;
  }

  static RowTeam choose(const RowSpace &space);
};

} // namespace mlir::autopar
