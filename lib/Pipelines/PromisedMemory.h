// SPDX-License-Identifier: Apache-2.0
// What a search may promise of a device's memory, where the program of what it found needed more
// than it believed.
#pragma once

#include "autopar/Pipelines/Pipelines.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <limits>
#include <optional>

namespace mlir::autopar {

struct PromisedMemory {
  int64_t bytes = 0; ///< per device; 0: the limit
  int refusals = 0;  ///< programs that were refused on the way here
  int64_t neededBytes = std::numeric_limits<int64_t>::max(); ///< by the last of them

  /// As much less as a program of `needed` bytes is over `limitBytes`. None: programs were refused
  /// too often, or nothing is left to promise.
  std::optional<PromisedMemory> less(int64_t limitBytes, int64_t needed) const;
  /// Makes `options` those of a search that promises no more.
  void limitSearch(AutoShardOptions &options) const;
};

/// A search with what it may promise, and whether its program fits. `neededBytes` gets what a
/// device needs of a program that does not; 0: there was none.
using FittingAttempt =
    llvm::function_ref<LogicalResult(const PromisedMemory &promised, int64_t &neededBytes)>;

/// Says that the leanest plan is over the limit, `what` else is known of it, and what would help.
LogicalResult refuseMemory(ModuleOp module, const AutoShardOptions &options, int64_t limitBytes,
                           int64_t neededBytes, const std::string &what = "");

/// Attempts with less and less to promise, until a program fits `limitBytes`. Where none does, what
/// the smallest needs is said, or the errors of the attempt where there was no program.
LogicalResult attemptToFit(ModuleOp module, const AutoShardOptions &options, int64_t limitBytes,
                           FittingAttempt attempt);

} // namespace mlir::autopar
