// SPDX-License-Identifier: Apache-2.0
// See the header. Gathers of gathers are met in order, so chains are shared as a whole.
#include "ShareGathers.h"

#include "Stages/StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/MicroBatches.h"

using namespace mlir;
using namespace mlir::autopar;

SmallVector<Operation *> mlir::autopar::shareGathers(func::FuncOp function) {
  Block &block = function.getBody().front();
  StagePhases phases(block);
  Stages stages(function);
  MicroBatches microBatches(block);
  SmallVector<Operation *> shared;
  for (auto gather : llvm::make_early_inc_range(block.getOps<AllGatherOp>())) {
    if (!phases.isBackward(gather))
      continue;
    auto isSame = [&](Operation *user) {
      auto other = dyn_cast<AllGatherOp>(user);
      return other && !phases.isBackward(other) && other->isBeforeInBlock(gather) &&
             stages.of(user) == stages.of(gather.getOperation()) &&
             microBatches.runsOf(other) == microBatches.runsOf(gather) &&
             (microBatches.count() == 1 || microBatches.runsOf(gather) > 1) &&
             other.getProperties() == gather.getProperties() && other.getType() == gather.getType();
    };
    auto users = gather.getInput().getUsers();
    auto found = llvm::find_if(users, isSame);
    if (found == users.end())
      continue;
    gather.replaceAllUsesWith((*found)->getResult(0));
    gather.erase();
    shared.push_back(*found);
  }
  return shared;
}
