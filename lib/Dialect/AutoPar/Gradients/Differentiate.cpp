// SPDX-License-Identifier: Apache-2.0
// Walks the operations backwards and asks each how its cotangents pass to its operands.
#include "autopar/Dialect/AutoPar/Gradients/Differentiate.h"

#include "autopar/Dialect/AutoPar/Gradients/ExpandGradients.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/UniqueIds.h"
#include "autopar/Interfaces/GradientInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::autopar;

static bool isFloat(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

namespace {
/// Collects what a gradient is made of, to name it.
struct Collector : OpBuilder::Listener {
  SmallVector<Operation *> made;
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint) override {
    made.push_back(op);
  }
};

class Differentiation {
public:
  Differentiation(OpBuilder &builder, Value loss, ValueRange values,
                  ArrayRef<std::pair<Value, Value>> seeds)
      : builder(builder), loss(loss), values(values), seeds(seeds.begin(), seeds.end()),
        ids(*loss.getParentBlock()) {}

  FailureOr<SmallVector<Value>> run() {
    expandEarlier();
    findActive();
    if (failed(checkPaths()))
      return failure();
    for (auto [value, cotangent] : seeds)
      accumulate(value, cotangent);
    for (Operation *op : llvm::reverse(activeOps))
      if (failed(passBack(op)))
        return failure();
    SmallVector<Value> results;
    for (Value value : values) {
      results.push_back(cotangents.lookup(value));
      if (!results.back() && failed(checkFlat(value)))
        return failure();
    }
    return results;
  }

private:
  /// What an earlier differentiation made as a whole is differentiated as what it stands for.
  void expandEarlier() {
    DenseMap<Value, Value> replaced = expandGradients(*loss.getParentBlock());
    auto settle = [&](Value &value) {
      if (Value parts = replaced.lookup(value))
        value = parts;
    };
    settle(loss);
    llvm::for_each(values, settle);
    for (auto &[value, cotangent] : seeds) {
      settle(value);
      settle(cotangent);
    }
  }

  /// What depends on the values through floats.
  void findActive() {
    active.insert(values.begin(), values.end());
    Block &block = *loss.getParentBlock();
    for (Operation &op : llvm::make_range(block.begin(), builder.getInsertionPoint())) {
      if (llvm::none_of(op.getOperands(), [&](Value value) { return active.contains(value); }))
        continue;
      activeOps.push_back(&op);
      for (Value result : op.getResults())
        if (isFloat(result))
          active.insert(result);
    }
  }

  /// A loss that depends on a value only through whole numbers or conditions has no derivative by
  /// it; silently leaving the value alone would be wrong.
  LogicalResult checkPaths() {
    DenseSet<Value> needed{loss}, smooth{loss};
    for (Operation &op : llvm::reverse(*loss.getParentBlock())) {
      if (llvm::any_of(op.getResults(), [&](Value value) { return needed.contains(value); }))
        needed.insert(op.operand_begin(), op.operand_end());
      for (Value result : op.getResults())
        if (smooth.contains(result) && isFloat(result))
          for (Value operand : op.getOperands())
            if (isFloat(operand))
              smooth.insert(operand);
    }
    for (Value value : values)
      if (needed.contains(value) && !smooth.contains(value))
        return reportCut(value, needed);
    return success();
  }

  /// A value whose every path to the loss passes a step (floor, sign, ...) would never change.
  LogicalResult checkFlat(Value value) {
    DenseSet<Value> reached{value};
    for (Operation *op : activeOps) {
      if (llvm::none_of(op->getOperands(),
                        [&](Value operand) { return reached.contains(operand); }))
        continue;
      if (llvm::is_contained(flat, op))
        return op->emitOpError() << "has derivative zero everywhere, and the loss depends on "
                                 << "\"" << nameOf(value)
                                 << "\" only through it: freeze that parameter";
      reached.insert(op->result_begin(), op->result_end());
    }
    return success();
  }

  LogicalResult reportCut(Value value, const DenseSet<Value> &needed) {
    SmallVector<Value> worklist{value};
    DenseSet<Value> seen;
    while (!worklist.empty()) {
      Value current = worklist.pop_back_val();
      for (Operation *user : current.getUsers())
        for (Value result : user->getResults()) {
          if (!needed.contains(result) || !seen.insert(result).second)
            continue;
          if (!isFloat(result))
            return user->emitOpError()
                   << "has no gradient, and the loss depends on \"" << nameOf(value) << "\""
                   << " only through it: freeze that parameter, or choose another loss";
          worklist.push_back(result);
        }
    }
    llvm_unreachable("a path without whole numbers is smooth");
  }

  std::string nameOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? nameOfArgument(argument) : getOpId(value.getDefiningOp()).str();
  }

  LogicalResult passBack(Operation *op) {
    SmallVector<Value> given;
    for (Value result : op->getResults())
      given.push_back(cotangents.lookup(result));
    if (llvm::none_of(given, [](Value value) { return value; }))
      return success();
    auto gradient = dyn_cast<GradientOpInterface>(op);
    for (OpOperand &operand : op->getOpOperands()) {
      if (!active.contains(operand.get()) || !isFloat(operand.get()))
        continue;
      if (!gradient)
        return op->emitOpError("stands between a trained parameter and the loss, and has no "
                               "gradient: freeze the parameters before it");
      unsigned number = operand.getOperandNumber();
      Collector collector;
      OpBuilder collecting(builder.getContext(), &collector);
      collecting.setInsertionPoint(builder.getInsertionBlock(), builder.getInsertionPoint());
      FailureOr<Value> cotangent = gradient.buildGradient(collecting, number, given);
      if (failed(cotangent))
        return failure();
      if (!*cotangent) {
        flat.push_back(op);
        continue;
      }
      assert(cotangent->getType() == operand.get().getType());
      std::string id = (baseOf(op) + "/vjp." + Twine(number)).str();
      nameAll(collector.made, cotangent->getDefiningOp(), id);
      accumulate(operand.get(), *cotangent);
    }
    return success();
  }

  void accumulate(Value value, Value cotangent) {
    Value &sum = cotangents[value];
    if (!sum) {
      sum = cotangent;
      return;
    }
    auto add = BinaryOp::create(builder, cotangent.getLoc(), value.getType(), BinaryKind::Add, sum,
                                cotangent);
    Operation *op = value.getDefiningOp();
    std::string base = op ? baseOf(op).str() : nameOf(value);
    ids.name(add, base + "/vjp.sum");
    sum = add;
  }

  static StringRef baseOf(Operation *op) {
    StringRef id = getOpId(op);
    return id.empty() ? op->getName().stripDialect() : id;
  }

  void nameAll(ArrayRef<Operation *> made, Operation *last, const Twine &id) {
    for (Operation *op : made)
      if (op == last)
        ids.name(op, id);
    for (Operation *op : made)
      if (op != last)
        ids.name(op, id + "/" + op->getName().stripDialect());
  }

  OpBuilder &builder;
  Value loss;
  SmallVector<Value> values;
  SmallVector<std::pair<Value, Value>> seeds;
  DenseSet<Value> active;
  SmallVector<Operation *> activeOps, flat;
  DenseMap<Value, Value> cotangents;
  UniqueIds ids;
};
} // namespace

FailureOr<SmallVector<Value>>
mlir::autopar::differentiate(OpBuilder &builder, Value loss, ValueRange values,
                             ArrayRef<std::pair<Value, Value>> seeds) {
  if (!seeds.empty())
    return Differentiation(builder, loss, values, seeds).run();
  auto type = cast<RankedTensorType>(loss.getType());
  Attribute one = builder.getFloatAttr(type.getElementType(), 1);
  Value ones = ConstantOp::create(builder, loss.getLoc(), DenseElementsAttr::get(type, one));
  setOpId(ones.getDefiningOp(), "loss/vjp");
  return Differentiation(builder, loss, values, {{loss, ones}}).run();
}
