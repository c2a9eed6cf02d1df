// SPDX-License-Identifier: Apache-2.0
// Where copies of activations into host memory and back stand, so that they run beside what
// computes.
#pragma once

#include "Stages/StagePhases.h"

#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Stages.h"
#include "llvm/ADT/MapVector.h"

#include <map>

namespace mlir::autopar {

/// A copy to the host starts when the value is there, and the bytes of the value are free from
/// where the copy stands in the program on. So it stands two stored values further on
/// (kHostGroupsAhead): what comes next does not wait for it. A fetch stands two fetches ahead of
/// its reader. That is one value on its way while another is worked on, as in double buffering.
class HostCopies {
public:
  /// All outlive it, as does what they are of.
  HostCopies(const Stages &stages, const StagePhases &phases, const MicroBatches &microBatches)
      : stages(stages), phases(phases), microBatches(microBatches) {}

  /// Stores a value of the forward pass and fetches it right before `user`, a reader in the
  /// backward pass that waits for `gradient` (null where it waits for none); what that is to read.
  Value add(Value value, Operation *user, Value gradient);

  /// Moves all copies to where they stand. Nothing is added behind this.
  void place();

private:
  struct Fetch {
    Operation *copy, *user; ///< before which it stood first
    Value gradient;
  };
  void placeStores();

  const Stages &stages;
  const StagePhases &phases;
  const MicroBatches &microBatches;
  llvm::MapVector<Value, Operation *> stores; ///< by value
  /// By stage and phases, in the order of their readers.
  std::map<std::tuple<int64_t, ::autopar::StagePhase, MicroBatchPhase>, SmallVector<Fetch>> fetches;
};

} // namespace mlir::autopar
