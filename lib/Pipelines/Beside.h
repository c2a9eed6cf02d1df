// SPDX-License-Identifier: Apache-2.0
// Several programs of one model in one process, such as one for prompts and one for single tokens:
// the later ones are planned so that they hold parameters and state as the first does.
#pragma once

#include "autopar/Artifact/Reader.h"
#include "autopar/Base/Status.h"
#include "autopar/Plan/Constraints.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <algorithm>
#include <optional>
#include <string>

namespace mlir::autopar {

/// Device memory of a rank of a program, in bytes.
struct MemoryBeside {
  int64_t own = 0;    ///< besides parameters, state and what is made of parameters, at most
  int64_t common = 0; ///< that a program beside it may have in common with it, at least: those, and
                      ///< what lasts no longer than a step
  /// How much memory a program beside it may plan, so that both stay within `limit`.
  int64_t mostBeside(int64_t limit) const {
    return std::max({limit - own, std::min(limit, common), int64_t{1}});
  }
};

/// The artifact that another one is compiled to run beside.
class ProgramBeside {
public:
  static ::autopar::Result<ProgramBeside> open(const std::string &artifact);

  /// What its plan says of meshes and stages, as demands; none of a program of one rank. Mismatch
  /// where it is for another number of ranks than `devices`.
  ::autopar::Result<::autopar::Constraints> meshes(int64_t devices) const;
  /// What its plan says of parameters and state that the function has too, in the form they have
  /// there: an extent of 1 more or less does not part them.
  ::autopar::Constraints shardings(func::FuncOp function) const;
  /// Tells the function's parameters how it, if it is for CPUs, holds what products multiply by
  /// (autopar/Transforms/HeldForm.h).
  void tellForms(func::FuncOp function) const;
  MemoryBeside memory() const;
  /// Bytes that a rank of `other` holds together with that rank of this one: of the rank that has
  /// least of them.
  int64_t bytesInCommon(const ::autopar::artifact::Reader &other) const;

private:
  explicit ProgramBeside(::autopar::artifact::Reader reader) : reader(std::move(reader)) {}
  ::autopar::artifact::Reader reader;
  std::optional<::autopar::Plan> plan;
};

} // namespace mlir::autopar
