// SPDX-License-Identifier: Apache-2.0
// Which pipeline stage an operation is on. It follows from arguments (`autopar.stage`) and from
// autopar.transfer; what depends on neither (inputs, constants, random numbers) is on none and is
// computed wherever it is needed.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::autopar {

/// The argument attribute that says on which stage a parameter or state lives.
constexpr StringLiteral kStageAttribute = "autopar.stage";
/// The function attributes that say how stages are run: the name of a schedule, and how many meshes
/// the stages take turns on.
constexpr StringLiteral kScheduleAttribute = "autopar.schedule";
constexpr StringLiteral kStageMeshesAttribute = "autopar.stage_meshes";
/// The mesh axis along which stages differ. Nothing is sharded over it.
constexpr StringLiteral kStageAxis = "stage";

class Stages {
public:
  static constexpr int64_t kNone = -1;

  /// Looks at the function's arguments and operations in order.
  explicit Stages(func::FuncOp function);

  /// 1 + the highest stage; 1 where nothing is on a stage.
  int64_t count() const { return stageCount; }
  int64_t of(Operation *op) const {
    auto it = stages.find(op);
    return it == stages.end() ? kNone : it->second;
  }
  int64_t of(Value value) const;
  /// Error at the first operation that reads values of two stages.
  LogicalResult verify() const;

private:
  mutable func::FuncOp function; ///< a handle; only read
  int64_t stageCount = 1;
  DenseMap<Operation *, int64_t> stages; ///< all but kNone
};

/// Whether an operation is part of the backward pass, for operations in order: it is one of a
/// derivative, or reads one.
class BackwardOps {
public:
  explicit BackwardOps(Block &block);
  bool contains(Operation *op) const { return ops.contains(op); }
  bool empty() const { return ops.empty(); }

private:
  DenseSet<Operation *> ops;
};

/// What other stages wait for: everything that a transferred value is made of on its stage. Of the
/// backward pass it is the gradient of the stage's input; the rest are weight gradients.
class InputGradientOps {
public:
  explicit InputGradientOps(Block &block);
  bool contains(Operation *op) const { return ops.contains(op); }

private:
  DenseSet<Operation *> ops;
};

/// Adds `op` and what it depends on through operations for which `isIncluded`.
void addDependences(Operation *op, DenseSet<Operation *> &found,
                    function_ref<bool(Operation *)> isIncluded);

} // namespace mlir::autopar
