// SPDX-License-Identifier: Apache-2.0
// The bridge between IR and planner for recomputation: each mesh's part of a function whose fusion
// groups are formed, as a program of operations and the buffers that they need.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Planner/Recompute.h"
#include "autopar/Transforms/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::autopar {

/// The id of the operation that plans and models know of, of which the one called `id` is a part,
/// perhaps the whole.
StringRef wholeOf(StringRef id);

/// One problem for each mesh that stages take turns on; `plan` is what the function was lowered by.
/// What both passes gather alike is gathered once in the function from then on, and kernels that
/// can run again from what they stored are two.
/// Only operations that plans can name, which `isKnown` tells, may be computed again. The limit is
/// left to the caller.
::autopar::Result<std::vector<::autopar::RecomputeProblem>>
recomputeProblems(func::FuncOp function, const ::autopar::Plan &plan,
                  const ::autopar::Cluster &cluster, Target target,
                  llvm::function_ref<bool(Operation *)> isKnown);

/// What a person means by recomputing every layer: for each copy in the longest repetition of the
/// forward pass, cut where the least is handed on, everything but what hands it on; what stands
/// before the first cut is a layer, too. Where nothing repeats, as on a stage of one layer, all
/// that a mesh does is one.
std::vector<std::vector<int32_t>> layersOf(const ::autopar::RecomputeProblem &problem);

} // namespace mlir::autopar
