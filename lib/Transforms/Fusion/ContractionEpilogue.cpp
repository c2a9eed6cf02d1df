// SPDX-License-Identifier: Apache-2.0
// Takes from the uses of a matrix product or convolution what the library applies, unless a kernel
// behind it would rather.
#include "ContractionEpilogue.h"
#include "FusionClusters.h"

#include "autopar/Transforms/LibraryEpilogue.h"
#include "autopar/Transforms/TrainingEpilogues.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

namespace {

class EpilogueMatcher : EpilogueGrammar {
public:
  EpilogueMatcher(Operation *contraction, DenseSet<Operation *> &claimed, bool trains)
      : EpilogueGrammar(contraction), claimed(claimed), trains(trains),
        current(contraction->getResult(0)) {
    ops.push_back(contraction);
  }

  SmallVector<Operation *> match() {
    while (!hasEnded() && step())
      ;
    if (!hasEnded() && trains)
      takeActivation();
    return ops;
  }

private:
  bool step();
  void takeActivation();
  bool isTaken(const EpilogueStep &step, bool isReshaped) const;
  Value residualOf(Value value) const override;
  Operation *sinkReshapes(Operation *user, ArrayRef<Operation *> reshapes);

  DenseSet<Operation *> &claimed;
  bool trains;
  Value current;
  SmallVector<Operation *> ops;
};

/// A value that is in memory anyway.
Value EpilogueMatcher::residualOf(Value value) const {
  Value source = value;
  while (auto reshape = source.getDefiningOp<ReshapeOp>())
    source = reshape.getInput();
  Operation *op = source.getDefiningOp();
  return !op || (!isFluid(op) && op != contraction) ? value : Value();
}

/// Rewrites f(reshape(x), y) to reshape(f(x, reshape(y))), so that the group has one shape. Returns
/// the new operation; the old one is erased.
Operation *EpilogueMatcher::sinkReshapes(Operation *user, ArrayRef<Operation *> reshapes) {
  OpBuilder builder(user);
  Location loc = user->getLoc();
  RankedTensorType type = typeOf(current);
  IRMapping mapping;
  mapping.map(reshapes.back()->getResult(0), current);
  for (Value operand : user->getOperands()) {
    if (mapping.contains(operand))
      continue;
    if (Value vector = biasOf(operand, contraction)) {
      Value again =
          BroadcastOp::create(builder, loc, type, vector, ArrayRef<int64_t>{type.getRank() - 1});
      mapping.map(operand, again);
    } else {
      mapping.map(operand, ReshapeOp::create(builder, loc, type, operand).getResult());
    }
  }
  Operation *copy = builder.clone(*user, mapping);
  copy->getResult(0).setType(type);
  Value back = ReshapeOp::create(builder, loc, user->getResult(0).getType(), copy->getResult(0));
  user->getResult(0).replaceAllUsesWith(back);
  user->erase();
  for (Operation *reshape : llvm::reverse(reshapes))
    reshape->erase();
  return copy;
}

/// Scores of attention are scaled where they are read again for the softmax; only a scale that
/// nothing else would fuse is left to the library.
bool EpilogueMatcher::isTaken(const EpilogueStep &step, bool isReshaped) const {
  return step.kind != EpilogueStep::Scale ||
         (!isReshaped && llvm::all_of(step.op->getUsers(), [](Operation *user) {
           return !isa<ElementLoweringOpInterface>(user) || isa<DotGeneralOp, TransposeOp>(user);
         }));
}

bool EpilogueMatcher::step() {
  SmallVector<Operation *> reshapes;
  Value here = current;
  while (here.hasOneUse() && isa<ReshapeOp>(*here.user_begin())) {
    reshapes.push_back(*here.user_begin());
    here = reshapes.back()->getResult(0);
  }
  // A bias along the last dimension survives a reshape that keeps it; channels do not.
  auto dot = dyn_cast<DotGeneralOp>(contraction);
  bool keepsLast = !reshapes.empty() && dot && dot.getRhsFree().size() == 1 &&
                   typeOf(here).getRank() > 0 && typeOf(current).getRank() > 0 &&
                   typeOf(here).getShape().back() == typeOf(current).getShape().back();
  if (!here.hasOneUse() || (!reshapes.empty() && !keepsLast))
    return false;
  Operation *user = *here.user_begin();
  if (claimed.contains(user))
    return false;
  std::optional<EpilogueStep> taken = next(user, here);
  if (!taken || !isTaken(*taken, !reshapes.empty()))
    return false;
  if (!reshapes.empty())
    user = sinkReshapes(user, reshapes);
  ops.push_back(user);
  claimed.insert(user);
  current = user->getResult(0);
  return true;
}

/// An activation of which others read what it is given. It moves in front of them.
void EpilogueMatcher::takeActivation() {
  auto product = dyn_cast<DotGeneralOp>(contraction);
  UnaryOp activation = product ? activationInTraining(product, current) : UnaryOp();
  if (!activation || claimed.contains(activation) || !next(activation, current))
    return;
  activation->moveAfter(current.getDefiningOp());
  ops.push_back(activation);
  claimed.insert(activation);
}

} // namespace

SmallVector<Operation *> autopar::matchContractionEpilogue(Operation *contraction,
                                                           DenseSet<Operation *> &claimed,
                                                           bool trains) {
  return EpilogueMatcher(contraction, claimed, trains).match();
}
