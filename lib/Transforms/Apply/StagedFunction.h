// SPDX-License-Identifier: Apache-2.0
// What all meshes of a step have in common while each gets a function of its own: which stage, row
// and micro-batch operations belong to, and by what message a value goes from mesh to mesh.
#pragma once

#include "Stages/StagePhases.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/TransferRoute.h"

#include <optional>

namespace mlir::autopar {

/// A function of all stages, local shapes, and what is known of its operations.
struct StagedFunction {
  explicit StagedFunction(func::FuncOp function);
  /// Once the schedule is known. Error where a transfer names an axis that its mesh does not have.
  LogicalResult findRoutes(const ::autopar::Schedule &schedule);

  /// Numbers messages: one tag per transferred value, receiver and micro-batch (-1: once).
  int64_t tagOf(Operation *transfer, int64_t microBatch) const;
  /// The same for a metric that a mesh tells the others.
  int64_t tagOfMetric(unsigned result, int64_t mesh) const;
  /// How a value gets to a mesh of another shape; nothing where everybody sends to the rank at its
  /// own place.
  const TransferRoute *routeOf(TransferOp op) const {
    auto it = routes.find(op);
    return it == routes.end() ? nullptr : &it->second;
  }
  /// The ranks that a mesh sends what all of its ranks have to, and the ranks that the other mesh
  /// has it from; nothing between meshes of one shape.
  std::optional<TransferRoute> routeOfMetric(int64_t rank, int64_t from, int64_t to) const;

  mutable func::FuncOp function; ///< a handle; only read
  MicroBatches microBatches;
  Stages stages;
  StagePhases phases;
  DenseMap<Operation *, int64_t> numbers; ///< of transfers
  DenseSet<Operation *> beforeAll;        ///< what micro-batches need of what runs once
  SmallVector<MeshOp> meshes;
  llvm::DenseMap<Operation *, TransferRoute> routes;
};

} // namespace mlir::autopar
