// SPDX-License-Identifier: Apache-2.0
// See the header. Expansions of one kind share their constants.
#include "autopar/Dialect/AutoPar/Gradients/ExpandGradients.h"

#include "autopar/Interfaces/ExpansionInterface.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct Collector : OpBuilder::Listener {
  SmallVector<Operation *> made;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    made.push_back(op);
  }
};

class Expander {
public:
  explicit Expander(Block &block) : block(block) {}

  Value expand(ExpansionOpInterface op) {
    Collector collector;
    OpBuilder builder(op->getContext(), &collector);
    builder.setInsertionPoint(op);
    Value result = op.expand(builder);
    NamedAttrList attributes(op->getDiscardableAttrDictionary());
    result.getDefiningOp()->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    attributes.erase("autopar.id");
    DictionaryAttr unnamed = attributes.getDictionary(op->getContext());
    for (Operation *made : collector.made)
      if (auto constant = dyn_cast<ConstantOp>(made))
        share(constant);
      else if (made != result.getDefiningOp())
        made->setDiscardableAttrs(unnamed);
    op->getResult(0).replaceAllUsesWith(result);
    return result;
  }

private:
  void share(ConstantOp constant) {
    Value &known = constants[constant.getValue()];
    if (!known) {
      constant->moveBefore(&block, block.begin());
      known = constant;
      return;
    }
    constant.getResult().replaceAllUsesWith(known);
    constant->erase();
  }

  Block &block;
  DenseMap<Attribute, Value> constants;
};

} // namespace

DenseMap<Value, Value> mlir::autopar::expandGradients(Block &block,
                                                      llvm::function_ref<bool(Operation *)> keeps) {
  Expander expander(block);
  DenseMap<Value, Value> replaced;
  for (Operation &op : llvm::make_early_inc_range(block))
    if (auto whole = dyn_cast<ExpansionOpInterface>(op); whole && !(keeps && keeps(&op)))
      replaced[op.getResult(0)] = expander.expand(whole);
  return replaced;
}
