// SPDX-License-Identifier: Apache-2.0
// What a plan takes, by what it becomes: a copy of the module is lowered along it until fusion
// groups are formed, which is what is kept or computed again.
#pragma once

#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Transforms/RecomputeProblem.h"
#include "autopar/Transforms/SearchHandoff.h"
#include "mlir/IR/BuiltinOps.h"

#include <limits>

namespace mlir::autopar {

struct JudgedPlan {
  ::autopar::Plan plan; ///< with its recomputation, as believed
  ::autopar::PlanDetails details;
  DescribePlan describe; ///< makes them
  std::vector<MeshLoad> loads;
  ComputesAgain again = ComputesAgain::Nothing; ///< what it was searched with
  bool fits = false, isJudged = false;
  int64_t leastBytes = std::numeric_limits<int64_t>::max();
  PlanModules modules; ///< of the plan
};

class PlanJudge {
public:
  /// All outlive it.
  PlanJudge(ModuleOp module, const AutoShardOptions &options, const LowerOptions &lower)
      : module(module), options(options), lower(lower) {}

  /// Reads the cluster; before anything else.
  LogicalResult load();
  double limitBytes() const { return limit; } ///< per device
  /// Whether a plan whose search counts these bytes per mesh fits without being judged: the search
  /// knows neither copies that are resharded nor scratch, and that is much of a small model.
  bool surelyFits(ArrayRef<int64_t> bytes) const {
    auto most = static_cast<double>(*llvm::max_element(bytes));
    return most <= 0.6 * limit && limit - most >= 64 << 20;
  }
  /// What devices of a mesh have less than the limit, where nobody set one.
  int64_t missingOn(const ::autopar::Plan &plan, size_t mesh) const;

  /// Lets be computed again what makes the plan fit, or as much as helps.
  LogicalResult judge(JudgedPlan &judged) const;
  /// What each mesh holds at its peak where nothing is computed again, as in the plan.
  FailureOr<std::vector<int64_t>> peakOf(const ::autopar::Plan &plan, PlanModules &modules) const;
  /// A plan under which every layer is computed again.
  LogicalResult believeLayers(JudgedPlan &judged) const;
  /// Believes of a plan what it takes to compute again what it names: whole groups, as the
  /// backward pass will.
  LogicalResult price(::autopar::Plan &plan, const ::autopar::PlanDetails &details) const;

  struct KernelTimes {
    double stepUs = 0;
    std::vector<double> meshUs; ///< what each mesh of a pipeline works in its rows
    double waitsUs = 0;         ///< of that, on the mesh with most of it, no kernel runs: all wait
  };
  /// By the kernels that the plan becomes (docs/Simulation.md).
  FailureOr<KernelTimes> kernelTimes(const ::autopar::Plan &plan, PlanModules &modules) const;

  static ::autopar::Plan withoutRecomputation(::autopar::Plan plan);
  /// The programs of a plan, and the bytes of each mesh's with what its devices have less than the
  /// limit.
  struct Lowered {
    OwningOpRef<ModuleOp> module;
    std::vector<int64_t> bytes;
  };
  /// A copy that is lowered until memory is planned, whether it fits or not.
  FailureOr<Lowered> lowered(const ::autopar::Plan &plan, PlanModules &modules) const;
  /// Whether what each mesh's program needs is within the limit.
  bool isWithinLimit(ArrayRef<int64_t> bytes) const {
    return static_cast<double>(*llvm::max_element(bytes)) <= limit;
  }
  /// `Lowered::bytes` of what was lowered.
  std::vector<int64_t> plannedBytes(const ::autopar::Plan &plan, ModuleOp lowered) const;
  /// The program of each mesh under a plan.
  FailureOr<std::vector<::autopar::RecomputeProblem>> programsOf(const ::autopar::Plan &plan,
                                                                 PlanModules &modules) const;
  /// What a plan takes when meshes compute again what `solutions` say: a mesh does so in every
  /// micro-batch, and the first result waits for all of them. What each of them then does.
  static std::vector<MeshLoad> believe(::autopar::Plan &plan, const ::autopar::PlanDetails &details,
                                       ArrayRef<::autopar::RecomputeProblem> problems,
                                       ArrayRef<::autopar::RecomputeSolution> solutions);

private:
  /// A copy of the module that is lowered along the plan until fusion groups are formed.
  FailureOr<OwningOpRef<ModuleOp>> groupsOf(const ::autopar::Plan &plan) const;
  /// The same where more is asked of the plan.
  FailureOr<OwningOpRef<ModuleOp>> groupsOf(const ::autopar::Plan &plan,
                                            PlanModules &modules) const;
  /// Makes sure that there is `modules.ordered`.
  LogicalResult order(const ::autopar::Plan &plan, PlanModules &modules) const;
  /// Lets a mesh's program store in host memory what the link has time for.
  void offerHost(const ::autopar::Plan &plan, size_t mesh,
                 ::autopar::RecomputeProblem &problem) const;
  FailureOr<std::vector<::autopar::RecomputeProblem>>
  programsOf(ModuleOp groups, const ::autopar::Plan &plan,
             function_ref<bool(Operation *)> isKnown) const;

  mutable ModuleOp module; ///< a handle
  const AutoShardOptions &options;
  const LowerOptions &lower;
  ::autopar::Cluster cluster;
  double limit = 0;
};

/// How long each mesh of a pipeline works in a step by its timeline; empty without stages.
std::vector<MeshLoad> loadsOf(const ::autopar::Plan &plan, const ::autopar::PlanDetails &details);

} // namespace mlir::autopar
