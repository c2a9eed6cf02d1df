// SPDX-License-Identifier: Apache-2.0
// Groups around a matrix product or convolution: what the library can apply to the result (bias,
// scale, residual, activation) goes into the call; what comes before or after becomes kernels.
#include "LibraryCall.h"

#include "autopar/Transforms/LibraryEpilogue.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

bool mlir::autopar::libraryKnows(Type elementType, Target target) {
  return elementType.isF32() || elementType.isBF16() ||
         (elementType.isF16() && target == Target::Cuda);
}

static exec::Epilogue epilogueOf(UnaryKind activation) {
  switch (activation) {
  case UnaryKind::Relu:
    return exec::Epilogue::Relu;
  case UnaryKind::Gelu:
    return exec::Epilogue::GeluErf;
  case UnaryKind::GeluTanh:
    return exec::Epilogue::GeluTanh;
  default:
    llvm_unreachable("no activation of an epilogue");
  }
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

/// Follows the only uses of a contraction inside its group as long as the library can do what they
/// do; and what it stores beside the result.
class TailMatcher : EpilogueGrammar {
public:
  TailMatcher(Dissection &dissection, Operation *contraction, Target target)
      : EpilogueGrammar(contraction), dissection(dissection), target(target),
        current(contraction->getResult(0)),
        yielded(dissection.group.getBody().front().getTerminator()->getOperands()) {}

  void match() {
    while (!hasEnded()) {
      Operation *user = onlyUser();
      std::optional<EpilogueStep> step = user ? next(user, current) : std::nullopt;
      if (!step || !take(*step))
        break;
      current = step->op->getResult(0);
    }
    if (target == Target::Cuda)
      matchSecond();
  }
  const LibraryTail &tail() const { return taken; }
  /// The values inside the group that the library stores, one of them as aux, or null.
  Value stored() const { return current; }
  Value storedAside() const { return aside; }
  /// What the group has for a value inside that it yields.
  Value resultFor(Value value) const {
    return dissection.group.getResult(llvm::find(yielded, value) - yielded.begin());
  }

private:
  /// Who inside reads the current value, if it is one operation; where it is read outside too, an
  /// activation, of which the library stores what it is given.
  Operation *onlyUser() const {
    Operation *only = nullptr;
    for (Operation *user : current.getUsers()) {
      if (user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (only)
        return nullptr;
      only = user;
    }
    bool isFree = !isRead(current) || (target == Target::Cuda && isa_and_nonnull<UnaryOp>(only) &&
                                       isRead(only->getResult(0)));
    return isFree ? only : nullptr;
  }
  /// Whether somebody reads what the group yields of the value.
  bool isRead(Value value) const {
    return llvm::is_contained(yielded, value) && !resultFor(value).use_empty();
  }

  /// What the library stores beside the result, where somebody reads it.
  void matchSecond() {
    Value given;
    if (auto activation = current.getDefiningOp<UnaryOp>())
      given = activation.getInput();
    auto product = dyn_cast<DotGeneralOp>(contraction);
    if (!product)
      return;
    if (given && taken.epilogue == exec::Epilogue::GeluTanh && isRead(given)) {
      aside = given;
      taken.epilogue = exec::Epilogue::GeluTanhAux;
    }
    for (Value value : yielded) {
      if (aside || !isRead(value))
        continue;
      if (auto mask = value.getDefiningOp<MarkPositiveOp>(); mask && mask.getInput() == current) {
        aside = value;
        taken.epilogue = exec::Epilogue::ReluAux;
      } else if (auto sum = value.getDefiningOp<ReduceOp>()) {
        Value operand = sum.getInput();
        if (auto cast = operand.getDefiningOp<CastOp>())
          operand = cast.getInput();
        aside = value;
        taken.epilogue =
            operand == product.getLhs() ? exec::Epilogue::SumsOfA : exec::Epilogue::SumsOfB;
      }
    }
    if (aside)
      taken.aux = resultFor(aside);
  }

  bool take(const EpilogueStep &step) {
    switch (step.kind) {
    case EpilogueStep::Bias:
      taken.bias = dissection.outside(step.other);
      break;
    case EpilogueStep::Gradient:
      taken.epilogue =
          isa<KeepMarkedOp>(step.op) ? exec::Epilogue::ReluGrad : exec::Epilogue::GeluTanhGrad;
      [[fallthrough]];
    case EpilogueStep::Residual:
      taken.residual = dissection.outside(step.other);
      break;
    case EpilogueStep::Scale:
      taken.scale = step.factor;
      break;
    case EpilogueStep::Activation: {
      UnaryKind kind = cast<UnaryOp>(step.op).getKind();
      if (!isEpilogueActivation(kind, target))
        return false;
      taken.epilogue = epilogueOf(kind);
      break;
    }
    }
    return true;
  }

  /// What the group reads lies in memory.
  Value residualOf(Value value) const override {
    return isa<BlockArgument>(value) ? value : Value();
  }

  Dissection &dissection;
  Target target;
  LibraryTail taken;
  Value current, aside;
  OperandRange yielded;
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
  TailMatcher matcher(dissection, library, program.settings().target);
  Type element = cast<RankedTensorType>(stored.getType()).getElementType();
  auto conv = dyn_cast<ConvolutionOp>(call);
  if (libraryKnows(element, program.settings().target) &&
      (!conv || libraryTakesTail(program, conv)))
    matcher.match();

  auto yield = cast<YieldOp>(group.getBody().front().getTerminator());
  GroupOp rest;
  Value outer = stored, aside = matcher.storedAside();
  bool isWhole = llvm::all_of(yield.getValues(), [&](Value value) {
    return value == matcher.stored() || value == aside || matcher.resultFor(value).use_empty();
  });
  if (!getOpId(group).empty() && getOpId(call).empty())
    setOpId(call, getOpId(group));
  if (isWhole && yield.getValues().size() > 1) {
    outer = matcher.resultFor(matcher.stored()); // the group stays, for what reads its results
  } else if (aside) {
    return group.emitOpError("has a second result, and a part that the library does not apply");
  } else {
    if (isWhole) {
      group.getResult(0).replaceAllUsesWith(stored);
    } else {
      rest = formRest(dissection, stored, matcher.stored());
      group->replaceAllUsesWith(rest->getResults());
    }
    program.erase(group);
  }
  if (failed(dissection.lowerCopies()))
    return failure();
  LogicalResult done =
      conv ? lowerConvolution(program, conv, matcher.tail(), outer)
           : lowerDotGeneral(program, cast<DotGeneralOp>(call), matcher.tail(), outer);
  return failed(done) || !rest ? done : program.lowerOperation(rest);
}
