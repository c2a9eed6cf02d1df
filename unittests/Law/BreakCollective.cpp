// SPDX-License-Identifier: Apache-2.0
// Sabotage: see the header.
#include "BreakCollective.h"

#include "autopar/Dialect/AutoPar/IR/OwnShard.h"

#include <random>

using namespace mlir;
using namespace mlir::autopar;

static Value ownPart(OpBuilder &builder, Operation *op, Value input, int64_t dim,
                     FlatSymbolRefAttr mesh, ArrayAttr axes) {
  int64_t extent = cast<RankedTensorType>(op->getResult(0).getType()).getDimSize(dim);
  return buildOwnShard(builder, op->getLoc(), input, dim, extent, mesh, axes);
}

/// `input` as often as it takes to fill `type` along `dim`.
static Value repeated(OpBuilder &builder, Location loc, Value input, int64_t dim,
                      RankedTensorType type) {
  int64_t copies = type.getDimSize(dim) / cast<RankedTensorType>(input.getType()).getDimSize(dim);
  return ConcatOp::create(builder, loc, type, SmallVector<Value>(copies, input), dim);
}

std::string autopar_law::breakCollective(ModuleOp module, uint64_t seed) {
  SmallVector<Operation *> candidates;
  module.walk([&](Operation *op) {
    if (isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp, ShardIndexOp>(op) &&
        !op->use_empty())
      candidates.push_back(op);
  });
  if (candidates.empty())
    return "";
  std::mt19937_64 random(seed);
  Operation *op = candidates[random() % candidates.size()];
  OpBuilder builder(op);
  Location loc = op->getLoc();
  Value replacement;
  std::string what = op->getName().getStringRef().str() + " was ";
  if (auto reduce = dyn_cast<AllReduceOp>(op)) {
    replacement = reduce.getInput();
    what += "deleted";
  } else if (auto gather = dyn_cast<AllGatherOp>(op)) {
    replacement = repeated(builder, loc, gather.getInput(), gather.getDim(),
                           cast<RankedTensorType>(gather.getType()));
    what += "replaced by copies of the own shard";
  } else if (auto scatter = dyn_cast<ReduceScatterOp>(op)) {
    replacement = ownPart(builder, op, scatter.getInput(), scatter.getDim(), scatter.getMeshAttr(),
                          scatter.getAxes());
    what += "left without its sum";
  } else if (auto exchange = dyn_cast<AllToAllOp>(op)) {
    Value part = ownPart(builder, op, exchange.getInput(), exchange.getSplitDim(),
                         exchange.getMeshAttr(), exchange.getAxes());
    replacement = repeated(builder, loc, part, exchange.getConcatDim(),
                           cast<RankedTensorType>(exchange.getType()));
    what += "replaced by copies of the own part";
  } else {
    replacement = i64Scalar(builder, loc, 0);
    what += "set to zero";
  }
  op->getResult(0).replaceAllUsesWith(replacement);
  op->erase();
  return what;
}
