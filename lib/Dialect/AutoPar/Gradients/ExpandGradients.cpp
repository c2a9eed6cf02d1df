// SPDX-License-Identifier: Apache-2.0
// See the header. Expansions share what they have in common: constants, statistics of rows.
#include "autopar/Dialect/AutoPar/Gradients/ExpandGradients.h"

#include "autopar/Interfaces/ExpansionInterface.h"
#include "mlir/IR/OperationSupport.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct Collector : OpBuilder::Listener {
  SmallVector<Operation *> made;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    made.push_back(op);
  }
};

/// Operations on the same values are the same.
struct SameFormula : DenseMapInfo<Operation *> {
  static constexpr auto flags =
      OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs;
  static unsigned getHashValue(const Operation *op) {
    return OperationEquivalence::computeHash(const_cast<Operation *>(op),
                                             OperationEquivalence::directHashValue,
                                             OperationEquivalence::ignoreHashValue, flags);
  }
  static bool isEqual(const Operation *a, const Operation *b) {
    if (a == b || a == getEmptyKey() || a == getTombstoneKey() || b == getEmptyKey() ||
        b == getTombstoneKey())
      return a == b;
    return OperationEquivalence::isEquivalentTo(const_cast<Operation *>(a),
                                                const_cast<Operation *>(b), flags);
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
      if (auto constant = dyn_cast<ConstantOp>(made)) {
        share(constant);
      } else if (made != result.getDefiningOp()) {
        made->setDiscardableAttrs(unnamed);
        share(made);
      }
    op->getResult(0).replaceAllUsesWith(result);
    return result;
  }

  /// What expansions behind `op` may read instead of making it.
  void note(CastOp op) { formulas.insert(op); }

private:
  void share(Operation *made) {
    auto [known, isNew] = formulas.insert(made);
    if (isNew)
      return;
    made->replaceAllUsesWith(*known);
    made->erase();
  }

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
  DenseSet<Operation *, SameFormula> formulas;
};

} // namespace

DenseMap<Value, Value> mlir::autopar::expandGradients(Block &block,
                                                      llvm::function_ref<bool(Operation *)> keeps) {
  Expander expander(block);
  DenseMap<Value, Value> replaced;
  for (Operation &op : llvm::make_early_inc_range(block))
    if (auto whole = dyn_cast<ExpansionOpInterface>(op); whole && !(keeps && keeps(&op)))
      replaced[op.getResult(0)] = expander.expand(whole);
    else if (auto cast = dyn_cast<CastOp>(op))
      expander.note(cast);
  return replaced;
}
