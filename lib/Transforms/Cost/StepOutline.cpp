// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StepOutline.h"

#include "KernelTraffic.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/LibraryGroupedProduct.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;

SmallVector<std::pair<Operation *, std::string>> mlir::autopar::planIds(func::FuncOp function) {
  SmallVector<std::pair<Operation *, std::string>> ids;
  llvm::StringSet<> taken;
  for (Operation &op : function.getBody().front().without_terminator()) {
    std::string id = getOpId(&op).str();
    if (id.empty() || !taken.insert(id).second)
      id += "#" + std::to_string(ids.size());
    ids.emplace_back(&op, id);
  }
  return ids;
}

std::string mlir::autopar::planNameOfArgument(func::FuncOp function, unsigned index) {
  if (auto name = function.getArgAttrOfType<StringAttr>(index, "autopar.name"))
    return name.str();
  return "arg#" + std::to_string(index);
}

std::string mlir::autopar::planNameOfResult(func::FuncOp function, unsigned index) {
  if (auto name = function.getResultAttrOfType<StringAttr>(index, "autopar.name"))
    return "output:" + name.str();
  return "output:#" + std::to_string(index);
}

StepOutline::StepOutline(func::FuncOp function)
    : function(function), ids(planIds(function)), batches(function.getBody().front()),
      ownStages(function), ownPhases(function.getBody().front()),
      donors(donorsOfResults(function)) {
  for (auto [position, entry] : llvm::enumerate(ids)) {
    timeOf[entry.first] = position;
    if (batches.runsOf(entry.first) == 1)
      continue;
    if (lastRepeated < 0)
      firstRepeated = position;
    lastRepeated = position;
    if (firstBackward < 0 && ownPhases.isBackward(entry.first))
      firstBackward = position;
  }
  timeOf[function.getBody().front().getTerminator()] = ids.size();
  numberKinds();
  for (auto [position, entry] : llvm::enumerate(ids)) {
    firstResult.push_back(lives.size());
    for (OpResult result : entry.first->getResults()) {
      lives.push_back(liveOf(ValueRange(result), position));
      waits.push_back(isHeldForBackward(result));
    }
  }
}

const DimensionRoles &StepOutline::roles() const {
  std::call_once(knowsRoles, [&] { ownRoles.emplace(function); });
  return *ownRoles;
}

bool mlir::autopar::takesOver(HoldOp hold) {
  return !hold.getUnreduced() && !hold->hasAttr(MicroBatches::everyTime) &&
         hold.getInput().hasOneUse() && hold.getInput().getDefiningOp();
}

/// When values defined at a position are held: until the last one is read, by itself or inside what
/// is computed in its users, which is the last micro-batch for what all of them read; accumulators
/// from the first micro-batch on, and what is made of them behind the last one, wherever it stands.
/// A donated argument's next value lies in the argument's memory.
::autopar::LiveInterval StepOutline::liveOf(ValueRange values, int64_t defined) const {
  ::autopar::LiveInterval live{defined, defined};
  for (Value value : values) {
    Operation *producer = value.getDefiningOp();
    bool isOfOne = producer && batches.runsOf(producer) > 1;
    if (isOfOne && MicroBatches::joins(producer)) {
      live.begin = std::min(live.begin, firstRepeated);
      live.end = std::max(live.end, lastRepeated);
    }
    if (producer && defined < lastRepeated && batches.phaseOf(producer) == MicroBatchPhase::After)
      live = {lastRepeated + 1, lastRepeated + 1};
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>() && donors[use.getOperandNumber()])
        continue;
      bool isReadByAll = !isOfOne && batches.runsOf(user) > 1;
      live.end = std::max(live.end, isReadByAll ? lastRepeated : timeOf.lookup(user));
      auto hold = dyn_cast<HoldOp>(user);
      bool mayPassOn = hold && !hold.getUnreduced() && !takesOver(hold);
      if (mayPassOn || (user->getNumResults() == 1 && areInUsers[positionOf(user)]))
        live.end = std::max(live.end, liveOf(user->getResults(), live.end).end - 1);
    }
  }
  ++live.end;
  return live;
}

bool StepOutline::isHeldForBackward(OpResult result) const {
  Operation *op = result.getOwner();
  return firstBackward >= 0 && batches.runsOf(op) > 1 && !MicroBatches::joins(op) &&
         positionOf(op) < firstBackward && liveOf(result).end > firstBackward;
}

namespace {
/// What operations of a kind agree in.
struct OpLikeness {
  Operation *op;
  bool livesInUsers, isRepeated, takesOver, isMadeInParts;
  KernelTraffic traffic;
};

/// All but the name in plans.
SmallVector<NamedAttribute> attributesOf(Operation *op) {
  return llvm::filter_to_vector(op->getDiscardableAttrs(), [](NamedAttribute attribute) {
    return attribute.getName() != "autopar.id";
  });
}

struct OpLikenessInfo {
  static OpLikeness getEmptyKey() {
    return {DenseMapInfo<Operation *>::getEmptyKey(), false, false, false, false, {}};
  }
  static OpLikeness getTombstoneKey() {
    return {DenseMapInfo<Operation *>::getTombstoneKey(), false, false, false, false, {}};
  }
  static unsigned getHashValue(const OpLikeness &one) {
    Operation *op = one.op;
    return llvm::hash_combine(
        op->getName(), op->hashProperties(), llvm::hash_combine_range(op->getOperandTypes()),
        llvm::hash_combine_range(op->getResultTypes()), one.livesInUsers, one.isRepeated);
  }
  static bool isEqual(const OpLikeness &a, const OpLikeness &b) {
    auto isReal = [](Operation *op) {
      return op != getEmptyKey().op && op != getTombstoneKey().op;
    };
    if (a.op == b.op || !isReal(a.op) || !isReal(b.op))
      return a.op == b.op;
    // A region may hold anything.
    return a.op->getName() == b.op->getName() && a.livesInUsers == b.livesInUsers &&
           a.isRepeated == b.isRepeated && a.takesOver == b.takesOver &&
           a.isMadeInParts == b.isMadeInParts && a.traffic == b.traffic &&
           a.op->getNumRegions() == 0 && a.op->getOperandTypes() == b.op->getOperandTypes() &&
           a.op->getResultTypes() == b.op->getResultTypes() &&
           a.op->getName().compareOpProperties(a.op->getPropertiesStorage(),
                                               b.op->getPropertiesStorage()) &&
           attributesOf(a.op) == attributesOf(b.op);
  }
};
} // namespace

void StepOutline::numberKinds() {
  DenseMap<OpLikeness, size_t, OpLikenessInfo> numbers;
  for (auto &[op, id] : ids) {
    auto hold = dyn_cast<HoldOp>(op);
    areInUsers.push_back(livesInUsers(op));
    OpLikeness likeness{op,
                        static_cast<bool>(areInUsers.back()),
                        batches.runsOf(op) > 1,
                        hold && takesOver(hold),
                        isMadeInParts(op),
                        kernelTrafficOf(op)};
    kinds.push_back(numbers.try_emplace(likeness, numbers.size()).first->second);
  }
  differentKinds = numbers.size();
}
