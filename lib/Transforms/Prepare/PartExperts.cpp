// SPDX-License-Identifier: Apache-2.0
// The pass autopar-part-experts: what is worked on between the grouped products of a mixture gets a
// dimension of parts in front. A part is right about the rows of its own experts; the last products
// make zeros of all others, and the sum over parts moves behind what is linear.
#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_PARTEXPERTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Numbers of dimensions behind the one of parts.
SmallVector<int64_t> shifted(ArrayRef<int64_t> dims) {
  return llvm::map_to_vector(dims, [](int64_t dim) { return dim + 1; });
}
SmallVector<int64_t> behind(int64_t first, ArrayRef<int64_t> dims) {
  SmallVector<int64_t> all{first};
  llvm::append_range(all, dims);
  return all;
}

/// What parameters and constants alone make.
class Fixed {
public:
  explicit Fixed(func::FuncOp function) : made(madeOfParameters(function)) {}
  bool contains(Value value) const {
    if (Operation *op = value.getDefiningOp())
      return made.contains(op);
    return !isFed(cast<BlockArgument>(value));
  }

private:
  llvm::SetVector<Operation *> made;
};

/// The grouped products whose rows meet the same experts.
class Mixture {
public:
  Mixture(ArrayRef<GroupedDotOp> products, int64_t parts, const Fixed &fixed)
      : group(GroupedDotOp(products.front()).getGroup()), parts(parts), fixed(fixed),
        products(products.begin(), products.end()) {}

  void write() {
    for (Operation *op = *products.begin(); op; op = op->getNextNode())
      after.push_back(op);
    findOwn();
    for (Operation *op : after) {
      auto product = dyn_cast<GroupedDotOp>(op);
      if (product && products.contains(product))
        writeProduct(product);
      else if (op->getNumResults() == 1 && own.contains(op->getResult(0)))
        lift(op);
    }
    for (Operation *op : llvm::reverse(after))
      if (replaced.contains(op) && isOpTriviallyDead(op))
        op->erase();
  }

private:
  RankedTensorType inParts(RankedTensorType type) const {
    return type.clone(behind(parts, type.getShape()));
  }

  //===-- what is read by parts alone --------------------------------------------------------===//

  /// Values that only products of this mixture read, or what they read is made of: what they are in
  /// rows of other parts does not matter.
  void findOwn() {
    DenseSet<Value> reached;
    for (Operation *op : after) {
      auto product = dyn_cast<GroupedDotOp>(op);
      bool follows = (product && products.contains(product)) ||
                     (canLift(op) &&
                      llvm::any_of(op->getOperands(),
                                   [&](Value operand) { return reached.contains(operand); }) &&
                      llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
                        return !reached.contains(operand.get()) || keepsRows(operand);
                      }));
      if (follows)
        reached.insert(op->getResult(0));
    }
    for (Operation *op : llvm::reverse(after))
      if (op->getNumResults() == 1 && reached.contains(op->getResult(0)) && !op->use_empty() &&
          llvm::all_of(op->getUses(), [&](OpOperand &use) { return isReadByParts(use); }))
        own.insert(op->getResult(0));
  }

  bool isReadByParts(OpOperand &use) const {
    if (auto product = dyn_cast<GroupedDotOp>(use.getOwner());
        product && products.contains(product))
      return use.getOperandNumber() == 0;
    return use.getOwner()->getNumResults() == 1 && own.contains(use.getOwner()->getResult(0));
  }

  /// Whether an operation has a result and operand of the rows in front, and works on each alone.
  bool keepsRows(OpOperand &operand) const {
    ShardingRule rule = shardingRuleOf(operand.getOwner());
    ArrayRef<int64_t> rows = typeOf(group).getShape();
    auto startsWithRows = [&](Value value) {
      return typeOf(value).getShape().take_front(rows.size()) == rows;
    };
    if (!startsWithRows(operand.get()) || !startsWithRows(operand.getOwner()->getResult(0)))
      return false;
    const ShardingRule::Tensor &from = rule.operands[operand.getOperandNumber()],
                               &to = rule.results.front();
    for (size_t dim = 0; dim < rows.size(); ++dim)
      if (from[dim] != to[dim] || llvm::any_of(from[dim], [&](int64_t factor) {
            return rule.factors[factor].kind != FactorKind::PassThrough;
          }))
        return false;
    return true;
  }

  //===-- operations in parts ----------------------------------------------------------------===//

  static bool canLift(Operation *op) {
    return op->getNumResults() == 1 &&
           (op->hasTrait<OpTrait::Elementwise>() ||
            isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp, ReduceOp>(op));
  }

  /// Gives what a new operation makes the name of an old one, with a suffix.
  static Value named(Operation *made, Operation *op, const Twine &suffix = "") {
    if (!getOpId(op).empty())
      setOpId(made, getOpId(op) + suffix);
    return made->getResult(0);
  }

  /// The operation on operands that have parts.
  Value lift(Operation *op) {
    OpBuilder builder(op);
    RankedTensorType type = inParts(typeOf(op->getResult(0)));
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands())
      operands.push_back(inParts(operand.get(), op));
    Operation *made = nullptr;
    Location loc = op->getLoc();
    if (isa<ReshapeOp>(op))
      made = ReshapeOp::create(builder, loc, type, operands[0]);
    else if (auto transpose = dyn_cast<TransposeOp>(op))
      made = TransposeOp::create(builder, loc, type, operands[0],
                                 behind(0, shifted(transpose.getPermutation())));
    else if (auto broadcast = dyn_cast<BroadcastOp>(op))
      made = BroadcastOp::create(builder, loc, type, operands[0],
                                 behind(0, shifted(broadcast.getDims())));
    else if (auto slice = dyn_cast<SliceOp>(op))
      made = SliceOp::create(builder, loc, type, operands[0], behind(0, slice.getStarts()),
                             behind(1, slice.getSteps()));
    else if (auto reduce = dyn_cast<ReduceOp>(op))
      made = ReduceOp::create(builder, loc, type, reduce.getKind(), operands[0],
                              shifted(reduce.getDims()));
    else {
      OperationState state(loc, op->getName(), operands, {type}, op->getAttrs());
      made = builder.create(state);
    }
    replaced.insert(op);
    return lifted[op->getResult(0)] = named(made, op);
  }

  /// A value with parts, named after what reads it: the same in each where it has none.
  Value inParts(Value value, Operation *reader) {
    if (Value known = lifted.lookup(value))
      return known;
    Value made = everywhere(value, reader);
    return lifted[value] = made;
  }

  Value everywhere(Value value, Operation *reader) {
    RankedTensorType type = inParts(typeOf(value));
    Operation *op = value.getDefiningOp();
    if (isSplat(op)) {
      OpBuilder builder(op);
      auto elements = cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue());
      return ConstantOp::create(
          builder, op->getLoc(),
          DenseElementsAttr::get(type, {elements.getSplatValue<Attribute>()}));
    }
    if (isLookup(value)) {
      OpBuilder builder(op);
      auto gather = cast<GatherOp>(op);
      Value numbers = inParts(gather.getIndices(), reader);
      return named(GatherOp::create(builder, op->getLoc(), type, gather.getInput(), numbers,
                                    gather.getDims(), 0),
                   reader, "/parts." + Twine(count++));
    }
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op))
      return repeated(broadcast.getInput(), type, shifted(broadcast.getDims()), reader);
    return repeated(value, type, llvm::to_vector(llvm::seq<int64_t>(1, type.getRank())), reader);
  }

  /// One for all that read the same, so that its gradient is one too.
  Value repeated(Value value, RankedTensorType type, ArrayRef<int64_t> dims, Operation *reader) {
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    Value &known = repetitions[{value, {type, builder.getDenseI64ArrayAttr(dims)}}];
    if (!known)
      known = named(BroadcastOp::create(builder, value.getLoc(), type, value, dims), reader,
                    "/parts." + Twine(count++));
    return known;
  }

  /// Whether a value is what the experts of rows have, such as their biases.
  bool isLookup(Value value) const {
    Operation *op = value.getDefiningOp();
    auto gather = dyn_cast_or_null<GatherOp>(op);
    return gather && fixed.contains(gather.getInput()) && gather.getBatchDims() == 0 &&
           gather.getDims() == ArrayRef<int64_t>{0};
  }

  //===-- products, and sums over parts behind them ------------------------------------------===//

  void writeProduct(GroupedDotOp product) {
    Value rows = inParts(product.getLhs(), product);
    OpBuilder builder(product);
    auto made = GroupedDotOp::create(builder, product.getLoc(), inParts(product.getType()), rows,
                                     product.getRhs(), group, product.getTransposed(),
                                     product.getAmongAttr(), /*in_parts=*/true);
    replaced.insert(product);
    lifted[product.getResult()] = named(made, product);
    if (!own.contains(product.getResult()))
      sum(product.getResult());
  }

  /// Replaces what is zero in all parts but one by the sum over them, as late as it may be.
  void sum(Value value) {
    bool hasRows = true;
    while (value.hasOneUse()) {
      OpOperand &use = *value.use_begin();
      Operation *op = use.getOwner();
      if (auto reduce = dyn_cast<ReduceOp>(op); reduce && reduce.getKind() == ReduceKind::Sum) {
        OpBuilder builder(op);
        reduce.getResult().replaceAllUsesWith(
            named(ReduceOp::create(builder, op->getLoc(), reduce.getType(), ReduceKind::Sum,
                                   lifted[value], behind(0, shifted(reduce.getDims()))),
                  op));
        replaced.insert(op);
        return;
      }
      hasRows = hasRows && op->getNumResults() == 1 && keepsRows(use);
      if (hasRows && addsOfExperts(use))
        keepToOwner(use);
      else if (!isLinear(use))
        break;
      lift(op);
      value = op->getResult(0);
    }
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(lifted[value]);
    Value total = named(ReduceOp::create(builder, value.getLoc(), typeOf(value), ReduceKind::Sum,
                                         lifted[value], ArrayRef<int64_t>{0}),
                        value.getDefiningOp(), "/sum");
    value.replaceAllUsesWith(total);
  }

  static bool isLinear(OpOperand &use) {
    Operation *op = use.getOwner();
    if (auto binary = dyn_cast<BinaryOp>(op))
      return binary.getKind() == BinaryKind::Mul ||
             (binary.getKind() == BinaryKind::Div && use.getOperandNumber() == 0);
    return isa<ReshapeOp, TransposeOp, BroadcastOp, SliceOp>(op);
  }

  /// Whether what the experts of rows have is added, their biases.
  bool addsOfExperts(OpOperand &use) const {
    auto binary = dyn_cast<BinaryOp>(use.getOwner());
    if (!binary || binary.getKind() != BinaryKind::Add)
      return false;
    return isLookup(binary->getOperand(1 - use.getOperandNumber()));
  }

  /// Makes the other operand zero in the parts that do not have a row's expert.
  void keepToOwner(OpOperand &use) {
    Operation *op = use.getOwner();
    Value other = op->getOperand(1 - use.getOperandNumber());
    Value there = inParts(other, op);
    OpBuilder builder(op);
    FormulaBuilder b(builder, op);
    RankedTensorType type = typeOf(there).clone(builder.getI1Type());
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, typeOf(group).getRank() + 1));
    Value isOwn = BroadcastOp::create(builder, op->getLoc(), type, ownRows(), dims);
    lifted[other] = named(b.where(isOwn, there).getDefiningOp(), op, "/own");
  }

  /// Which rows are of a part, [parts, rows...].
  Value ownRows() {
    if (isOwnRow)
      return isOwnRow;
    OpBuilder builder(group.getContext());
    builder.setInsertionPointAfterValue(group);
    FormulaBuilder b(builder, group.getLoc());
    GroupedDotOp first = *products.begin();
    int64_t groups = first.getRhs().getType().getDimSize(0);
    Value known = b.clampPositions(group, b.splatLike(group, static_cast<double>(groups)));
    known = b.div(known, b.splatLike(known, static_cast<double>(groups / parts)));
    RankedTensorType type = inParts(typeOf(known));
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(1, type.getRank()));
    Value part = IotaOp::create(builder, b.loc, type, 0);
    Value owner = BroadcastOp::create(builder, b.loc, type, known, dims);
    return isOwnRow = b.compare(ComparePredicate::Eq, owner, part);
  }

  Value group;
  int64_t parts;
  const Fixed &fixed;
  llvm::SetVector<GroupedDotOp> products;
  SmallVector<Operation *> after; ///< from the first product on, before anything is written
  DenseSet<Value> own;
  DenseMap<Value, Value> lifted; ///< with parts
  DenseMap<std::pair<Value, std::pair<Type, Attribute>>, Value> repetitions;
  DenseSet<Operation *> replaced;
  Value isOwnRow;
  int64_t count = 0; ///< of what is new
};

struct PartExpertsPass : mlir::autopar::impl::PartExpertsPassBase<PartExpertsPass> {
  using Base::Base;

  void runOnOperation() override {
    if (parts == 1)
      return;
    func::FuncOp function = getOperation();
    Fixed fixed(function);
    llvm::MapVector<std::pair<Value, int64_t>, SmallVector<GroupedDotOp>> mixtures;
    for (auto product : function.getOps<GroupedDotOp>()) {
      if (product.getInParts() || !fixed.contains(product.getRhs()))
        continue;
      int64_t groups = product.getRhs().getType().getDimSize(0);
      if (parts < 1 || groups % parts) {
        product.emitOpError() << "has " << groups << " experts, which " << parts.getValue()
                              << " ranks cannot share evenly: expected a divisor of " << groups;
        return signalPassFailure();
      }
      mixtures[{product.getGroup(), groups}].push_back(product);
    }
    for (const auto &[key, products] : mixtures)
      Mixture(products, parts, fixed).write();
  }
};

} // namespace
