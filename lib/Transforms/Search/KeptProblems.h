// SPDX-License-Identifier: Apache-2.0
// The sharding problems of a search, one per choice of meshes, for searches of the same function
// that count anew what is waited for: of a deep model, making them takes longer than solving them.
#pragma once

#include "ShardingProblem.h"

namespace mlir::autopar {

class KeptProblems {
public:
  /// Those of `function`, which did not change since, on `cluster`, where all else that they are
  /// made of says `madeOf`; forgets all others.
  KeptProblems &of(func::FuncOp function, ::autopar::Cluster cluster, std::string madeOf) {
    if (outline && outline->getFunction() == function && this->madeOf == madeOf)
      return *this;
    problems.clear();
    outline = std::make_unique<StepOutline>(function);
    this->cluster = std::move(cluster);
    this->madeOf = std::move(madeOf);
    return *this;
  }

  std::unique_ptr<StepOutline> outline;
  ::autopar::Cluster cluster;
  std::vector<std::shared_ptr<ShardingProblem>> problems; ///< null: not made

private:
  std::string madeOf;
};

} // namespace mlir::autopar
