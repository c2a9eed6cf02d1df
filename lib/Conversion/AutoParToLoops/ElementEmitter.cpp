// SPDX-License-Identifier: Apache-2.0
// Substitution of formulas, with a memo so that a value that several formulas ask for at the same
// index is emitted once.
#include "ElementEmitter.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace mlir::autopar {

/// The loader of one operation at one index.
class Frame : public ElementLoader {
public:
  Frame(ElementEmitter &emitter, ElementLoweringOpInterface op, ArrayRef<AffineExpr> index,
        RowState *state, int64_t finishedPasses)
      : emitter(emitter), op(op), index_(index), state(state), finishedPasses(finishedPasses) {}

  Value load(OpBuilder &builder, unsigned operand) override {
    return load(builder, operand, op.getOperandMap(operand));
  }
  Value load(OpBuilder &builder, unsigned operand, AffineMap map) override {
    return emitter.evaluate(builder, op->getOperand(operand), applyMap(map, index_));
  }
  Value load(OpBuilder &builder, unsigned operand, ValueRange indices) override {
    SmallVector<AffineExpr> exprs;
    for (Value value : indices)
      exprs.push_back(emitter.expressionOf(value));
    return emitter.evaluate(builder, op->getOperand(operand), exprs);
  }
  Value index(OpBuilder &builder, unsigned dim) override {
    Value value = emitter.materialize(builder, index_[dim]);
    emitter.known.try_emplace(value, index_[dim]);
    return value;
  }
  std::optional<std::pair<int64_t, int64_t>> range(unsigned dim) override {
    return emitter.rangeOf(index_[dim]);
  }
  ValueRange rowValues() override {
    if (values.empty())
      values = emitter.rowValues(*builder, *state, finishedPasses - 1);
    return values;
  }
  Value rowElement(OpBuilder &builder) override {
    if (state->kept && state->keptPass == finishedPasses - 1)
      return emitter.loadAt(builder, state->kept);
    return emitter.emitRowElement(builder, op, finishedPasses - 1, index_, *state);
  }

  /// Where row values are read from their buffers.
  OpBuilder *builder = nullptr;

private:
  ElementEmitter &emitter;
  ElementLoweringOpInterface op;
  ArrayRef<AffineExpr> index_;
  RowState *state;
  int64_t finishedPasses;
  SmallVector<Value> values;
};

} // namespace mlir::autopar

ElementEmitter::ElementEmitter(const GroupBody &body, const KernelPlan &plan, ValueRange inputs)
    : plan(plan), body(body), loc(body.anchor->getLoc()), context(body.anchor->getContext()) {
  for (auto [value, memref] : llvm::zip(body.inputs, inputs))
    memrefs.try_emplace(value, memref);
  for (const LoopDim &loop : plan.loops)
    addAtom(loop.extent);
}

//===-- indices ------------------------------------------------------------------------------===//

unsigned ElementEmitter::addAtom(int64_t extent, Value index) {
  extents.push_back(extent);
  atoms.push_back(Value());
  if (index)
    bind(atoms.size() - 1, index);
  return atoms.size() - 1;
}

void ElementEmitter::bind(unsigned atom, Value index) {
  atoms[atom] = index;
  known[index] = getAffineDimExpr(atom, context);
}

std::optional<std::pair<int64_t, int64_t>> ElementEmitter::rangeOf(AffineExpr index) const {
  LinearForm form = linearize(index, extents);
  int64_t low = form.constant, high = form.constant;
  for (auto [term, coefficient] : form.terms) {
    auto dim = dyn_cast<AffineDimExpr>(term);
    if (!dim || extents[dim.getPosition()] == unknownExtent)
      return std::nullopt;
    auto limit = limits.find(dim.getPosition());
    auto [first, last] = limit != limits.end()
                             ? limit->second
                             : std::pair<int64_t, int64_t>(0, extents[dim.getPosition()] - 1);
    low += coefficient * (coefficient > 0 ? first : last);
    high += coefficient * (coefficient > 0 ? last : first);
  }
  return std::make_pair(low, high);
}

AffineExpr ElementEmitter::expressionOf(Value index) {
  if (auto constant = index.getDefiningOp<arith::ConstantIndexOp>())
    return getAffineConstantExpr(constant.value(), context);
  if (AffineExpr expr = known.lookup(index))
    return expr;
  return getAffineDimExpr(addAtom(unknownExtent, index), context);
}

Value ElementEmitter::materialize(OpBuilder &builder, AffineExpr expr) {
  if (auto constant = dyn_cast<AffineConstantExpr>(expr))
    return indexConstant(builder, loc, constant.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return atoms[dim.getPosition()];
  auto binary = cast<AffineBinaryOpExpr>(expr);
  Value left = materialize(builder, binary.getLHS()), right = materialize(builder, binary.getRHS());
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return arith::AddIOp::create(builder, loc, left, right);
  case AffineExprKind::Mul:
    return arith::MulIOp::create(builder, loc, left, right);
  case AffineExprKind::FloorDiv:
    return arith::DivUIOp::create(builder, loc, left, right);
  case AffineExprKind::Mod:
    return arith::RemUIOp::create(builder, loc, left, right);
  default:
    llvm_unreachable("index expressions have no other operations");
  }
}

//===-- elements -----------------------------------------------------------------------------===//

Value ElementEmitter::loadAt(OpBuilder &builder, const KeptElements &kept) {
  Value place = materialize(builder, kept.offset);
  if (kept.memref.getDefiningOp()) {
    // Scratch is small: narrow positions make narrow, hence wider, gathers.
    place = arith::IndexCastOp::create(builder, loc, builder.getI32Type(), place);
    place = arith::IndexCastOp::create(builder, loc, builder.getIndexType(), place);
  }
  return loadScalar(builder, loc, kept.memref, place, kept.elementType);
}

void ElementEmitter::storeAt(OpBuilder &builder, const KeptElements &kept, Value scalar) {
  storeScalar(builder, loc, scalar, kept.memref, materialize(builder, kept.offset),
              kept.elementType);
}

/// Whether `value` dominates the insertion point: blocks are only ever appended to.
bool ElementEmitter::isVisible(Value value, OpBuilder &builder) const {
  for (Block *block = builder.getInsertionBlock(); block;) {
    if (block == value.getParentBlock())
      return true;
    Operation *parent = block->getParentOp();
    block = parent ? parent->getBlock() : nullptr;
  }
  return false;
}

Value ElementEmitter::evaluate(OpBuilder &builder, Value value, SmallVector<AffineExpr> index) {
  std::pair<void *, std::vector<const void *>> key{value.getAsOpaquePointer(), {}};
  for (AffineExpr &expr : index) {
    expr = simplifyIndex(expr, extents);
    key.second.push_back(expr.getAsOpaquePointer());
  }
  if (auto found = memo.find(key); found != memo.end() && isVisible(found->second, builder))
    return found->second;
  Value result;
  if (auto known = assumed.find(value); known != assumed.end()) {
    result =
        arith::ConstantOp::create(builder, loc, builder.getBoolAttr(known->second)).getResult();
  } else if (auto kept = keptValues.find(value);
             kept != keptValues.end() && plan.isCurrentPoint(index, shapeOf(value))) {
    result = loadAt(builder, kept->second);
  } else if (Value memref = memrefs.lookup(value)) {
    result = loadInput(builder, value, memref, index);
  } else {
    result = evaluateFormula(builder, cast<OpResult>(value), index);
  }
  memo[key] = result;
  return result;
}

Value ElementEmitter::loadedHere(Value input) const {
  for (auto at = memo.lower_bound({input.getAsOpaquePointer(), {}});
       at != memo.end() && at->first.first == input.getAsOpaquePointer(); ++at) {
    SmallVector<AffineExpr> index;
    for (const void *expr : at->first.second)
      index.push_back(AffineExpr::getFromOpaquePointer(expr));
    if (plan.isCurrentPoint(index, shapeOf(input)))
      return at->second;
  }
  return {};
}

Value ElementEmitter::loadInput(OpBuilder &builder, Value input, Value memref,
                                ArrayRef<AffineExpr> index) {
  for (auto &[read, kept] : keptReads)
    if (read.input == input && ArrayRef<AffineExpr>(read.index) == index)
      return loadAt(builder, kept);
  return loadScalar(builder, loc, memref, offsetOf(builder, input, index), elementTypeOf(input));
}

Value ElementEmitter::offsetOf(OpBuilder &builder, Value input, ArrayRef<AffineExpr> index) {
  return materialize(builder, simplifyIndex(flatten(index, shapeOf(input), context), extents));
}

Value ElementEmitter::evaluateFormula(OpBuilder &builder, OpResult value,
                                      ArrayRef<AffineExpr> index) {
  auto op = cast<ElementLoweringOpInterface>(value.getOwner());
  RowDomain rows = op.getRowDomain();
  if (!rows) {
    Frame frame(*this, op, index, nullptr, 0);
    return op.emitElement(builder, value.getResultNumber(), frame);
  }
  bool isCurrent = rows.reduces ? plan.isCurrentRow(index, shapeOf(value))
                                : plan.isCurrentPoint(index, shapeOf(value));
  auto state = states.find(op);
  int64_t passes = op.getRowPassCount();
  bool isReady =
      state != states.end() && static_cast<int64_t>(state->second.values.size()) == passes;
  if (!isCurrent || !isReady)
    return emitRowInline(builder, value, index);
  SmallVector<AffineExpr> domainIndex(plan.domainIndex);
  Frame frame(*this, op, domainIndex, &state->second, passes);
  frame.builder = &builder;
  return op.emitElement(builder, value.getResultNumber(), frame);
}

//===-- rows ---------------------------------------------------------------------------------===//

SmallVector<Value> ElementEmitter::rowValues(OpBuilder &builder, RowState &state, int64_t pass) {
  return llvm::map_to_vector(state.values[pass], [&](const RowValue &value) {
    return value.scalar ? value.scalar : loadAt(builder, value.perColumn);
  });
}

Value ElementEmitter::emitRowElement(OpBuilder &builder, ElementLoweringOpInterface op,
                                     int64_t pass, ArrayRef<AffineExpr> index, RowState &state) {
  Frame frame(*this, op, index, &state, pass);
  frame.builder = &builder;
  return op.emitRowElement(builder, pass, frame);
}

SmallVector<Value> ElementEmitter::emitRowStep(OpBuilder &builder, ElementLoweringOpInterface op,
                                               int64_t pass, Value element, ValueRange accumulators,
                                               ArrayRef<AffineExpr> index, RowState &state) {
  Frame frame(*this, op, index, &state, pass);
  frame.builder = &builder;
  return op.emitRowStep(builder, pass, element, accumulators, frame);
}

/// A row operation asked for at an index other than the kernel's current row: all its passes run
/// here. Grouping avoids it where it would cost much.
Value ElementEmitter::emitRowInline(OpBuilder &builder, OpResult value,
                                    ArrayRef<AffineExpr> index) {
  auto op = cast<ElementLoweringOpInterface>(value.getOwner());
  RowDomain rows = op.getRowDomain();
  SmallVector<AffineExpr> domainIndex(index);
  SmallVector<LoopBounds> loops;
  if (rows.reduces)
    domainIndex.clear();
  for (int64_t dim = 0, kept = 0; dim < static_cast<int64_t>(rows.shape.size()); ++dim) {
    if (!rows.isRowDim(dim)) {
      if (rows.reduces)
        domainIndex.push_back(index[kept++]);
      continue;
    }
    unsigned atom = addAtom(rows.shape[dim]);
    AffineExpr expr = getAffineDimExpr(atom, context);
    if (rows.reduces)
      domainIndex.push_back(expr);
    else
      domainIndex[dim] = expr;
    loops.push_back(
        {atom, indexConstant(builder, loc, 0), indexConstant(builder, loc, rows.shape[dim])});
  }
  RowState state;
  for (int64_t pass = 0; pass < op.getRowPassCount(); ++pass) {
    SmallVector<Value> totals = emitNest(
        builder, *this, loops, op.emitRowStart(builder, pass), [&](OpBuilder &b, ValueRange sums) {
          Value element = emitRowElement(b, op, pass, domainIndex, state);
          return emitRowStep(b, op, pass, element, sums, domainIndex, state);
        });
    SmallVector<RowValue> &values = state.values.emplace_back();
    for (Value value : op.emitRowFinish(builder, pass, totals))
      values.push_back({value, {}});
  }
  SmallVector<AffineExpr> resultIndex = rows.reduces ? domainIndex : SmallVector<AffineExpr>(index);
  Frame frame(*this, op, resultIndex, &state, op.getRowPassCount());
  frame.builder = &builder;
  return op.emitElement(builder, value.getResultNumber(), frame);
}
