// SPDX-License-Identifier: Apache-2.0
// The program of whole tensors as a recomputation problem: without a sharding there is no limit to
// hold, so a price per byte, or the layers, say what is computed again.
#include "ComputedAgain.h"

#include "Cost/OpTime.h"
#include "Stages/Recompute.h"

#include "autopar/Transforms/RecomputeProblem.h"
#include "autopar/Transforms/Sharding.h"

#include <array>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::LiveInterval;
using ::autopar::RecomputeOp;
using ::autopar::RecomputeProblem;

/// What is cheap takes at most so many times as long as moving the bytes that it frees.
static constexpr double kCheap = 32;

static constexpr std::array<std::pair<ComputesAgain, StringLiteral>, 3> kNames = {
    {{ComputesAgain::Nothing, "nothing"},
     {ComputesAgain::Cheap, "cheap"},
     {ComputesAgain::Layers, "layers"}}};

std::optional<ComputesAgain> mlir::autopar::computesAgainFromName(StringRef name) {
  for (auto &[what, word] : kNames)
    if (word == name)
      return what;
  return std::nullopt;
}

StringRef mlir::autopar::nameOf(ComputesAgain what) {
  return kNames[static_cast<size_t>(what)].second;
}

ComputedAgain::ComputedAgain(const StepOutline &outline, const ::autopar::DeviceType &device,
                             ComputesAgain what)
    : outline(outline), secondRuns(outline.operations().size(), -1) {
  auto operations = outline.operations();
  while (forwardEnd < static_cast<int64_t>(operations.size()) &&
         !outline.phases().isBackward(operations[forwardEnd].first))
    ++forwardEnd;
  if (what == ComputesAgain::Nothing || forwardEnd == static_cast<int64_t>(operations.size()))
    forwardEnd = 0;
  int64_t stages = outline.stages().count();
  for (int64_t stage = 0; stage < stages && forwardEnd > 0; ++stage)
    addStage(stages > 1 ? stage : Stages::kNone, device, what);
  for (int64_t position = forwardEnd - 1; position >= 0; --position)
    if (Operation *op = operations[position].first; isForward(op))
      for (Value result : op->getResults())
        reads[result] = readsOf(result);
}

bool ComputedAgain::runsInEach(Operation *op) const {
  return outline.microBatches().count() == 1 || outline.microBatches().runsOf(op) > 1;
}

bool ComputedAgain::isForward(Operation *op) const {
  return outline.positionOf(op) < forwardEnd && runsInEach(op) && op->getNumOperands() > 0 &&
         !MicroBatches::joins(op);
}

void ComputedAgain::addStage(int64_t stage, const ::autopar::DeviceType &device,
                             ComputesAgain what) {
  RecomputeProblem problem;
  std::vector<int64_t> positions; // of the problem's operations
  DenseMap<Value, int32_t> values;
  for (auto [position, entry] : llvm::enumerate(outline.operations())) {
    Operation *op = entry.first;
    if (!runsInEach(op) || op->hasTrait<OpTrait::ConstantLike>() ||
        (stage != Stages::kNone && outline.stages().of(op) != stage))
      continue;
    RecomputeOp &one = problem.ops.emplace_back();
    positions.push_back(static_cast<int64_t>(position));
    one.isBackward = outline.phases().isBackward(op);
    for (Value operand : op->getOperands())
      if (auto known = values.find(operand);
          known != values.end() && !llvm::is_contained(one.reads, known->second))
        one.reads.push_back(known->second);
    bool isLight = livesInUsers(op);
    for (Value result : op->getResults()) {
      values[result] = static_cast<int32_t>(problem.values.size());
      one.writes.push_back(values[result]);
      problem.values.emplace_back().bytes = isLight ? 0 : tensorBytes(tensorTypeOf(result));
    }
    double us = isLight ? 0 : wholeTimeUs(op, device); // infinite: nobody measured it whole
    one.mayRecompute = isForward(op) && mayRecompute(op) && std::isfinite(us);
    one.timeUs = one.mayRecompute ? us : 0;
  }
  std::vector<char> chosen(problem.ops.size(), 0);
  if (what == ComputesAgain::Cheap)
    chosen = ::autopar::cheapestAt(problem, kCheap * 1e6 / device.memoryBytesPerSecond);
  else
    for (const std::vector<int32_t> &layer : layersOf(problem))
      for (int32_t op : layer)
        chosen[op] = 1;
  ::autopar::RecomputeUse use = ::autopar::useOf(problem, chosen);
  for (auto [index, reader] : llvm::enumerate(use.runsFor))
    if (reader >= 0)
      secondRuns[positions[index]] = positions[reader];
}

/// What lives in its readers reads its operands where they do. Readers come first.
ComputedAgain::Reads ComputedAgain::readsOf(Value value) const {
  Reads found;
  auto addLater = [&](int64_t first, int64_t last) {
    found.firstLater = std::min(found.firstLater, first);
    found.lastLater = std::max(found.lastLater, last);
  };
  for (Operation *user : value.getUsers()) {
    if (user->hasTrait<OpTrait::IsTerminator>())
      continue;
    int64_t position = outline.positionOf(user);
    bool isAhead = position < forwardEnd;
    if (isAhead)
      found.lastForward = std::max(found.lastForward, position);
    else
      addLater(position, position);
    if (isAhead && isAgain(position))
      addLater(secondRuns[position], secondRuns[position]);
    if (!livesInUsers(user))
      continue;
    for (Value result : user->getResults()) {
      Reads behind = isForward(user) ? reads.lookup(result) : readsOf(result);
      found.lastForward = std::max(found.lastForward, behind.lastForward);
      if (behind.lastLater >= 0)
        addLater(behind.firstLater, behind.lastLater);
    }
  }
  return found;
}

bool ComputedAgain::isGatheredAnyway(HoldOp hold) const {
  return llvm::any_of(hold.getInput().getUsers(), [&](Operation *user) {
    return isa<HoldOp>(user) && outline.positionOf(user) >= forwardEnd && runsInEach(user);
  });
}

bool ComputedAgain::waitsForBackward(OpResult result) const {
  auto found = reads.find(result);
  return found != reads.end() && !isAgain(outline.positionOf(result.getOwner())) &&
         found->second.lastLater >= 0;
}

SmallVector<LiveInterval, 2> ComputedAgain::livesOf(OpResult result) const {
  LiveInterval whole = outline.liveOf(result);
  auto found = reads.find(result);
  if (found == reads.end())
    return {whole};
  int64_t position = outline.positionOf(result.getOwner());
  const Reads &own = found->second;
  if (!isAgain(position))
    return {{whole.begin, std::max(whole.end, own.lastLater + 1)}};
  return {{whole.begin, std::max(whole.begin, own.lastForward) + 1},
          {secondRuns[position], std::max(secondRuns[position], own.lastLater) + 1}};
}
