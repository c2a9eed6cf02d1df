// SPDX-License-Identifier: Apache-2.0
// Several programs of one model in one process, such as one for prompts and one for single tokens:
// the later ones are planned so that they hold parameters and state as the first does.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Plan/Constraints.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <string>

namespace mlir::autopar {

/// What the artifact's plan says of meshes and stages, as demands; none of an artifact of one rank.
/// Mismatch where it is for another number of ranks than `devices`.
::autopar::Result<::autopar::Constraints> meshesBeside(const std::string &artifact,
                                                       int64_t devices);

/// What it says of parameters and state that the function has too, in the form they have there: an
/// extent of 1 more or less does not part them.
::autopar::Result<::autopar::Constraints> shardingsBeside(const std::string &artifact,
                                                          func::FuncOp function);

/// Tells the function's parameters how the artifact, for CPUs, holds what products multiply by.
::autopar::Status holdAsBeside(const std::string &artifact, func::FuncOp function);

/// Device memory of a rank of an artifact, in bytes: of the rank that has most of its own.
struct MemoryBeside {
  int64_t own = 0;    ///< besides parameters, state and what is made of parameters
  int64_t common = 0; ///< that a program beside it may have in common with it: those, and what
                      ///< lasts no longer than a step
  /// How much memory a program beside it may plan, so that both stay within `limit`.
  int64_t mostBeside(int64_t limit) const { return std::max(limit - own, common); }
};
::autopar::Result<MemoryBeside> memoryBeside(const std::string &artifact);

/// Bytes that a rank of `artifact` holds together with that rank of `beside`: of the rank that has
/// least of them.
::autopar::Result<int64_t> bytesHeldTogether(const std::string &artifact,
                                             const std::string &beside);

} // namespace mlir::autopar
