// SPDX-License-Identifier: Apache-2.0
// The pass autopar-fold-repeated-heads: heads that share keys and values are rows of one product
// with them. Else these, which may be a cache of thousands of tokens, would be written anew for
// each head at each step.
#include "Prepare/CompositeMatching.h"

#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_FOLDREPEATEDHEADSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// [b, heads, q, k] x [b, groups repeated to heads, ...] as [b, groups, heads of a group * q, k] x
/// [b, groups, ...].
void foldRepeat(DotGeneralOp op) {
  Value shared = sharedByHeads(op.getRhs());
  RankedTensorType lhs = op.getLhs().getType(), result = op.getType();
  SmallVector<int64_t> pair{0, 1};
  if (!shared || lhs.getRank() != 4 || op.getLhsBatch() != ArrayRef(pair) ||
      op.getRhsBatch() != ArrayRef(pair) || op.getLhsContract() != ArrayRef<int64_t>(3) ||
      op.getRhsContract().size() != 1)
    return;
  OpBuilder builder(op);
  Location loc = op.getLoc();
  int64_t groups = cast<RankedTensorType>(shared.getType()).getDimSize(1);
  auto grouped = [&](RankedTensorType type) {
    ArrayRef<int64_t> shape = type.getShape();
    SmallVector<int64_t> rows{shape[0], groups, shape[1] / groups * shape[2], shape[3]};
    return type.clone(rows);
  };
  auto rows = ReshapeOp::create(builder, loc, grouped(lhs), op.getLhs());
  nameAfter(rows, op, "rows");
  auto product = DotGeneralOp::create(builder, loc, grouped(result), rows, shared, pair, pair,
                                      op.getLhsContract(), op.getRhsContract());
  if (StringRef id = getOpId(op); !id.empty())
    setOpId(product, id);
  auto heads = ReshapeOp::create(builder, loc, result, product);
  nameAfter(heads, op, "heads");
  Operation *repeat = op.getRhs().getDefiningOp();
  op.replaceAllUsesWith(heads.getResult());
  op.erase();
  while (repeat && repeat->use_empty() && isa<ReshapeOp, BroadcastOp>(repeat)) {
    Operation *made = repeat->getOperand(0).getDefiningOp();
    repeat->erase();
    repeat = made;
  }
}

/// Attention of one query a head: the heads of a group are queries of one head. With one query a
/// triangle hides nothing; a window would hide other keys from each.
void foldQueries(AttentionOp op) {
  RankedTensorType query = op.getQuery().getType(), output = op.getOutput().getType();
  int64_t heads = query.getDimSize(1), groups = op.getKey().getType().getDimSize(1);
  if (heads == groups || query.getDimSize(2) != 1 || op.getShard() || op.getWindow() ||
      op.getSink())
    return;
  OpBuilder builder(op);
  Location loc = op.getLoc();
  auto grouped = [&](Value value, StringRef name) -> Value {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape{type.getDimSize(0), groups, heads / groups, type.getDimSize(3)};
    auto reshape = ReshapeOp::create(builder, loc, type.clone(shape), value);
    nameAfter(reshape, op, name);
    return reshape;
  };
  Value bias = op.getBias();
  if (bias && op.getBias().getType().getDimSize(1) == heads)
    bias = grouped(bias, "bias");
  auto attention =
      AttentionOp::create(builder, loc, grouped(op.getQuery(), "queries"), op.getKey(),
                          op.getValue(), bias, op.getScale().convertToDouble(), /*causal=*/false);
  if (StringRef id = getOpId(op); !id.empty())
    setOpId(attention, id);
  auto back = ReshapeOp::create(builder, loc, output, attention.getOutput());
  nameAfter(back, op, "heads");
  op.getOutput().replaceAllUsesWith(back.getResult());
  if (!op.getLogSum().use_empty()) {
    auto sums = ReshapeOp::create(builder, loc, op.getLogSum().getType(), attention.getLogSum());
    nameAfter(sums, op, "sums");
    op.getLogSum().replaceAllUsesWith(sums.getResult());
  }
  op.erase();
}

struct FoldRepeatedHeadsPass
    : mlir::autopar::impl::FoldRepeatedHeadsPassBase<FoldRepeatedHeadsPass> {
  void runOnOperation() override {
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp op) { products.push_back(op); });
    for (DotGeneralOp op : products)
      foldRepeat(op);
    SmallVector<AttentionOp> attentions(getOperation().getOps<AttentionOp>());
    for (AttentionOp op : attentions)
      foldQueries(op);
  }
};

} // namespace
