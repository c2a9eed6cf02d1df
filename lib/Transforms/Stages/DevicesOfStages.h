// SPDX-License-Identifier: Apache-2.0
// Which devices the mesh of each pipeline stage has.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mlir::autopar {

/// The devices of each of `meshCount` meshes as the function, the plan or `meshShape`
/// ("data=1/data=3") says, or equal parts of equal devices; empty where neither is. Error for what
/// does not give all devices of the machine to as many meshes.
::autopar::Result<SmallVector<SmallVector<int64_t>>>
devicesOfStages(func::FuncOp function, const std::optional<::autopar::Plan> &plan,
                StringRef meshShape, int64_t meshCount, const ::autopar::Cluster &machine);

} // namespace mlir::autopar
