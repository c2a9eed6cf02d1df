// SPDX-License-Identifier: Apache-2.0
// The pass autopar-split-attention-sinks.
#include "Prepare/StandIns.h"

#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SPLITATTENTIONSINKSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return mlir::cast<RankedTensorType>(value.getType()); }

/// Writes attention with a sink as attention without, and what the sink changes.
class Split {
public:
  explicit Split(AttentionOp op) : op(op), builder(op) { builder.setInsertionPointAfter(op); }

  void run() {
    Value output = op.getOutput(), sums = op.getLogSum();
    RankedTensorType rows = typeOf(sums), wide = typeOf(output).clone(rows.getElementType());
    auto outputUses = usesOf(output), sumsUses = usesOf(sums);
    Value sinks = make<BroadcastOp>("sinks", rows, cast(op.getSink(), rows, "sink.wide"),
                                    ArrayRef<int64_t>(1));
    op.getSinkMutable().clear();
    Value difference = binary("sink.difference", BinaryKind::Sub, sums, sinks),
          share = make<UnaryOp>("sink.left", rows, UnaryKind::Sigmoid, difference),
          shares = make<BroadcastOp>("sink.left.rows", wide, share, ArrayRef<int64_t>({0, 1, 2})),
          scaled =
              binary("sink.scaled", BinaryKind::Mul, cast(output, wide, "sink.output"), shares);
    replace(outputUses, cast(scaled, typeOf(output), "sink.narrow"));
    if (sumsUses.empty())
      return;
    Value more = make<UnaryOp>("sink.more", rows, UnaryKind::Softplus, difference);
    replace(sumsUses, binary("sink.sums", BinaryKind::Add, sinks, more));
  }

private:
  static SmallVector<OpOperand *> usesOf(Value value) {
    return llvm::map_to_vector(value.getUses(), [](OpOperand &use) { return &use; });
  }
  static void replace(ArrayRef<OpOperand *> uses, Value value) {
    for (OpOperand *use : uses)
      use->set(value);
  }
  template <typename Op, typename... Args>
  Value make(StringRef name, Args &&...args) {
    auto made = Op::create(builder, op.getLoc(), std::forward<Args>(args)...);
    nameAfter(made, op, name);
    return made;
  }
  Value binary(StringRef name, BinaryKind kind, Value a, Value b) {
    return make<BinaryOp>(name, a.getType(), kind, a, b);
  }
  Value cast(Value value, RankedTensorType like, StringRef name) {
    RankedTensorType type = typeOf(value).clone(like.getElementType());
    return typeOf(value) == type ? value : make<CastOp>(name, type, value);
  }

  AttentionOp op;
  OpBuilder builder;
};

struct SplitAttentionSinksPass
    : mlir::autopar::impl::SplitAttentionSinksPassBase<SplitAttentionSinksPass> {
  void runOnOperation() override {
    SmallVector<AttentionOp> operations;
    getOperation().walk([&](AttentionOp op) {
      if (op.getSink())
        operations.push_back(op);
    });
    for (AttentionOp op : operations)
      Split(op).run();
  }
};

} // namespace
