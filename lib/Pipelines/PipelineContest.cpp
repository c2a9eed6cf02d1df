// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "PipelineContest.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::autopar;

/// How many plans are judged by the kernels that they become, of those that are close to the best.
static constexpr size_t kJudged = 3;
/// What has to wait, of a step, for rows that run together to be tried, and what they have to
/// reach.
static constexpr double kWorthTogether = 0.03, kBetter = 0.99;
/// How many programs may turn out not to fit.
static constexpr size_t kMostRefused = 12;

SmallVector<std::optional<PipelineTimes>> PipelineContest::consider(ArrayRef<Pipeline> pipelines) {
  SmallVector<std::optional<PipelineTimes>> times;
  for (std::optional<BuiltPipeline> &candidate :
       builder.build(pipelines, hasPlan() ? bestUs() : HUGE_VAL)) {
    times.emplace_back();
    if (!candidate)
      continue;
    inVain.drop(candidate->name);
    inVain.drop(estimates.nameOf(candidate->pipeline.place));
    times.back() = candidate->times();
    keep(std::move(*candidate));
  }
  return times;
}

void PipelineContest::leaveOut(BuiltPipeline &candidate) {
  rejected.push_back({candidate.name, candidate.us()});
  outdone.emplace_back(candidate.us(), candidate.pipeline);
}

void PipelineContest::keep(BuiltPipeline candidate) {
  auto isSlower = [&](const BuiltPipeline &other) { return other.us() > candidate.us(); };
  built.insert(llvm::find_if(built, isSlower), std::move(candidate));
  estimates.beat(bestUs());
  while (built.size() > kJudged || built.back().us() > kClose * bestUs()) {
    leaveOut(built.back());
    built.pop_back();
  }
}

LogicalResult PipelineContest::judge() {
  if (built.size() == 1 && choices.stages[built.front().pipeline.place.stages] == 1)
    return success();
  if (failed(builder.refine(built)))
    return failure();
  std::sort(built.begin(), built.end(), [](const BuiltPipeline &a, const BuiltPipeline &b) {
    return a.kernelsUs() < b.kernelsUs();
  });
  return considerTogether();
}

/// Where a mesh of the fastest waits for collectives, the same with rows that run together, and
/// with turns too, which hold less: by operations, one after the other, nobody can tell what that
/// saves.
LogicalResult PipelineContest::considerTogether() {
  Pipeline pipeline = built.front().pipeline;
  int64_t stages = choices.stages[pipeline.place.stages];
  if (choices.schedules.size() == 1 || stages == 1 ||
      built.front().cut.waitsUs < kWorthTogether * built.front().kernelsUs())
    return success();
  SmallVector<Pipeline> pipelines;
  pipeline.holdsMore = true;
  if (pipeline.turns == 1) {
    pipeline.schedule = "overlapped-1f1b";
    pipelines.push_back(pipeline);
    pipeline.turns = kTurns[0];
  }
  pipeline.schedule = "overlapped-interleaved";
  if (turns == 1 && choices.microBatches[pipeline.place.microBatches] % stages == 0)
    pipelines.push_back(pipeline);
  std::vector<BuiltPipeline> together;
  for (std::optional<BuiltPipeline> &one : builder.build(pipelines, bestUs()))
    if (one)
      together.push_back(std::move(*one));
  if (failed(builder.refine(together)))
    return failure();
  for (BuiltPipeline &one : together)
    if (one.kernelsUs() < kBetter * built.front().kernelsUs())
      built.insert(built.begin(), std::move(one));
    else
      leaveOut(one);
  return success();
}

/// Of a pipeline whose program was refused: by a search that has less to promise, while programs
/// need less by that, and once cut for memory alone.
void PipelineContest::askAgain(const Pipeline &pipeline, int64_t neededBytes) {
  int64_t limit = options.memoryLimit ? int64_t(options.memoryLimit) : cluster.mostUsableBytes();
  bool isCloser = neededBytes < pipeline.promised.neededBytes;
  if (std::optional<PromisedMemory> less = pipeline.promised.less(limit, neededBytes);
      less && isCloser) {
    Pipeline leaner = pipeline;
    leaner.promised = *less;
    again.push_back(std::move(leaner));
  }
  if (pipeline.isPlain || pipeline.promised.refusals > 0)
    return;
  Pipeline plain = pipeline;
  plain.isPlain = true;
  again.push_back(std::move(plain));
}

bool PipelineContest::takeFitting() {
  int64_t leastBytes = 0;
  while (mustFit && hasPlan() && !builder.fits(built.front(), leastBytes)) {
    askAgain(built.front().pipeline, leastBytes);
    built.erase(built.begin());
    if (++refused == kMostRefused)
      built.clear();
  }
  if (!hasPlan())
    return false;
  for (; built.size() > 1; built.pop_back())
    rejected.push_back(
        {built.back().name + llvm::formatv(" ({0:f1} us by its kernels)",
                                           built.back().cut.found.plan->believed.kernelsUs)
                                 .str(),
         built.back().us()});
  return true;
}

double PipelineContest::toBeatUs() const {
  if (hasPlan())
    return bestUs();
  return outdone.empty() ? HUGE_VAL : outdone.front().first;
}

bool PipelineContest::goesOn() const { return refused < kMostRefused; }

bool PipelineContest::considerRefused() {
  while (!again.empty()) {
    Pipeline pipeline = std::move(again.front());
    again.pop_front();
    if (consider(pipeline).front())
      return true;
  }
  llvm::sort(outdone, llvm::less_first());
  return false;
}

bool PipelineContest::considerOutdone() {
  while (!hasPlan() && !outdone.empty()) {
    Pipeline pipeline = std::move(outdone.front().second);
    outdone.erase(outdone.begin());
    consider(pipeline);
  }
  return hasPlan();
}

CutPlan PipelineContest::take() {
  CutPlan &chosen = built.front().cut;
  llvm::append_range(chosen.found.plan->believed.alternatives, rejected);
  return std::move(chosen);
}
