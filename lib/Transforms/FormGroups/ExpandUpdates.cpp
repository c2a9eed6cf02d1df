// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-updates: formulas are of rank 0, what they stand for has the shape of the
// parameter. Where no other operation could join its kernel, an update becomes a fusion group at
// once, which the passes behind do not look into.
#include "Fusion/FusionClusters.h"

#include "autopar/Transforms/Passes.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDUPDATESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType shapedLike(UpdateOp update, Type number) {
  return cast<RankedTensorType>(update.getResult(0).getType()).clone(getElementTypeOrSelf(number));
}

/// Writes the updates of one function out.
class Expander {
public:
  explicit Expander(func::FuncOp function)
      : block(function.getBody().front()), builder(function.getContext()) {}

  void run(SymbolTable &symbols) {
    for (UpdateOp update : llvm::make_early_inc_range(block.getOps<UpdateOp>())) {
      Block &body = symbols.lookup<FormulaOp>(update.getFormula()).getBody().front();
      if (isAlone(update, body))
        expandToGroup(update, body);
      else
        expandInPlace(update, body);
      update.erase();
    }
  }

private:
  /// Whether fusion could neither put anything into the update's kernel nor a part of it into
  /// another one, such as a product that takes an addition to its result.
  static bool isAlone(UpdateOp update, Block &body) {
    for (auto [number, input] : llvm::zip_equal(body.getArguments(), update.getInputs())) {
      Operation *producer = input.getDefiningOp();
      while (isa_and_present<ReshapeOp>(producer))
        producer = producer->getOperand(0).getDefiningOp();
      bool mayTakeUser = number.hasOneUse() && input.hasOneUse();
      if (producer && typeOf(input).getRank() != 0 && (!staysAlone(producer) || mayTakeUser))
        return false;
    }
    return llvm::all_of(update->getUsers(), staysAlone) &&
           llvm::all_of(body.getTerminator()->getOperands(),
                        [](Value value) { return value.getDefiningOp() != nullptr; });
  }
  static bool staysAlone(Operation *op) {
    return op->hasTrait<OpTrait::IsTerminator>() || isFixed(op);
  }
  static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

  void expandInPlace(UpdateOp update, Block &body) {
    IRMapping mapping;
    for (auto [number, input] : llvm::zip_equal(body.getArguments(), update.getInputs()))
      mapping.map(number, shaped(update, input));
    builder.setInsertionPoint(update);
    write(update, getOpId(update), body, mapping,
          [&](ConstantOp op) { return constant(update, op); });
    for (auto [result, value] :
         llvm::zip_equal(update.getResults(), body.getTerminator()->getOperands()))
      result.replaceAllUsesWith(mapping.lookup(value));
  }

  /// As form-fusion-groups would gather it: numbers are repeated inside.
  void expandToGroup(UpdateOp update, Block &body) {
    SmallVector<Value> inputs;
    for (auto [number, input] : llvm::zip_equal(body.getArguments(), update.getInputs()))
      if (!number.use_empty())
        inputs.push_back(input);
    builder.setInsertionPoint(update);
    Location loc = update.getLoc();
    auto group = GroupOp::create(builder, loc, update.getResultTypes(), inputs);
    if (StringRef id = getOpId(update); !id.empty())
      setOpId(group, id);
    update.replaceAllUsesWith(group.getResults());
    Block *inside = builder.createBlock(&group.getBody());
    IRMapping mapping;
    for (BlockArgument number : body.getArguments()) {
      if (number.use_empty())
        continue;
      Value input = inside->addArgument(inputs[inside->getNumArguments()].getType(), loc);
      if (RankedTensorType type = shapedLike(update, input.getType()); input.getType() != type)
        input = BroadcastOp::create(builder, loc, type, input, ArrayRef<int64_t>{});
      mapping.map(number, input);
    }
    write(update, "", body, mapping, [&](ConstantOp op) -> Value {
      return ConstantOp::create(builder, loc, shapedConstant(update, op));
    });
    YieldOp::create(builder, loc,
                    llvm::map_to_vector(body.getTerminator()->getOperands(),
                                        [&](Value value) { return mapping.lookup(value); }));
  }

  /// Writes the operations of a formula on whole tensors, of the phase of the update. The one that
  /// makes the parameter takes the name `id`; without it none has a name.
  void write(UpdateOp update, StringRef id, Block &body, IRMapping &mapping,
             function_ref<Value(ConstantOp)> makeConstant) {
    Operation *last = body.getTerminator()->getOperand(0).getDefiningOp();
    NamedAttrList attributes(update->getDiscardableAttrDictionary());
    attributes.erase("autopar.id");
    llvm::StringMap<unsigned> taken;
    for (Operation &op : body.without_terminator()) {
      if (auto constant = dyn_cast<ConstantOp>(op)) {
        mapping.map(constant.getResult(), makeConstant(constant));
        continue;
      }
      Operation *made = builder.clone(op, mapping);
      for (OpResult result : made->getResults())
        result.setType(shapedLike(update, result.getType()));
      made->setDiscardableAttrs(attributes.getDictionary(update.getContext()));
      if (id.empty())
        continue;
      StringRef kind = op.getName().stripDialect();
      unsigned count = taken[kind]++;
      std::string name = (id + "/" + kind).str();
      if (count)
        name += "." + std::to_string(count);
      setOpId(made, &op == last ? id.str() : name);
    }
  }

  /// A number that parameters share, repeated once for all of one shape.
  Value shaped(UpdateOp update, Value input) {
    RankedTensorType type = shapedLike(update, input.getType());
    if (input.getType() == type)
      return input;
    Value &known = repeated[{input, type}];
    if (!known) {
      builder.setInsertionPoint(update);
      auto made = BroadcastOp::create(builder, update.getLoc(), type, input, ArrayRef<int64_t>{});
      made->setDiscardableAttrs(update->getDiscardableAttrDictionary());
      if (StringRef id = getOpId(update); !id.empty())
        setOpId(made, id + "/broadcast");
      known = made;
    }
    return known;
  }

  static DenseElementsAttr shapedConstant(UpdateOp update, ConstantOp number) {
    return cast<DenseElementsAttr>(number.getValue())
        .resizeSplat(shapedLike(update, number.getType()));
  }

  Value constant(UpdateOp update, ConstantOp number) {
    DenseElementsAttr value = shapedConstant(update, number);
    Value &known = constants[value];
    if (!known) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(&block);
      known = ConstantOp::create(builder, number.getLoc(), value);
    }
    return known;
  }

  Block &block;
  OpBuilder builder;
  DenseMap<std::pair<Value, Type>, Value> repeated;
  DenseMap<Attribute, Value> constants;
};

struct ExpandUpdatesPass : mlir::autopar::impl::ExpandUpdatesPassBase<ExpandUpdatesPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        Expander(function).run(symbols);
    for (FormulaOp formula : llvm::make_early_inc_range(getOperation().getOps<FormulaOp>()))
      formula.erase();
  }
};

} // namespace
