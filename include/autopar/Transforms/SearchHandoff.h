// SPDX-License-Identifier: Apache-2.0
// What a search, its caller and who follows its plan in the same process hand each other. The text
// of a deep model's plan is long: writing and reading it would cost more than the plan.
#pragma once

#include "autopar/Plan/PlanDetails.h"
#include "autopar/Transforms/ComputesAgain.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <limits>
#include <memory>
#include <optional>

namespace mlir::autopar {

/// What a mesh of a pipeline does in a step.
struct MeshLoad {
  double workUs = 0, againUs = 0; ///< the second: what it computes again
  int64_t leastBytes = 0;         ///< per device, with all that helps computed again; 0: unknown
  int64_t limitBytes = 0;
};

/// Of what goes on beside what computes a search counts no less.
constexpr double kLeastWaitedShare = 0.25;

/// In times of the least: meshes on which a step takes as long hardly become the best where more of
/// their communication, or less, is hidden.
constexpr double kUnlikely = 1.1;

/// What the module becomes under a plan, as far as somebody asked: kept for who asks next, so that
/// nothing is lowered twice. Nobody changes them; who goes on takes a copy, which is cheap.
struct PlanModules {
  using Module = std::shared_ptr<OwningOpRef<ModuleOp>>; ///< null: nobody asked
  Module groups;           ///< its fusion groups are formed, with nothing computed again
  Module ordered;          ///< its operations in order and timed, with what the plan computes again
  int64_t orderedFor = 0;  ///< the memory limit that the order was made for
  bool keepsGroups = true; ///< behind the order: somebody asks for them next
};

/// lib/Transforms/Search/KeptProblems.h
class KeptProblems;
std::shared_ptr<KeptProblems> makeKeptProblems();

/// What is to be said of a plan that was searched, made when somebody asks; null: it was.
using DescribePlan = std::function<::autopar::Result<::autopar::PlanDetails>()>;

struct SearchHandoff {
  std::optional<::autopar::Plan> start; ///< in: where to begin; may be of another cut
  /// In: what `start` was searched with, with recomputation. Out: the same of `plan`.
  std::optional<ComputesAgain> again;
  /// In, with `again`: what takes no longer than this is taken without a look at other ways to
  /// compute again.
  double enoughUs = std::numeric_limits<double>::infinity();
  /// In: what takes this or longer need not be found.
  double boundUs = std::numeric_limits<double>::infinity();
  /// In: what a step took on each mesh, in the order of meshes, by a search that counted something
  /// else; meshes on which it took kUnlikely times the least are left out. Empty: none is.
  std::vector<double> knownMeshUs;
  std::vector<double> meshUs; ///< out: the same of this search; infinite without a plan
  /// Of searches of one function, one after the other, that take nothing for computed again: the
  /// first one's problems. Null: nobody searches once more.
  std::shared_ptr<KeptProblems> kept;
  std::optional<::autopar::Plan> plan; ///< out: where the pass succeeds
  double waitedShare = 1;              ///< out: of what goes on beside what computes, as it counts
  bool overlapsParts = false;          ///< out: activations may be exchanged beside what computes
  bool isHeldBack = false;             ///< out: what may be faster was left out for lack of memory
  bool paysForMemory = false;          ///< out: the step would be shorter if memory were free
  bool isJudged = false;          ///< out: the plan's peak is that of the program that it becomes
  ::autopar::PlanDetails details; ///< out: of `plan`, without a memory limit
  /// Out: makes `details`, of a plan on one stage that is searched with `kept`: most of what is
  /// searched is not taken.
  DescribePlan describe;
  std::vector<MeshLoad> loads;   ///< out: of `plan`, or of what misses the least memory
  double leanestUs = 0;          ///< out: what that takes, where there is no plan
  PlanModules modules;           ///< out: of `plan`
  OwningOpRef<ModuleOp> lowered; ///< out: the programs of `plan` with their memory planned, or null
  /// Out: what was searched beside it and not taken. To let go of what a deep model became takes as
  /// long as a pass over it: whoever has time does.
  std::vector<SearchHandoff> outdone;

  /// Makes sure that there are `details`.
  ::autopar::Status describeNow() {
    if (!describe)
      return ::autopar::Status::ok();
    ::autopar::Result<::autopar::PlanDetails> made = describe();
    if (!made)
      return made.status();
    details = made.take();
    describe = nullptr;
    return ::autopar::Status::ok();
  }
};

/// autopar-search that leaves its plan in `handoff`, which outlives it, and not in the module.
std::unique_ptr<Pass> createSearchPass(const SearchPassOptions &options, SearchHandoff &handoff);
/// autopar-annotate with a plan that outlives it, instead of one from a file or the module.
std::unique_ptr<Pass> createAnnotatePass(const ::autopar::Plan &plan);

} // namespace mlir::autopar
