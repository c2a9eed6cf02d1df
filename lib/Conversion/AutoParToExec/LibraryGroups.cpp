// SPDX-License-Identifier: Apache-2.0
// Groups around a matrix product or convolution: what the library can apply to the result (bias,
// scale, residual, activation) goes into the call; what comes before or after becomes kernels.
#include "LibraryCall.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::libraryKnows(Type elementType, Target target) {
  return elementType.isF32() || elementType.isBF16() ||
         (elementType.isF16() && target == Target::Cuda);
}

/// The value of a constant that is the same everywhere, looked at through broadcasts and reshapes.
static std::optional<double> splatValue(Value value) {
  while (isa_and_nonnull<BroadcastOp, ReshapeOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  auto constant = value.getDefiningOp<ConstantOp>();
  if (!constant)
    return std::nullopt;
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense || !dense.isSplat() || !isa<FloatType>(dense.getElementType()))
    return std::nullopt;
  return dense.getSplatValue<APFloat>().convertToDouble();
}

/// Whether `value` repeats a vector along dimensions `dims` of the result and only those; yields
/// the vector.
static Value repeatedVector(Value value, ArrayRef<int64_t> dims, ArrayRef<int64_t> shape) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  SmallVector<int64_t> covered, wanted;
  auto input = cast<RankedTensorType>(broadcast.getInput().getType());
  for (auto [extent, dim] : llvm::zip(input.getShape(), broadcast.getDims()))
    if (extent != 1)
      covered.push_back(dim);
  for (int64_t dim : dims)
    if (shape[dim] != 1)
      wanted.push_back(dim);
  return covered == wanted ? broadcast.getInput() : Value();
}

namespace {
/// A group taken apart: the library operation, now in the function, and what it applies.
class Dissection {
public:
  Dissection(ProgramBuilder &program, GroupOp group)
      : program(program), group(group), builder(group) {
    for (auto [inside, outside] : llvm::zip(group.getBody().getArguments(), group.getInputs()))
      mapping.map(inside, outside);
  }

  /// Clones what `value` is computed from into the function before the group.
  Value outside(Value value) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      outside(operand);
    Operation *copy = builder.clone(*op, mapping);
    copies.push_back(copy);
    return mapping.lookup(value);
  }

  /// All but what the library call does itself when it reads its operand.
  LogicalResult lowerCopies() {
    for (Operation *op : std::exchange(copies, {}))
      if (!isRoundedByProduct(op) && failed(program.lowerOperation(op)))
        return failure();
    return success();
  }

  ProgramBuilder &program;
  GroupOp group;
  OpBuilder builder;
  IRMapping mapping;
  SmallVector<Operation *> copies;
};

/// Follows the only uses of a product inside its group as long as the library can do what they do.
class TailMatcher {
public:
  /// cuBLASLt has no exact GELU.
  TailMatcher(Dissection &dissection, Value product, ArrayRef<int64_t> biasDims, Target target)
      : dissection(dissection), biasDims(biasDims), current(product),
        hasExactGelu(target == Target::Cpu) {}

  void match() {
    while (current.hasOneUse() && tail.epilogue == exec::Epilogue::None &&
           step(*current.user_begin())) {
    }
  }

  LibraryTail tail;
  Dissection &dissection;
  ArrayRef<int64_t> biasDims;
  Value current;

private:
  bool hasExactGelu;

  bool step(Operation *user) {
    auto type = cast<RankedTensorType>(current.getType());
    if (auto unary = dyn_cast<UnaryOp>(user)) {
      if (unary.getKind() == UnaryKind::Relu)
        tail.epilogue = exec::Epilogue::Relu;
      else if (unary.getKind() == UnaryKind::Gelu && hasExactGelu)
        tail.epilogue = exec::Epilogue::GeluErf;
      else if (unary.getKind() == UnaryKind::GeluTanh)
        tail.epilogue = exec::Epilogue::GeluTanh;
      else
        return false;
      current = unary.getResult();
      return true;
    }
    if (auto gradient = dyn_cast<UnaryGradOp>(user)) {
      auto at = dyn_cast<BlockArgument>(gradient.getInput());
      if (!at || !tail.isEmpty())
        return false;
      tail.residual = dissection.outside(at);
      tail.epilogue = exec::Epilogue::GeluTanhGrad;
      current = gradient.getResult();
      return true;
    }
    auto binary = dyn_cast<BinaryOp>(user);
    if (!binary)
      return false;
    bool isLeft = binary.getLhs() == current;
    Value other = isLeft ? binary.getRhs() : binary.getLhs();
    if (std::optional<double> factor = splatValue(other)) {
      if (tail.residual || tail.scale != 1.0 || *factor == 0.0)
        return false;
      if (binary.getKind() == BinaryKind::Mul)
        tail.scale = *factor;
      else if (binary.getKind() == BinaryKind::Div && isLeft)
        tail.scale = 1.0 / *factor;
      else
        return false;
    } else if (binary.getKind() != BinaryKind::Add) {
      return false;
    } else if (Value vector = repeatedVector(other, biasDims, type.getShape())) {
      if (tail.bias || tail.residual || tail.scale != 1.0)
        return false;
      tail.bias = dissection.outside(vector);
    } else if (auto argument = dyn_cast<BlockArgument>(other)) {
      if (tail.residual)
        return false;
      tail.residual = dissection.outside(argument);
    } else {
      return false;
    }
    current = binary.getResult();
    return true;
  }
};
} // namespace

/// Everything in the group that neither is the library operation nor went into its tail becomes a
/// group of its own, which reads the library's result.
static GroupOp formRest(Dissection &dissection, Value stored, Value insideStored) {
  GroupOp group = dissection.group;
  auto yield = cast<YieldOp>(group.getBody().front().getTerminator());
  llvm::SetVector<Operation *> needed;
  SmallVector<Value> worklist(yield.getValues());
  bool readsStored = false;
  llvm::SetVector<Value> inputs;
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    if (value == insideStored) {
      readsStored = true;
    } else if (isa<BlockArgument>(value)) {
      inputs.insert(value);
    } else if (needed.insert(value.getDefiningOp())) {
      llvm::append_range(worklist, value.getDefiningOp()->getOperands());
    }
  }
  Location loc = group.getLoc();
  SmallVector<Value> outer, inner(inputs.begin(), inputs.end());
  for (Value input : inner)
    outer.push_back(dissection.mapping.lookup(input));
  if (readsStored) {
    inner.push_back(insideStored);
    outer.push_back(stored);
  }
  auto rest = GroupOp::create(dissection.builder, loc, group.getResultTypes(), outer);
  if (!getOpId(group).empty())
    setOpId(rest, getOpId(group));
  SmallVector<Type> types = llvm::map_to_vector(outer, [](Value value) { return value.getType(); });
  OpBuilder body(group.getContext());
  Block *block =
      body.createBlock(&rest.getBody(), {}, types, SmallVector<Location>(types.size(), loc));
  IRMapping mapping;
  mapping.map(inner, block->getArguments());
  for (Operation &op : group.getBody().front())
    if (needed.contains(&op))
      body.clone(op, mapping);
  SmallVector<Value> yielded =
      llvm::map_to_vector(yield.getValues(), [&](Value value) { return mapping.lookup(value); });
  YieldOp::create(body, loc, yielded);
  return rest;
}

LogicalResult mlir::autopar::lowerLibraryGroup(ProgramBuilder &program, GroupOp group) {
  Operation *library = nullptr;
  for (Operation &op : group.getBody().front())
    if (isa<DotGeneralOp, ConvolutionOp>(op)) {
      library = &op;
      break;
    }
  Dissection dissection(program, group);
  Value stored = dissection.outside(library->getResult(0));
  Operation *call = stored.getDefiningOp();
  dissection.copies.pop_back(); // the call itself is lowered with its tail
  SmallVector<int64_t> biasDims;
  if (auto dot = dyn_cast<DotGeneralOp>(library)) {
    int64_t rank = dot.getType().getRank();
    biasDims = llvm::to_vector(llvm::seq<int64_t>(rank - dot.getRhsFree().size(), rank));
  } else {
    biasDims = {1};
  }
  TailMatcher matcher(dissection, library->getResult(0), biasDims, program.settings().target);
  Type element = cast<RankedTensorType>(stored.getType()).getElementType();
  auto conv = dyn_cast<ConvolutionOp>(call);
  if (libraryKnows(element, program.settings().target) &&
      (!conv || libraryTakesTail(program, conv)))
    matcher.match();

  auto yield = cast<YieldOp>(group.getBody().front().getTerminator());
  GroupOp rest;
  if (yield.getValues().size() == 1 && yield.getValues()[0] == matcher.current)
    group.getResult(0).replaceAllUsesWith(stored);
  else {
    rest = formRest(dissection, stored, matcher.current);
    group->replaceAllUsesWith(rest->getResults());
  }
  if (!getOpId(group).empty() && getOpId(call).empty())
    setOpId(call, getOpId(group));
  program.erase(group);
  if (failed(dissection.lowerCopies()))
    return failure();
  LogicalResult done =
      conv ? lowerConvolution(program, conv, matcher.tail, stored)
           : lowerDotGeneral(program, cast<DotGeneralOp>(call), matcher.tail, stored);
  return failed(done) || !rest ? done : program.lowerOperation(rest);
}
