// SPDX-License-Identifier: Apache-2.0
// Grouped products of the artifact as calls: rows are brought together by their group, and each
// group is a product of its rows, however many data gives it.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <functional>
#include <memory>

namespace autopar::cpumath {

/// Makes the columns [part * madeColumns, (part + 1) * madeColumns) of the matrix of a group, as
/// artifact::MatrixMaker says. Called by several threads at once.
using MakeColumns = std::function<void(int64_t group, int64_t part, void *columns)>;

/// A grouped product, or its gradient by the matrices, for one geometry. Created under the thread
/// count it will run with.
class GroupedProductCall {
public:
  static Result<GroupedProductCall> create(const artifact::GroupedProductGeometry &geometry);

  int64_t scratchBytes() const;
  /// Addresses of the operands of artifact::GroupedProduct; scratch of scratchBytes(), 64-byte
  /// aligned.
  Status run(const void *lhs, const void *rhs, const void *group, void *result,
             void *scratch) const;
  /// The same of matrices that are made: of groups that have rows, and no more of them at a time
  /// than stays in a core's cache.
  Status run(const void *lhs, const MakeColumns &make, const void *group, void *result,
             void *scratch) const;

private:
  struct Prepared;
  std::shared_ptr<const Prepared> prepared;
};

} // namespace autopar::cpumath
