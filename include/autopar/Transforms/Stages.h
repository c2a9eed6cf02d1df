// SPDX-License-Identifier: Apache-2.0
// Which pipeline stage an operation is on. It follows from arguments (`autopar.stage`) and from
// autopar.transfer; what depends on neither (inputs, constants, random numbers) is on none and is
// computed wherever it is needed.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallBitVector.h"

namespace mlir::autopar {

/// The argument attribute that says on which stage a parameter or state lives.
constexpr StringLiteral kStageAttribute = "autopar.stage";
/// The function attributes that say how stages are run: the name of a schedule, and how many meshes
/// the stages take turns on.
constexpr StringLiteral kScheduleAttribute = "autopar.schedule";
constexpr StringLiteral kStageMeshesAttribute = "autopar.stage_meshes";
/// The devices of each of these meshes, where they are not equal parts of all devices.
constexpr StringLiteral kStageDevicesAttribute = "autopar.stage_devices";

/// The devices of each mesh of a function's stages, out of `devices`.
SmallVector<SmallVector<int64_t>> stageDevices(func::FuncOp function, int64_t devices);
/// Says which devices each mesh has; autopar-cut-stages takes its word. Equal parts of all devices,
/// in order, need no mention.
void setStageDevices(func::FuncOp function, ArrayRef<SmallVector<int64_t>> meshes);
/// How many times as long each of these meshes takes as its work shared evenly: what they give
/// up to sharding differs. autopar-cut-stages cuts by it; 1 where nobody says.
constexpr StringLiteral kStagePaceAttribute = "autopar.stage_pace";
/// What each of these meshes takes for a micro-batch beside its work, in microseconds; below 0
/// where it takes less than the pace says.
constexpr StringLiteral kStageExtraAttribute = "autopar.stage_extra";
/// How many bytes a device of each of these meshes needs for a microsecond of such work, all that
/// helps computed again. autopar-cut-stages gives no mesh more than it can hold.
constexpr StringLiteral kStageBytesAttribute = "autopar.stage_bytes";
/// What autopar-cut-stages gave each mesh: microseconds of a micro-batch, shared evenly.
constexpr StringLiteral kStageWorkAttribute = "autopar.stage_work";

class TransferOp;

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
  /// The stage from which a transfer's value is sent; kNone where it is made, or read from the
  /// model's weights, wherever it is needed.
  int64_t senderOf(TransferOp transfer) const;
  /// Error at the first operation that reads values of two stages, or sends on what it was sent.
  LogicalResult verify() const;

private:
  mutable func::FuncOp function; ///< a handle; only read
  int64_t stageCount = 1;
  DenseMap<Operation *, int64_t> stages; ///< all but kNone
};

/// What is made at one place, for operations that stand in the function when this is made.
class StagePlaces {
public:
  explicit StagePlaces(func::FuncOp function);

  int64_t of(Operation *op) const { return stages.of(op); }
  /// Whether both are on one stage, or on none and made for the same ones.
  bool areTogether(Operation *one, Operation *other) const;

private:
  Stages stages;
  /// Of those on none, where there are several stages: which read them.
  DenseMap<Operation *, llvm::SmallBitVector> readers;
};

} // namespace mlir::autopar
