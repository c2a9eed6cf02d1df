// SPDX-License-Identifier: Apache-2.0
// The fastest mesh, and the sharding on it, for pipeline stages whose devices are alike.
#pragma once

#include "ComputedAgain.h"
#include "ShardingProblem.h"
#include "autopar/Planner/SearchEngine.h"
#include "autopar/Transforms/StageEstimate.h"

#include <array>
#include <mutex>

namespace mlir::autopar {

/// Stages on as many devices of the same type; the slowest stands for all of them.
struct StageGroup {
  std::vector<int64_t> devices; ///< of the slowest
  SmallVector<size_t> stages;
  double largestShare = 1, share = 1; ///< of all work: the slowest's, and of all together
  double waiting = 1; ///< of all work, that of the stage that holds the most micro-batches of it
  int64_t limit = 0;  ///< bytes per device
};

/// A mesh's sharding.
struct FoundSharding {
  std::vector<int32_t> choice;
  double onceUs = 0, eachUs = 0;                           ///< of the whole function
  double againUs = 0;                                      ///< of both: what is computed again
  double stepUs = std::numeric_limits<double>::infinity(); ///< if no other group took any time
  int64_t peakBytes = 0;
  ComputesAgain again = ComputesAgain::Nothing;
};

struct SolvedMesh;

class MeshSolver {
public:
  struct Best {
    ::autopar::Mesh mesh;
    FoundSharding found;
  };

  /// What is given outlives it. `messagesUs`: one micro-batch's way through all cuts.
  MeshSolver(func::FuncOp function, const ::autopar::Cluster &cluster,
             const StageEstimateOptions &options, const ::autopar::Schedule &schedule,
             const ::autopar::SearchEngine &engine, double messagesUs);

  /// The fastest mesh for which something fits; `number` is the group's. BadInput where nothing
  /// fits, or nothing is faster than what the options know.
  ::autopar::Result<Best> solve(size_t number, const StageGroup &group) const;
  /// What is searched for a mesh.
  ::autopar::Result<std::unique_ptr<ShardingProblem>>
  makeProblem(const StageGroup &group, const ::autopar::Mesh &mesh, ComputesAgain what) const;

private:
  std::vector<::autopar::Mesh> meshes(const StageGroup &group) const;
  double stepUs(const StageGroup &group, const FoundSharding &found) const;
  const ComputedAgain *againOf(ComputesAgain what) const; ///< null: of nothing
  ::autopar::Result<FoundSharding> search(const StageGroup &group, ShardingProblem &problem,
                                          int64_t searchLimit, bool unfolds = true) const;
  SolvedMesh solveUnlimited(const StageGroup &group, const ::autopar::Mesh &mesh) const;
  ::autopar::Result<FoundSharding> solveLimited(const StageGroup &group,
                                                const ::autopar::Mesh &mesh) const;
  ::autopar::Result<FoundSharding>
  searchRecomputed(const StageGroup &group, ShardingProblem &problem, ShardingProblem &keptProblem,
                   ComputesAgain what, double limitShare, bool unfolds) const;
  ::autopar::Status tighten(const StageGroup &group, const ::autopar::Mesh &mesh,
                            FoundSharding &best) const;

  func::FuncOp function;
  StepOutline outline;
  const ::autopar::Cluster &cluster;
  const StageEstimateOptions &options;
  const ::autopar::Schedule &schedule;
  const ::autopar::SearchEngine &engine;
  double messagesUs;
  std::shared_ptr<SolvedMeshes> solved;
  /// By what is computed again, made when it is asked for.
  mutable std::array<std::optional<ComputedAgain>, 3> again;
  mutable std::array<std::once_flag, 3> isMade;
};

} // namespace mlir::autopar
