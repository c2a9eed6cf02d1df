// SPDX-License-Identifier: Apache-2.0
#include "HostCopies.h"

#include "autopar/Cost/HostGroups.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::kHostGroupsAhead;

/// The id of a copy: that of the value, with the number of a later result.
static void setCopyId(Operation *copy, Value value, StringRef suffix) {
  StringRef id = getOpId(value.getDefiningOp());
  if (id.empty())
    return;
  unsigned number = cast<OpResult>(value).getResultNumber();
  setOpId(copy, (id + (number ? "#" + std::to_string(number) : "") + suffix).str());
}

Value HostCopies::add(Value value, Operation *user, Value gradient) {
  Operation *&store = stores[value];
  if (!store) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfter(value.getDefiningOp());
    store = StoreOnHostOp::create(builder, value.getLoc(), value);
    setCopyId(store, value, "/offload");
  }
  OpBuilder builder(user);
  auto fetch = FetchFromHostOp::create(builder, value.getLoc(), store->getResult(0), gradient);
  setCopyId(fetch, value, "/fetch");
  int64_t own = stages.of(value.getDefiningOp()); // a transfer is on the stage that it sends to
  fetches[{own == Stages::kNone ? stages.of(user) : own, phases.of(user),
           microBatches.phaseOf(user)}]
      .push_back({fetch, user, gradient});
  return fetch;
}

void HostCopies::place() {
  placeStores();
  for (auto &[part, list] : fetches)
    for (size_t i = list.size(); i-- > kHostGroupsAhead;) {
      size_t ahead = i - kHostGroupsAhead;
      while (ahead + 1 < i && list[ahead + 1].user == list[ahead].user)
        ++ahead; // behind all that are for that reader, before what runs again for it
      const Fetch &before = list[ahead];
      if (before.user == list[i].user)
        continue;
      if (before.copy->isBeforeInBlock(list[i].copy->getOperand(0).getDefiningOp()))
        continue; // a value of the forward pass that is made behind the first derivative
      list[i].copy->moveAfter(before.copy);
      MutableOperandRange gradient = cast<FetchFromHostOp>(list[i].copy).getGradientMutable();
      before.gradient ? gradient.assign(before.gradient) : gradient.clear();
    }
}

/// By stage, in the order in which the values are made; the last ones stand where the first
/// backward pass begins.
void HostCopies::placeStores() {
  if (stores.empty())
    return;
  Block &block = *stores.front().second->getBlock();
  Operation *turn = &*llvm::find_if(block, [&](Operation &op) {
    return phases.isBackward(&op) || isa<FenceOp, FetchFromHostOp>(op);
  });
  std::map<int64_t, SmallVector<Operation *>> byStage;
  for (auto store : block.getOps<StoreOnHostOp>())
    byStage[stages.of(store.getInput().getDefiningOp())].push_back(store);
  for (auto &[stage, list] : byStage)
    for (size_t i = 0; i < list.size(); ++i) {
      Operation *before = i + kHostGroupsAhead < list.size()
                              ? list[i + kHostGroupsAhead]->getOperand(0).getDefiningOp()
                              : turn;
      if (turn->isBeforeInBlock(before))
        before = turn;
      if (list[i]->isBeforeInBlock(before))
        list[i]->moveBefore(before);
    }
}
