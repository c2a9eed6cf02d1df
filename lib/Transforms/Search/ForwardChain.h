// SPDX-License-Identifier: Apache-2.0
// The forward pass as a chain that is cut into pipeline stages, on meshes of any sizes and device
// types, under their memory limits.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Plan/Schedule.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <map>

namespace mlir::autopar {

/// Devices that share the work of a stage.
struct ChainMesh {
  SmallVector<int64_t> devices;
  int64_t memoryBytes = 0; ///< per device; 0: no limit
  double pace = 1;         ///< how many times as long it takes as its work shared evenly
  double extraUs = 0;      ///< of a micro-batch, beside that; may be below 0
  double bytesPerUs = 0;   ///< of work shared evenly, that a device needs; 0: as tensors say
};

/// Numbers of devices that a mesh may have.
enum class MeshSizes {
  Any,  ///< of up to 16 devices of a type; of more, equal parts of a node or whole nodes
  Parts ///< equal parts of a node, or a number of nodes that divides all: no fewer than a 16th
};

struct ChainCut {
  std::vector<int32_t> places;    ///< the first operation of each stage but the first
  std::vector<ChainMesh> meshes;  ///< that the stages take turns on
  std::vector<int32_t> subMeshes; ///< of each stage, in the program's numbers
  std::vector<double> shares;     ///< of all work, that of each stage
  std::vector<double> wholeUs;    ///< all work shared evenly on each stage's mesh
  double timeUs = 0;              ///< of a step, by which cuts are compared
  double messagesUs = 0;          ///< one micro-batch's way through all cuts
  int64_t missingBytes = 0;       ///< what the stage that fits worst is short of on a device
};

/// Meshes of these devices. `memoryBytes`: of every device; 0: what its type has.
std::vector<ChainMesh> chainMeshes(const ::autopar::Cluster &cluster,
                                   ArrayRef<SmallVector<int64_t>> devices, int64_t memoryBytes);

struct ChainProblem;
struct ChainShape;

class ForwardChain {
public:
  /// `ops` of `function` in order, without those that are on no stage. With `trains`, the backward
  /// pass takes twice the time of the forward pass, and gradients cross where values do. With
  /// `recomputes`, what waits for the backward pass may be computed again and does not count.
  ForwardChain(func::FuncOp function, ArrayRef<Operation *> ops, const ::autopar::Cluster &cluster,
               bool trains, bool recomputes = false);

  /// Demands the stage of each operation; -1: any. They must not decrease. Where they leave no cut,
  /// there is none.
  void demandStages(std::vector<int32_t> stages) { demanded = std::move(stages); }

  /// Cuts only where little is sent, and not beside such a cut once more: for who compares many.
  void cutRoughly() { isRough = true; }

  /// The cut by which a step of the schedule is fastest (StageCut.h) on `meshes`. Where stages take
  /// turns on them, memory does not count.
  ::autopar::Result<ChainCut> cut(ArrayRef<ChainMesh> meshes,
                                  const ::autopar::Schedule &schedule) const;
  /// The fastest cut over all ways to share all devices of the cluster among as many meshes as
  /// stages, of one type each. `memoryBytes`: of every device; 0: what its type has. `memoryShare`:
  /// what of it may be used.
  ::autopar::Result<ChainCut> choose(int64_t memoryBytes, const ::autopar::Schedule &schedule,
                                     MeshSizes sizes = MeshSizes::Any,
                                     double memoryShare = 1) const;

private:
  using SolveAt = llvm::function_ref<::autopar::Result<ChainCut>(ArrayRef<int32_t> places)>;
  ::autopar::Result<ChainCut> refined(int32_t stages, SolveAt solve) const;
  ::autopar::Result<ChainCut> solve(ChainProblem &chain, const ::autopar::Schedule &schedule) const;
  ::autopar::Result<ChainCut> solveAt(ArrayRef<int32_t> places, ChainProblem &chain, size_t kinds,
                                      const ::autopar::Schedule &schedule) const;
  ::autopar::Result<ChainCut> solveTurns(ArrayRef<ChainMesh> meshes,
                                         const ::autopar::Schedule &schedule) const;
  ::autopar::Result<ChainCut> solveTurnsAt(ArrayRef<int32_t> places, ArrayRef<ChainShape> shapes,
                                           const ::autopar::Schedule &schedule) const;
  double workUs(int32_t begin, int32_t end, const ChainShape &shape) const;
  double stageUs(int32_t begin, int32_t end, const ChainShape &shape) const;
  ChainShape shapeOf(const ChainMesh &mesh, const ::autopar::Schedule &schedule) const;
  void addStage(ChainCut &cut, int32_t begin, int32_t end, const ChainShape &shape) const;
  bool mayBe(int32_t begin, int32_t end, int32_t stage) const;
  void findTimes(bool trains);
  void findCrossings(bool trains);
  void findMemory(func::FuncOp function, bool keeps);
  std::vector<int32_t> placesToCut(int32_t stages) const;
  bool isCheapest(int32_t place, double withinUs) const;
  /// The places `cut` of those that are `cheap`, and all around them.
  std::vector<int32_t> placesBeside(ArrayRef<int32_t> cut, ArrayRef<int32_t> cheap,
                                    int32_t stages) const;
  double messageUs(int32_t place, size_t ranks) const;

  ArrayRef<Operation *> ops;
  const ::autopar::Cluster &cluster;
  std::map<const ::autopar::DeviceType *, std::vector<double>>
      times;                     ///< of the operations before each place, on one device
  std::vector<int64_t> crossing; ///< bytes at each place
  int32_t lossBegin; ///< behind the last product of what is trained; it is cut once at most
  std::vector<int64_t> state; ///< bytes that are held always, of the operations before each place
  std::vector<int64_t> saved; ///< the same that wait for the backward pass
  bool isRough = false;
  std::vector<int32_t> demanded; ///< the stage of each operation, -1: any; empty: nothing is
};

} // namespace mlir::autopar
