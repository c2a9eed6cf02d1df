// SPDX-License-Identifier: Apache-2.0
// The pass autopar-mask-padding: where operations combine positions along an extent that varies,
// what stands behind its end is replaced by what changes nothing.
#include "TriangleMask.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Dialect/AutoPar/IR/UniqueIds.h"
#include "autopar/Interfaces/ShardingRuleInterface.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "llvm/ADT/TypeSwitch.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_MASKPADDINGPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

int64_t numberIn(DictionaryAttr entry, StringRef name) {
  return entry.getAs<IntegerAttr>(name).getInt();
}

ArrayRef<Attribute> entriesOf(Attribute list) {
  auto entries = dyn_cast_or_null<ArrayAttr>(list);
  return entries ? entries.getValue() : ArrayRef<Attribute>();
}

/// An extent that varies in a dimension of a value: position p of the dimension is position
/// p / inner % size of the extent, of which the last ones may be missing.
struct Varying {
  StringAttr extent;
  int64_t dim, size, inner = 1;
  /// What stands behind the end is zero.
  bool isZero = false;

  bool isSamePlace(const Varying &other) const {
    return extent == other.extent && dim == other.dim && size == other.size && inner == other.inner;
  }
};
using VaryingList = SmallVector<Varying, 1>;

/// Where an extent stands in a rule.
struct FactorPlace {
  int64_t factor;
  int64_t inner; ///< within the factor
};

class PaddingMasker {
public:
  explicit PaddingMasker(func::FuncOp function)
      : function(function), block(function.getBody().front()), ids(block), first(&block.front()),
        builder(function.getContext()) {}

  LogicalResult run() {
    for (BlockArgument argument : block.getArguments())
      readArgument(argument);
    if (known.empty())
      return success();
    SmallVector<Operation *> operations =
        llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
    for (Operation *op : operations) {
      if (failed(visit(op)))
        return failure();
      for (StringRef name : {kVariesAttribute, kMovesAttribute, kDecidesAttribute})
        op->removeAttr(name);
    }
    return markResults();
  }

private:
  //===-- What varies ------------------------------------------------------------------------===//

  void readArgument(BlockArgument argument) {
    for (Attribute each :
         entriesOf(function.getArgAttr(argument.getArgNumber(), kVaryingAttribute))) {
      auto entry = cast<DictionaryAttr>(each);
      int64_t dim = numberIn(entry, "dim"), size = typeOf(argument).getDimSize(dim);
      auto extent = entry.getAs<StringAttr>("extent");
      known[argument].push_back({extent, dim, size});
      mostMissing[extent] = size - numberIn(entry, "least");
    }
  }

  ArrayRef<Varying> varyingIn(Value value) const {
    auto found = known.find(value);
    return found == known.end() ? ArrayRef<Varying>() : ArrayRef<Varying>(found->second);
  }

  InFlightDiagnostic refuse(Operation *op, StringAttr extent) {
    InFlightDiagnostic error = mlir::emitError(op->getLoc())
                               << "'" << extent.getValue() << "' cannot vary: ";
    error << op->getName() << " ";
    return error;
  }

  void add(Value value, Varying varying) {
    VaryingList &list = known[value];
    for (Varying &other : list)
      if (other.isSamePlace(varying)) {
        other.isZero |= varying.isZero;
        return;
      }
    list.push_back(varying);
  }

  LogicalResult visit(Operation *op) {
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case<ConstantOp>([&](auto constant) { return makeConstant(constant); })
        .Case<SliceOp, ConcatOp, PadOp, GatherOp, GatherElementsOp>(
            [&](auto moving) { return take(moving); })
        .Default(
            [&](Operation *) { return success(succeeded(follow(op)) && succeeded(settle(op))); });
  }

  //===-- By the rule of an operation
  //----------------------------------------------------------===//

  /// The factor that holds an extent whole; nothing where the dimension is cut across it.
  static std::optional<FactorPlace> placeIn(const ShardingRule &rule, int64_t operand,
                                            const Varying &varying) {
    int64_t within = 1;
    for (int64_t factor : llvm::reverse(rule.operands[operand][varying.dim])) {
      int64_t size = rule.factors[factor].size;
      if (varying.inner % within == 0 && varying.inner * varying.size <= within * size &&
          size % (varying.inner / within * varying.size) == 0)
        return FactorPlace{factor, varying.inner / within};
      within *= size;
    }
    return std::nullopt;
  }

  /// The extent in the results that have the factor.
  void passOn(Operation *op, const ShardingRule &rule, FactorPlace place, Varying varying) {
    for (auto [number, tensor] : llvm::enumerate(rule.results))
      for (auto [dim, dimension] : llvm::enumerate(tensor)) {
        int64_t within = 1;
        for (int64_t factor : llvm::reverse(dimension)) {
          if (factor == place.factor)
            add(op->getResult(number), {varying.extent, static_cast<int64_t>(dim), varying.size,
                                        place.inner * within, varying.isZero});
          within *= rule.factors[factor].size;
        }
      }
  }

  /// Whether the result is zero wherever what varies in an operand is.
  bool staysZero(Operation *op) const {
    if (isa<ReshapeOp, TransposeOp, CastOp, BroadcastOp>(op))
      return true;
    // What guards a softmax: zero, or the softmax.
    auto select = dyn_cast<SelectOp>(op);
    return select && (isIdentity(select.getOnTrue(), ReductionKind::Sum) ||
                      isIdentity(select.getOnFalse(), ReductionKind::Sum));
  }

  LogicalResult follow(Operation *op, bool isIndexed = false) {
    bool any = llvm::any_of(op->getOperands(), [&](Value value) { return known.contains(value); });
    if (!any)
      return success();
    auto answers = dyn_cast<ShardingRuleOpInterface>(op);
    if (!answers)
      return refuse(op,
                    varyingIn(*llvm::find_if(op->getOperands(),
                                             [&](Value value) { return known.contains(value); }))
                        .front()
                        .extent)
             << "does not say how its dimensions correspond";
    ShardingRule rule = answers.getShardingRule();
    for (OpOperand &operand : op->getOpOperands())
      for (const Varying &varying : VaryingList(varyingIn(operand.get())))
        if (failed(followOperand(operand, rule, varying, isIndexed)))
          return failure();
    return success();
  }

  /// `isIndexed`: positions along what the first operand is reduced over are given, and exist.
  LogicalResult followOperand(OpOperand &operand, const ShardingRule &rule, const Varying &varying,
                              bool isIndexed) {
    Operation *op = operand.getOwner();
    std::optional<FactorPlace> place = placeIn(rule, operand.getOperandNumber(), varying);
    if (!place)
      return refuse(op, varying.extent) << "cuts dimension " << varying.dim << " across it";
    const Factor &factor = rule.factors[place->factor];
    Varying passed = varying;
    if (factor.kind == FactorKind::PassThrough) {
      passed.isZero &= staysZero(op);
      passOn(op, rule, *place, passed);
      return success();
    }
    if (isIndexed && operand.getOperandNumber() == 0)
      return success();
    if (factor.kind == FactorKind::Reduction) {
      mask(operand, varying, factor.reduction);
      return success();
    }
    if (factor.behind == BehindEnd::Nothing)
      return refuse(op, varying.extent)
             << "needs to know where dimension " << varying.dim << " ends";
    passed.isZero =
        factor.behind == BehindEnd::Identity && maskRow(operand, varying, factor.reduction);
    passOn(op, rule, *place, passed);
    return success();
  }

  /// Results vary where the two imports differ, and nowhere else. What is made from nothing does as
  /// they say.
  LogicalResult settle(Operation *op) {
    size_t expected = 0, found = 0;
    for (Attribute each : entriesOf(op->getAttr(kVariesAttribute))) {
      auto entry = cast<DictionaryAttr>(each);
      auto extent = entry.getAs<StringAttr>("extent");
      Value result = op->getResult(numberIn(entry, "result"));
      int64_t dim = numberIn(entry, "dim"), times = numberIn(entry, "times"),
              size = typeOf(result).getDimSize(dim);
      const Varying *known = llvm::find_if(varyingIn(result), [&](const Varying &varying) {
        return varying.dim == dim && varying.extent == extent;
      });
      bool isKnown = known != varyingIn(result).end();
      if (isa<RandomOp>(op))
        return refuse(op, extent) << "draws numbers by their place in all of the tensor";
      if (!isKnown && times == 1 && isa<ConstantOp, IotaOp, BroadcastOp, SliceOp>(op))
        add(result, {extent, dim, size});
      else if (!isKnown && repeatsAlong(result, dim))
        repeated.insert({result, dim});
      else if (!isKnown || size / known->size != times)
        return refuse(op, extent) << "has it in dimension " << dim
                                  << " of its result in a way that is not known";
      expected += repeated.contains({result, dim}) ? 0 : 1;
    }
    for (Value result : op->getResults())
      found += varyingIn(result).size();
    if (op->hasAttr(kVariesAttribute) && expected != found)
      return refuse(op, varyingIn(op->getResult(0)).front().extent)
             << "has it in more dimensions of its results than the model says";
    return success();
  }

  /// Whether all positions of a dimension hold the same, so that it does not matter which are
  /// there.
  bool repeatsAlong(Value value, int64_t dim) const {
    Operation *op = value.getDefiningOp();
    if (auto broadcast = dyn_cast<BroadcastOp>(op))
      return !llvm::is_contained(broadcast.getDims(), dim);
    if (auto iota = dyn_cast<IotaOp>(op))
      return static_cast<int64_t>(iota.getDim()) != dim;
    if (auto constant = dyn_cast<ConstantOp>(op))
      return isSameAlong(constant, dim);
    auto answers = dyn_cast<ShardingRuleOpInterface>(op);
    if (!answers || !isa<UnaryOp, BinaryOp, CompareOp, SelectOp, CastOp>(op))
      return false;
    return llvm::all_of(op->getOperands(), [&](Value operand) {
      return repeated.contains({operand, dim});
    });
  }

  static bool isSameAlong(ConstantOp constant, int64_t dim) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!dense || dense.isSplat())
      return dense != nullptr;
    ArrayRef<int64_t> shape = constant.getType().getShape();
    int64_t inner = llvm::product_of(shape.drop_front(dim + 1)), size = shape[dim];
    auto elements = llvm::to_vector(dense.getValues<Attribute>());
    for (int64_t i = 0, end = elements.size(); i < end; ++i)
      if (elements[i] != elements[i / (inner * size) * (inner * size) + i % inner])
        return false;
    return true;
  }

  //===-- Masks ------------------------------------------------------------------------------===//

  Value named(Value value, Operation *root, StringRef part) {
    if (!getOpId(root).empty())
      ids.name(value.getDefiningOp(), getOpId(root) + "/" + part);
    return value;
  }

  /// How many positions of an extent are missing: an argument.
  Value missing(StringAttr extent) {
    Value &argument = missingOf[extent];
    if (argument)
      return argument;
    auto type = RankedTensorType::get({}, builder.getI64Type());
    NamedAttrList attributes;
    attributes.append("autopar.name", builder.getStringAttr("missing " + extent.getValue()));
    attributes.append(kMissingAttribute, extent);
    unsigned number = function.getNumArguments();
    (void)function.insertArgument(number, type, attributes.getDictionary(builder.getContext()),
                                  function.getLoc());
    return argument = function.getArgument(number);
  }

  Value binary(BinaryKind kind, Value lhs, Value rhs, Operation *root) {
    return named(BinaryOp::create(builder, root->getLoc(), lhs.getType(), kind, lhs, rhs), root,
                 "end");
  }

  /// How many positions of an extent of `size` there are.
  Value present(StringAttr extent, int64_t size, Operation *root) {
    Value all = named(i64Scalar(builder, root->getLoc(), size), root, "most");
    return binary(BinaryKind::Sub, all, missing(extent), root);
  }

  Value spread(Value value, RankedTensorType type, ArrayRef<int64_t> dims, Operation *root,
               StringRef part) {
    return named(BroadcastOp::create(builder, root->getLoc(), type, value, dims), root, part);
  }

  /// [extent of the dimension]: whether a position is in front of the end. Made once, in front of
  /// all operations.
  Value inFront(const Varying &varying, int64_t dimSize) {
    Value &line = lines[{varying.extent, varying.size, varying.inner, dimSize}];
    if (line)
      return line;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(first);
    Location loc = function.getLoc();
    auto type = RankedTensorType::get({varying.size}, builder.getI64Type());
    auto name = [&](Value value, StringRef part) {
      ids.name(value.getDefiningOp(), varying.extent.getValue() + "/" + part);
      return value;
    };
    Value all = name(i64Scalar(builder, loc, varying.size), "most");
    auto scalar = RankedTensorType::get({}, builder.getI64Type());
    Value end =
        name(BinaryOp::create(builder, loc, scalar, BinaryKind::Sub, all, missing(varying.extent)),
             "end");
    Value ends = name(BroadcastOp::create(builder, loc, type, end, ArrayRef<int64_t>{}), "end");
    Value position = name(IotaOp::create(builder, loc, type, 0), "position");
    line = name(CompareOp::create(builder, loc, type.clone(builder.getI1Type()),
                                  ComparePredicate::Lt, position, ends),
                "in_front");
    if (dimSize != varying.size) {
      int64_t outer = dimSize / varying.size / varying.inner;
      auto spread =
          RankedTensorType::get({outer, varying.size, varying.inner}, builder.getI1Type());
      line =
          name(BroadcastOp::create(builder, loc, spread, line, ArrayRef<int64_t>{1}), "in_front");
      line = name(ReshapeOp::create(builder, loc,
                                    RankedTensorType::get({dimSize}, builder.getI1Type()), line),
                  "in_front");
    }
    return line;
  }

  /// `value` in front of the end, `behind` (a scalar) elsewhere.
  Value masked(Value value, const Varying &varying, Value behind, Operation *root) {
    RankedTensorType type = typeOf(value);
    Value line = inFront(varying, type.getDimSize(varying.dim));
    builder.setInsertionPoint(root);
    Value condition =
        spread(line, type.clone(builder.getI1Type()), {varying.dim}, root, "in_front");
    Value filled = spread(behind, type, {}, root, "behind");
    return named(SelectOp::create(builder, root->getLoc(), type, condition, value, filled), root,
                 "masked");
  }

  void mask(OpOperand &operand, const Varying &varying, ReductionKind reduction) {
    if (varying.isZero && reduction == ReductionKind::Sum)
      return;
    operand.set(maskedBy(operand.get(), varying, reduction, operand.getOwner()));
  }

  Value maskedBy(Value value, const Varying &varying, ReductionKind reduction, Operation *root) {
    Type element = typeOf(value).getElementType();
    builder.setInsertionPoint(root);
    Value identity =
        named(ConstantOp::create(builder, root->getLoc(),
                                 DenseElementsAttr::get(RankedTensorType::get({}, element),
                                                        identityOf(reduction, element))),
              root, "identity");
    return masked(value, varying, identity, root);
  }

  /// Masks an operand of an operation that needs the whole dimension. Returns whether its result is
  /// zero behind the end.
  bool maskRow(OpOperand &operand, const Varying &varying, ReductionKind reduction) {
    auto softmax = dyn_cast<SoftmaxOp>(operand.getOwner());
    bool isWeights = softmax && !softmax.getLog();
    if (isWeights && isHiddenByTriangle(operand.get(), varying))
      return true;
    if (softmax)
      cleanKeys(operand.get(), varying);
    mask(operand, varying, reduction);
    return isWeights;
  }

  /// Whether a triangle hides, from each row that is there, what stands behind the end.
  bool isHiddenByTriangle(Value scores, const Varying &columns) {
    RankedTensorType type = typeOf(scores);
    int64_t rows = type.getRank() - 2;
    bool isSquare =
        columns.dim == rows + 1 && llvm::any_of(varyingIn(scores), [&](const Varying &varying) {
          return varying.isSamePlace({columns.extent, rows, columns.size, columns.inner});
        });
    while (isSquare && scores) {
      if (auto select = scores.getDefiningOp<SelectOp>()) {
        if (isForbidden(select.getOnFalse()) && triangles.triangleOf(select.getCondition()))
          return true;
        scores = isForbidden(select.getOnFalse()) ? select.getOnTrue() : Value();
      } else if (auto sum = scores.getDefiningOp<BinaryOp>();
                 sum && sum.getKind() == BinaryKind::Add) {
        if (triangles.triangleOfBias(sum.getLhs()) || triangles.triangleOfBias(sum.getRhs()))
          return true;
        scores = sum.getLhs();
      } else {
        return false;
      }
    }
    return false;
  }

  static bool isForbidden(Value value) {
    while (auto broadcast = value.getDefiningOp<BroadcastOp>())
      value = broadcast.getInput();
    auto constant = value.getDefiningOp<ConstantOp>();
    auto dense =
        constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : DenseFPElementsAttr();
    return dense && dense.isSplat() &&
           dense.getSplatValue<APFloat>().convertToDouble() <= kForbidden;
  }

  /// Scores behind the end are replaced; but a library that adds -inf to them needs numbers, so the
  /// keys that they are products of are zero there.
  void cleanKeys(Value scores, const Varying &columns) {
    while (Operation *op = scores.getDefiningOp()) {
      if (auto product = dyn_cast<DotGeneralOp>(op)) {
        ShardingRule rule = product.getShardingRule();
        for (OpOperand &operand : op->getOpOperands())
          for (const Varying &varying : VaryingList(varyingIn(operand.get()))) {
            std::optional<FactorPlace> place = placeIn(rule, operand.getOperandNumber(), varying);
            if (place && varying.extent == columns.extent &&
                llvm::is_contained(rule.results[0][columns.dim], place->factor) &&
                rule.factors[place->factor].kind == FactorKind::PassThrough)
              mask(operand, varying, ReductionKind::Sum);
          }
        return;
      }
      if (!isa<SelectOp, BinaryOp, UnaryOp, CastOp>(op))
        return;
      scores = op->getOperand(isa<SelectOp>(op) ? 1 : 0);
    }
  }

  //===-- What moves positions ---------------------------------------------------------------===//

  /// Whether the model says that a dimension of the result varies.
  static bool varies(Operation *op, int64_t dim, StringAttr extent,
                     StringRef list = kVariesAttribute) {
    return llvm::any_of(entriesOf(op->getAttr(list)), [&](Attribute each) {
      auto entry = cast<DictionaryAttr>(each);
      return numberIn(entry, "dim") == dim && entry.getAs<StringAttr>("extent") == extent;
    });
  }

  LogicalResult take(SliceOp slice) {
    std::optional<Varying> moving;
    VaryingList taken;
    for (const Varying &varying : VaryingList(varyingIn(slice.getInput()))) {
      int64_t dim = varying.dim, start = slice.getStarts()[dim], step = slice.getSteps()[dim],
              size = slice.getType().getDimSize(dim);
      bool isResult = varies(slice, dim, varying.extent),
           moves = varies(slice, dim, varying.extent, kMovesAttribute);
      if (size == slice.getInput().getType().getDimSize(dim) && step == 1) {
        taken.push_back(varying);
      } else if (step != 1 || varying.inner != 1 ||
                 slice.getInput().getType().getDimSize(dim) != varying.size ||
                 (moves && (isResult || moving))) {
        return refuse(slice, varying.extent)
               << "takes positions of dimension " << dim << " in another order, or in steps";
      } else if (moves) {
        moving = varying;
      } else if (isResult) {
        taken.push_back({varying.extent, dim, size});
      } else if (start + size > varying.size - mostMissing[varying.extent]) {
        return refuse(slice, varying.extent)
               << "reads position " << start + size - 1 << " of dimension " << dim
               << ", and there are at least " << varying.size - mostMissing[varying.extent];
      }
    }
    if (!moving && slice->hasAttr(kMovesAttribute))
      return refuse(slice, cast<DictionaryAttr>(entriesOf(slice->getAttr(kMovesAttribute)).front())
                               .getAs<StringAttr>("extent"))
             << "starts where it says, in what does not follow it";
    for (const Varying &varying : taken)
      add(slice.getResult(), varying);
    if (failed(settle(slice)))
      return failure();
    return moving ? takeFromEnd(slice, *moving) : success();
  }

  /// A slice whose start is counted from the end gathers its positions.
  LogicalResult takeFromEnd(SliceOp slice, const Varying &varying) {
    builder.setInsertionPoint(slice);
    Location loc = slice.getLoc();
    int64_t dim = varying.dim;
    RankedTensorType input = slice.getInput().getType(), type = slice.getType();
    SmallVector<int64_t> starts(slice.getStarts()), shape(type.getShape());
    int64_t start = std::exchange(starts[dim], 0),
            size = std::exchange(shape[dim], input.getDimSize(dim));
    if (start < mostMissing[varying.extent])
      return refuse(slice, varying.extent)
             << "reads " << varying.size - start << " positions before the end of dimension " << dim
             << ", and there are at least " << varying.size - mostMissing[varying.extent];
    Value rest =
        named(SliceOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()),
                              slice.getInput(), starts, slice.getSteps()),
              slice, "rest");
    Value begin = named(i64Scalar(builder, loc, start), slice, "begin");
    begin = binary(BinaryKind::Sub, begin, missing(varying.extent), slice);
    auto line = RankedTensorType::get({size, 1}, builder.getI64Type());
    Value position = named(IotaOp::create(builder, loc, line, 0), slice, "position");
    position = binary(BinaryKind::Add, position, spread(begin, line, {}, slice, "begin"), slice);
    auto gather = GatherOp::create(builder, loc, type, rest, position, ArrayRef<int64_t>{dim}, 0);
    setOpId(gather, getOpId(slice));
    for (const Varying &other : VaryingList(varyingIn(slice.getResult())))
      add(gather.getResult(), other);
    slice.getResult().replaceAllUsesWith(gather.getResult());
    known.erase(slice.getResult());
    slice.erase();
    return success();
  }

  LogicalResult take(ConcatOp concat) {
    auto dim = static_cast<int64_t>(concat.getDim());
    for (auto [number, input] : llvm::enumerate(concat.getInputs()))
      for (const Varying &varying : VaryingList(varyingIn(input))) {
        bool isLast = number + 1 == concat.getInputs().size();
        bool isWhole = varying.inner == 1 && typeOf(input).getDimSize(varying.dim) == varying.size;
        if (varying.dim != dim)
          add(concat.getResult(), varying);
        else if (isLast && isWhole)
          add(concat.getResult(), {varying.extent, dim, concat.getType().getDimSize(dim)});
        else
          return refuse(concat, varying.extent) << "puts something behind its end";
      }
    return settle(concat);
  }

  LogicalResult take(PadOp pad) {
    for (const Varying &varying : VaryingList(varyingIn(pad.getInput()))) {
      int64_t size = pad.getInput().getType().getDimSize(varying.dim),
              padded = pad.getType().getDimSize(varying.dim);
      if (padded == size) {
        add(pad.getResult(), varying);
        continue;
      }
      if (varying.inner != 1 || varying.size != size)
        return refuse(pad, varying.extent) << "adds to a dimension of which it is a part";
      if (padded > size + pad.getLow()[varying.dim])
        pad.getInputMutable().set(masked(pad.getInput(), varying, pad.getValue(), pad));
      add(pad.getResult(), {varying.extent, varying.dim, padded});
    }
    return settle(pad);
  }

  /// Positions that count from the end do so from where it is.
  LogicalResult take(GatherOp gather) {
    RankedTensorType indices = gather.getIndices().getType();
    for (const Varying &varying : VaryingList(varyingIn(gather.getInput())))
      for (auto [number, dim] : llvm::enumerate(gather.getDims()))
        if (dim == varying.dim && failed(countFromEnd(gather, gather.getIndicesMutable(), varying,
                                                      indices.getRank() - 1, number)))
          return failure();
    return success(succeeded(follow(gather, /*isIndexed=*/true)) && succeeded(settle(gather)));
  }

  LogicalResult take(GatherElementsOp gather) {
    auto dim = static_cast<int64_t>(gather.getDim());
    VaryingList along;
    for (const Varying &varying : VaryingList(varyingIn(gather.getInput())))
      if (varying.dim == dim &&
          failed(countFromEnd(gather, gather.getIndicesMutable(), varying, -1, 0)))
        return failure();
    return success(succeeded(follow(gather, /*isIndexed=*/true)) && succeeded(settle(gather)));
  }

  /// Adds what is missing to the negative ones of the positions along an extent: a place `column`
  /// of dimension `columns` of `indices`, or all of them where that is -1.
  LogicalResult countFromEnd(Operation *op, OpOperand &indices, const Varying &varying,
                             int64_t columns, int64_t column) {
    RankedTensorType type = typeOf(indices.get());
    if (varying.inner != 1 || typeOf(op->getOperand(0)).getDimSize(varying.dim) != varying.size)
      return refuse(op, varying.extent) << "takes positions of a dimension of which it is a part";
    if (auto constant = indices.get().getDefiningOp<ConstantOp>())
      if (auto dense = dyn_cast<DenseIntElementsAttr>(constant.getValue()))
        if (llvm::all_of(dense.getValues<APInt>(), [](const APInt &i) { return !i.isNegative(); }))
          return success();
    builder.setInsertionPoint(op);
    Location loc = op->getLoc();
    Value zero = named(ConstantOp::create(builder, loc,
                                          DenseElementsAttr::get(
                                              RankedTensorType::get({}, type.getElementType()),
                                              builder.getIntegerAttr(type.getElementType(), 0))),
                       op, "zero");
    Value zeros = spread(zero, type, {}, op, "zero");
    Value fewer = missing(varying.extent);
    if (!type.getElementType().isInteger(64))
      fewer = named(
          CastOp::create(builder, loc, RankedTensorType::get({}, type.getElementType()), fewer), op,
          "missing");
    Value less = spread(fewer, type, {}, op, "missing");
    auto mask = type.clone(builder.getI1Type());
    Value isNegative =
        named(CompareOp::create(builder, loc, mask, ComparePredicate::Lt, indices.get(), zeros), op,
              "negative");
    if (columns >= 0 && type.getDimSize(columns) > 1) {
      SmallVector<bool> flags(type.getDimSize(columns), false);
      flags[column] = true;
      Value own = named(ConstantOp::create(
                            builder, loc,
                            DenseElementsAttr::get(RankedTensorType::get({type.getDimSize(columns)},
                                                                         builder.getI1Type()),
                                                   ArrayRef<bool>(flags))),
                        op, "column");
      own = spread(own, mask, {columns}, op, "column");
      isNegative = binary(BinaryKind::And, isNegative, own, op);
    }
    Value moved = binary(BinaryKind::Sub, indices.get(), less, op);
    VaryingList list(varyingIn(indices.get()));
    indices.set(named(SelectOp::create(builder, loc, type, isNegative, moved, indices.get()), op,
                      "from_end"));
    for (const Varying &each : list)
      add(indices.get(), {each.extent, each.dim, each.size, each.inner});
    return success();
  }

  //===-- Numbers ----------------------------------------------------------------------------===//

  LogicalResult makeConstant(ConstantOp constant) {
    if (failed(settle(constant)))
      return failure();
    auto decides = constant->getAttrOfType<DictionaryAttr>(kDecidesAttribute);
    return decides ? compute(constant, decides) : success();
  }

  /// The number that an extent decides.
  LogicalResult compute(ConstantOp constant, DictionaryAttr decides) {
    auto extent = decides.getAs<StringAttr>("extent");
    StringRef rule = decides.getAs<StringAttr>("rule").getValue();
    int64_t most = numberIn(decides, "most");
    auto value = cast<DenseElementsAttr>(constant.getValue());
    Type element = value.getElementType();
    builder.setInsertionPointAfter(constant);
    Location loc = constant.getLoc();
    auto scalar = RankedTensorType::get({}, element);
    Value now = present(extent, most, constant);
    if (!element.isInteger(64))
      now = named(CastOp::create(builder, loc, scalar, now), constant, "end");
    auto number = [&](double number) {
      Attribute attribute =
          isa<FloatType>(element)
              ? Attribute(builder.getFloatAttr(element, number))
              : Attribute(builder.getIntegerAttr(element, static_cast<int64_t>(number)));
      return named(ConstantOp::create(builder, loc, DenseElementsAttr::get(scalar, attribute)),
                   constant, "coefficient");
    };
    double atMost = isa<FloatType>(element)
                        ? value.getSplatValue<APFloat>().convertToDouble()
                        : static_cast<double>(value.getSplatValue<APInt>().getSExtValue());
    auto extentAtMost = static_cast<double>(most);
    if (rule == "shift")
      now = binary(BinaryKind::Add, now, number(atMost - extentAtMost), constant);
    else if (rule == "multiple")
      now = binary(BinaryKind::Mul, now, number(atMost / extentAtMost), constant);
    else
      now = binary(BinaryKind::Div, number(atMost * extentAtMost), now, constant);
    Value all = spread(now, constant.getType(), {}, constant, "decided");
    for (const Varying &varying : VaryingList(varyingIn(constant.getResult())))
      add(all, varying);
    constant.getResult().replaceAllUsesWith(all);
    return success();
  }

  //===-- Results ----------------------------------------------------------------------------===//

  LogicalResult markResults() {
    for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
      SmallVector<Attribute> entries;
      for (const Varying &varying : varyingIn(operand.get())) {
        int64_t size = typeOf(operand.get()).getDimSize(varying.dim);
        if (varying.inner != 1 || varying.size != size)
          return refuse(block.getTerminator(), varying.extent)
                 << "gives it as a part of dimension " << varying.dim << " of output "
                 << operand.getOperandNumber();
        NamedAttrList entry;
        entry.append("extent", varying.extent);
        entry.append("dim", builder.getI64IntegerAttr(varying.dim));
        entry.append("least", builder.getI64IntegerAttr(size - mostMissing[varying.extent]));
        entries.push_back(entry.getDictionary(builder.getContext()));
      }
      if (!entries.empty())
        function.setResultAttr(operand.getOperandNumber(), kVaryingAttribute,
                               builder.getArrayAttr(entries));
    }
    return success();
  }

  func::FuncOp function;
  Block &block;
  UniqueIds ids;
  Operation *first; ///< of the operations that were there
  OpBuilder builder;
  DenseMap<Value, VaryingList> known;
  DenseSet<std::pair<Value, int64_t>> repeated; ///< dimensions all of whose positions hold the same
  DenseMap<StringAttr, int64_t> mostMissing;
  DenseMap<StringAttr, Value> missingOf;
  /// By extent, size, inner and the extent of the dimension.
  DenseMap<std::tuple<Attribute, int64_t, int64_t, int64_t>, Value> lines;
  TriangleMasks triangles;
};

struct MaskPaddingPass : mlir::autopar::impl::MaskPaddingPassBase<MaskPaddingPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.getBody().hasOneBlock() && failed(PaddingMasker(function).run()))
      signalPassFailure();
  }
};

} // namespace
