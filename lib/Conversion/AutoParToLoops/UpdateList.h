// SPDX-License-Identifier: Apache-2.0
// Which updates of a scatter fall into what a block owns: all threads of the block look for them,
// and write them down in shared memory in the order that they have. So the block reads each index
// once, whatever number of warps share its targets.
#pragma once

#include "GpuThreads.h"

namespace mlir::autopar {

class UpdateList {
public:
  /// Allocates the list of a block of `warps`.
  UpdateList(OpBuilder &builder, Location loc, int64_t warps, Value warp, Value lane);

  /// Updates that are looked at together, and those that the list holds.
  int64_t stretch() const { return warps * kPerWarp; }
  int64_t capacity() const { return 2 * stretch(); }

  /// What is known of an update: whether it falls into the block's targets, and which it goes to
  /// (i32).
  struct Found {
    Value isHit, target;
  };
  /// Appends the hits of stretch number `number` to the `count` (i32) that the list has. Returns
  /// how many there are then. `find` is called with the number of an update. The whole block comes
  /// here; it has to pass a barrier before it reads the list, and another one before the list
  /// begins anew.
  Value append(OpBuilder &builder, Value number, Value count,
               function_ref<Found(OpBuilder &, Value)> find);
  Value updateAt(OpBuilder &builder, Value position) const;
  Value targetAt(OpBuilder &builder, Value position) const;

private:
  /// Updates that a lane looks at, and a warp.
  static constexpr int64_t kPerLane = 4, kPerWarp = kPerLane * kWarpThreads;

  Value word(OpBuilder &builder, int64_t value) const;

  Location loc;
  int64_t warps;
  Value warp, lane;
  Value updates, targets; ///< i32
  Value hitsOfWarps;      ///< i32, of an even stretch and of an odd one
};

} // namespace mlir::autopar
