// SPDX-License-Identifier: Apache-2.0
// See the header. PyTorch's layer norm keeps its input and the statistics of its rows for the
// backward pass; ours keeps the input, and kernels compute the statistics again.
#include "NormalizeAgain.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// What stands behind the forward pass and reads a value, or what casts of it make there.
class LaterReaders {
public:
  LaterReaders(Value value, Operation *lastForward) : last(lastForward) { find(value); }

  /// Whether a derivative is among them that reads the normalization's input, too.
  bool keepsInput() const {
    return llvm::any_of(uses, [](auto &entry) {
      return llvm::any_of(entry.second,
                          [](OpOperand *use) { return isa<NormalizeGradOp>(use->getOwner()); });
    });
  }
  Operation *first() const { return earliest; }

  /// Has them read `again` in the place of the value, and casts of it.
  void read(Value again, OpBuilder &builder) {
    DenseMap<Value, Value> copies{{uses.front().first, again}};
    for (auto &[value, readers] : uses) {
      Value &copy = copies[value];
      if (!copy) {
        auto cast = value.getDefiningOp<CastOp>();
        copy =
            CastOp::create(builder, cast.getLoc(), cast.getType(), copies.lookup(cast.getInput()));
        setOpId(copy.getDefiningOp(), getOpId(cast) + "/vjp.again");
      }
      for (OpOperand *use : readers)
        use->set(copy);
    }
  }

private:
  bool isForward(Operation *op) const { return op == last || op->isBeforeInBlock(last); }

  /// Values stand in the order in which they are made of each other.
  void find(Value value) {
    SmallVector<OpOperand *> &own = uses.emplace_back(value, SmallVector<OpOperand *>()).second;
    SmallVector<Value> casts;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (isForward(user)) {
        if (isa<CastOp>(user))
          casts.push_back(user->getResult(0));
        continue;
      }
      own.push_back(&use);
      if (!earliest || user->isBeforeInBlock(earliest))
        earliest = user;
    }
    for (Value cast : casts)
      find(cast);
  }

  Operation *last, *earliest = nullptr;
  SmallVector<std::pair<Value, SmallVector<OpOperand *>>> uses;
};

} // namespace

/// Named as a derivative of the operation, so that it is on its stage.
void mlir::autopar::normalizeAgain(Block &block, Operation *lastForward) {
  for (auto op : block.getOps<NormalizeOp>()) {
    LaterReaders readers(op.getResult(), lastForward);
    if (!readers.keepsInput())
      continue;
    OpBuilder builder(readers.first());
    auto again = NormalizeAgainOp::create(builder, op.getLoc(), op.getType(), op.getInput(),
                                          op.getDimsAttr(), op.getEpsilonAttr(), op.getRmsAttr());
    setOpId(again, getOpId(op) + "/vjp.again");
    readers.read(again, builder);
  }
}
