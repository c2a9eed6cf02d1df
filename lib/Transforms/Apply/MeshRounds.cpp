// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "MeshRounds.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace mlir::autopar;

MeshRounds::MeshRounds(const ::autopar::ScheduleRounds &rounds, OpBuilder &builder)
    : rounds(rounds), builder(builder), block(builder.getInsertionBlock()) {
  builder.setListener(this);
}

MeshRounds::~MeshRounds() { builder.setListener(nullptr); }

MeshRounds::Scope::Scope(MeshRounds *rounds, Operation *op, int64_t microBatch) {
  if (rounds)
    source.emplace(rounds->source, std::pair(op, microBatch));
}

void MeshRounds::notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) {
  auto [from, microBatch] = source;
  if (!from || microBatch < 0 || op->getBlock() != block)
    return;
  int64_t number = counts[{from, microBatch}]++;
  sources[op] = {from, number, microBatch};
  made[{from, number}][microBatch] = op;
}

void MeshRounds::begin(Location loc) {
  first = RoundBeginOp::create(builder, loc, TypeRange(), rounds.count, rounds.microBatches,
                               ValueRange());
  current = Part::Within;
}

void MeshRounds::end(Location loc) {
  last = RoundEndOp::create(builder, loc, TypeRange(), ValueRange(), ValueRange());
  current = Part::Behind;
}

MeshRounds::Part MeshRounds::partOf(Operation *op) const {
  op = block->findAncestorOpInBlock(*op);
  if (op->isBeforeInBlock(first))
    return Part::Before;
  return op->isBeforeInBlock(last) ? Part::Within : Part::Behind;
}

Value MeshRounds::leftFor(OpResult value) const {
  const Source &own = sources.at(value.getOwner());
  auto micro = made.find({own.op, own.number});
  Operation *next = micro->second.lookup(own.microBatch + rounds.microBatches);
  if (next && partOf(next) == Part::Within)
    return next->getResult(value.getResultNumber());
  value.getOwner()->emitOpError() << "of micro-batch " << own.microBatch
                                  << " is read in a round of " << rounds.microBatches
                                  << " micro-batches that computes no such value for the next one";
  return {};
}

LogicalResult MeshRounds::handOn() {
  SmallVector<Value> initial, handedOn;
  llvm::SetVector<Value> others;
  for (Operation &op : *block) {
    if (!sources.contains(&op) || partOf(&op) == Part::Behind)
      continue;
    bool isBefore = partOf(&op) == Part::Before;
    for (OpResult result : op.getResults()) {
      bool isReadWithin = false, isReadBehind = false;
      for (Operation *user : result.getUsers()) {
        isReadWithin |= partOf(user) == Part::Within;
        isReadBehind |= partOf(user) == Part::Behind;
      }
      if (!isBefore && isReadBehind)
        others.insert(result);
      if (!isBefore || !(isReadWithin || isReadBehind))
        continue;
      if (isReadBehind)
        return op.emitOpError() << "lives longer than a round of " << rounds.microBatches
                                << " micro-batches";
      initial.push_back(result);
      handedOn.push_back(leftFor(result));
      if (!handedOn.back())
        return failure();
    }
  }
  for (Value value : handedOn)
    others.remove(value);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(first);
  auto begin =
      RoundBeginOp::create(builder, first.getLoc(), ValueRange(initial).getTypes(),
                           static_cast<int64_t>(first.getCount()), rounds.microBatches, initial);
  for (auto [value, result] : llvm::zip_equal(initial, begin.getResults()))
    value.replaceUsesWithIf(result,
                            [&](OpOperand &use) { return partOf(use.getOwner()) == Part::Within; });
  SmallVector<Value> all(handedOn);
  llvm::append_range(all, others);
  builder.setInsertionPoint(last);
  auto end = RoundEndOp::create(builder, last.getLoc(), ValueRange(all).getTypes(), handedOn,
                                others.getArrayRef());
  for (auto [value, result] : llvm::zip_equal(all, end.getResults()))
    value.replaceUsesWithIf(result,
                            [&](OpOperand &use) { return partOf(use.getOwner()) == Part::Behind; });
  first.erase();
  last.erase();
  return success();
}
