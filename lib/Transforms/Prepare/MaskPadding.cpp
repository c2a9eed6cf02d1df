// SPDX-License-Identifier: Apache-2.0
// The pass autopar-mask-padding: where operations combine positions along an extent that varies,
// what stands behind its end is replaced by what changes nothing.
#include "CompositeMatching.h"
#include "DecidedConstants.h"
#include "MovedPositions.h"
#include "NormalizeToEnd.h"
#include "TriangleMask.h"

#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Interfaces/ShardingRuleInterface.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

namespace mlir::autopar {
#define GEN_PASS_DEF_MASKPADDINGPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Where an extent stands in a rule.
struct FactorPlace {
  int64_t factor;
  Varying varying; ///< in groups that the factor holds whole
  int64_t inner;   ///< within the factor
};

class PaddingMasker {
public:
  explicit PaddingMasker(func::FuncOp function)
      : function(function), block(function.getBody().front()), dims(function), padding(function),
        moved(dims, padding), decided(dims, padding) {}

  LogicalResult run() {
    if (dims.empty())
      return success();
    SmallVector<Operation *> operations =
        llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
    for (Operation *op : operations) {
      if (failed(visit(op)))
        return failure();
      for (StringRef mark : kMarks)
        op->removeAttr(mark);
    }
    for (Operation *op : llvm::reverse(operations))
      if (isOpTriviallyDead(op)) // something else took its place
        op->erase();
    return markResults();
  }

private:
  LogicalResult visit(Operation *op) {
    return TypeSwitch<Operation *, LogicalResult>(op)
        .Case<ConstantOp>([&](auto constant) {
          return inTurn(
              settle(op), [&] { return decided.compute(constant); },
              [&] { return decided.clamp(constant); }, [&] { return decided.moveEnds(constant); });
        })
        .Case<SliceOp>([&](auto slice) {
          return inTurn(
              moved.follow(slice), [&] { return settle(op); },
              [&] { return moved.takeFromEnd(slice); });
        })
        .Case<ConcatOp, PadOp>(
            [&](auto moving) { return inTurn(moved.follow(moving), [&] { return settle(op); }); })
        .Case<GatherOp, GatherElementsOp>([&](auto gather) {
          return inTurn(
              moved.countFromEnd(gather), [&] { return follow(op, /*isIndexed=*/true); },
              [&] { return settle(op); });
        })
        .Case<NormalizeOp>([&](auto normalize) {
          if (!variesAlong(normalize))
            return inTurn(follow(op), [&] { return settle(op); });
          for (const Varying &varying : dims.of(normalize.getInput()))
            dims.add(normalize.getResult(), varying.withoutZeros());
          return inTurn(settle(op), [&] { return normalizeToEnd(normalize, dims, padding); });
        })
        .Default([&](Operation *) { return inTurn(follow(op), [&] { return settle(op); }); });
  }

  bool variesAlong(NormalizeOp op) const {
    return llvm::any_of(dims.of(op.getInput()), [&](const Varying &varying) {
      return llvm::is_contained(op.getDims(), varying.dim);
    });
  }

  template <typename... Steps>
  static LogicalResult inTurn(LogicalResult first, Steps &&...steps) {
    return success(succeeded(first) && (succeeded(steps()) && ...));
  }

  //===-- By the rule of an operation --------------------------------------------------------===//

  /// The factor that holds an extent whole; nothing where the dimension is cut across it.
  static std::optional<FactorPlace> placeIn(const ShardingRule &rule, int64_t operand,
                                            const Varying &varying) {
    int64_t within = 1;
    for (int64_t factor : llvm::reverse(rule.operands[operand][varying.dim])) {
      int64_t size = rule.factors[factor].size;
      std::optional<Varying> groups = varying;
      if (within > varying.inner && within % varying.inner == 0)
        groups = varying.inGroupsOf(within / varying.inner);
      int64_t whole = groups ? groups->size + groups->tail : 0;
      if (groups && groups->inner % within == 0 && groups->inner * whole <= within * size &&
          size % (groups->inner / within * whole) == 0)
        return FactorPlace{factor, *groups, groups->inner / within};
      within *= size;
    }
    return std::nullopt;
  }

  /// The extent in the results that have the factor.
  void passOn(Operation *op, const ShardingRule &rule, const FactorPlace &place, bool isZero) {
    const Varying &varying = place.varying;
    for (auto [number, tensor] : llvm::enumerate(rule.results))
      for (auto [dim, dimension] : llvm::enumerate(tensor)) {
        int64_t within = 1;
        for (int64_t factor : llvm::reverse(dimension)) {
          if (factor == place.factor)
            dims.add(op->getResult(number),
                     {varying.extent, static_cast<int64_t>(dim), varying.size, varying.pace,
                      place.inner * within, isZero, varying.tail});
          within *= rule.factors[factor].size;
        }
      }
  }

  /// Whether the result is zero wherever what varies in an operand is.
  static bool staysZero(OpOperand &operand) {
    Operation *op = operand.getOwner();
    if (isa<ReshapeOp, TransposeOp, CastOp, BroadcastOp>(op))
      return true;
    // What guards a softmax: zero, or the softmax.
    auto select = dyn_cast<SelectOp>(op);
    return select && operand.getOperandNumber() > 0 &&
           (isIdentity(select.getOnTrue(), ReductionKind::Sum) ||
            isIdentity(select.getOnFalse(), ReductionKind::Sum));
  }

  LogicalResult follow(Operation *op, bool isIndexed = false) {
    if (failed(checkRepeated(op)))
      return failure();
    auto varies =
        llvm::find_if(op->getOperands(), [&](Value value) { return dims.contains(value); });
    if (varies == op->operand_end())
      return success();
    auto answers = dyn_cast<ShardingRuleOpInterface>(op);
    if (!answers)
      return refuseToVary(op, dims.of(*varies).front().extent)
             << "does not say how its dimensions correspond";
    ShardingRule rule = answers.getShardingRule();
    for (OpOperand &operand : op->getOpOperands())
      for (const Varying &varying : dims.of(operand.get()))
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
      return refuseToVary(op, varying.extent) << "cuts dimension " << varying.dim << " across it";
    const Factor &factor = rule.factors[place->factor];
    if (factor.kind == FactorKind::PassThrough && isGivenByOthers(operand, rule, varying, *place))
      return success();
    if (factor.kind == FactorKind::PassThrough) {
      passOn(op, rule, *place, varying.isZero && staysZero(operand));
      return success();
    }
    if (isIndexed && operand.getOperandNumber() == 0)
      return success();
    if (factor.kind == FactorKind::Reduction) {
      mask(operand, varying, factor.reduction);
      return success();
    }
    if (const auto *window = llvm::find_if(
            rule.windows, [&](const auto &each) { return each.positions == place->factor; });
        window != rule.windows.end())
      return slide(operand, rule, *window, varying);
    // Only in a softmax it does not matter at which place something stands.
    bool isSomewhere = varying.tail > 0 || !varying.isAllOf(operand.get());
    if (factor.behind == BehindEnd::Nothing || (isSomewhere && !isa<SoftmaxOp>(op)))
      return refuseToVary(op, varying.extent)
             << "needs to know where dimension " << varying.dim << " ends";
    bool isZero =
        factor.behind == BehindEnd::Identity && maskRow(operand, varying, factor.reduction);
    passOn(op, rule, *place, isZero);
    return success();
  }

  LogicalResult slide(OpOperand &operand, const ShardingRule &rule, const SlidingWindow &window,
                      const Varying &varying) {
    Operation *op = operand.getOwner();
    if (!varying.isAllOf(operand.get()))
      return refuseToVary(op, varying.extent)
             << "slides along dimension " << varying.dim << ", of which it is a part";
    if (varying.pace * window.spread % window.stride != 0)
      return refuseToVary(op, varying.extent)
             << "strides by " << window.stride << " along dimension " << varying.dim
             << ", which varies by " << varying.pace
             << "; bind a range with a step, as in width=64..640:32";
    const Factor &factor = rule.factors[window.positions];
    if (factor.behind == BehindEnd::Identity)
      mask(operand, varying, factor.reduction);
    Value result = op->getResult(0);
    for (auto [dim, factors] : llvm::enumerate(rule.results[0]))
      if (factors.front() == window.places)
        dims.add(result, {varying.extent, static_cast<int64_t>(dim), typeOf(result).getDimSize(dim),
                          varying.pace * window.spread / window.stride});
    return success();
  }

  /// Whether an operand is the same all along a dimension, in which another one has the extent.
  bool isGivenByOthers(OpOperand &operand, const ShardingRule &rule, const Varying &varying,
                       const FactorPlace &place) const {
    if (!repeated.contains({operand.get(), varying.dim}))
      return false;
    return llvm::any_of(operand.getOwner()->getOpOperands(), [&](OpOperand &other) {
      return llvm::any_of(dims.of(other.get()), [&](const Varying &own) {
        return own.extent == varying.extent && !repeated.contains({other.get(), own.dim}) &&
               llvm::is_contained(rule.operands[other.getOperandNumber()][own.dim], place.factor);
      });
    });
  }

  /// What is the same all along a dimension, of which nothing tells where it ends, may only be
  /// computed with position by position.
  LogicalResult checkRepeated(Operation *op) {
    auto answers = dyn_cast<ShardingRuleOpInterface>(op);
    if (!answers || repeated.empty())
      return success();
    ShardingRule rule = answers.getShardingRule();
    for (OpOperand &operand : op->getOpOperands())
      for (auto [dim, factors] : llvm::enumerate(rule.operands[operand.getOperandNumber()])) {
        auto place = static_cast<int64_t>(dim);
        bool passes = llvm::all_of(factors, [&](int64_t factor) {
          return rule.factors[factor].kind == FactorKind::PassThrough;
        });
        if (repeated.contains({operand.get(), place}) && !isTold(operand.get(), place) && !passes)
          return mlir::emitError(op->getLoc())
                 << "an extent cannot vary: " << op->getName() << " combines dimension " << dim
                 << " of what is repeated along it";
      }
    return success();
  }

  /// Whether it is known where a dimension ends.
  bool isTold(Value value, int64_t dim) const {
    return llvm::any_of(dims.of(value), [&](const Varying &own) { return own.dim == dim; });
  }

  /// Results vary where the two imports differ, and nowhere else. What is made from nothing does as
  /// they say.
  LogicalResult settle(Operation *op) {
    size_t expected = 0, found = 0;
    ArrayRef<Attribute> entries = entriesOf(op->getAttr(kVariesAttribute));
    for (Attribute each : entries) {
      auto entry = cast<DictionaryAttr>(each);
      auto extent = entry.getAs<StringAttr>("extent");
      Value result = op->getResult(numberIn(entry, "result"));
      int64_t dim = numberIn(entry, "dim"), times = numberIn(entry, "times"),
              size = typeOf(result).getDimSize(dim);
      VaryingList list = dims.of(result);
      const Varying *known = llvm::find_if(list, [&](const Varying &varying) {
        return varying.dim == dim && varying.extent == extent;
      });
      bool isKnown = known != list.end();
      if (isa<RandomOp>(op))
        return refuseToVary(op, extent) << "draws numbers by their place in all of the tensor";
      bool repeats = repeatsAlong(result, dim);
      if (repeats)
        repeated.insert({result, dim});
      // What two extents make together has no end of one of them.
      bool hasOther = llvm::any_of(entries, [&](Attribute another) {
        auto other = cast<DictionaryAttr>(another);
        return numberIn(other, "dim") == dim &&
               numberIn(other, "result") == numberIn(entry, "result") &&
               other.getAs<StringAttr>("extent") != extent;
      });
      if (!isKnown && !hasOther && isa<ConstantOp, IotaOp, BroadcastOp, SliceOp>(op))
        dims.add(result, {extent, dim, size, times});
      else if (!isKnown && repeats)
        continue;
      else if (!isKnown || size / (known->size + known->tail) * known->pace != times)
        return refuseToVary(op, extent)
               << "has it in dimension " << dim << " of its result in a way that is not known";
      ++expected;
    }
    for (Value result : op->getResults())
      found += dims.of(result).size();
    if (op->hasAttr(kVariesAttribute) && expected != found)
      return refuseToVary(op, dims.of(op->getResult(0)).front().extent)
             << "has it in more dimensions of its results than the model says";
    return success();
  }

  /// Whether all positions of a dimension hold the same, so that it does not matter which are
  /// there.
  bool repeatsAlong(Value value, int64_t dim) const {
    Operation *op = value.getDefiningOp();
    if (auto broadcast = dyn_cast<BroadcastOp>(op)) {
      const int64_t *given = llvm::find(broadcast.getDims(), dim);
      return given == broadcast.getDims().end() ||
             broadcast.getInput().getType().getDimSize(given - broadcast.getDims().begin()) == 1;
    }
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

  void mask(OpOperand &operand, const Varying &varying, ReductionKind reduction) {
    if (!varying.isZero || reduction != ReductionKind::Sum)
      operand.set(padding.masked(operand.get(), varying, reduction, operand.getOwner()));
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
    if (columns.tail > 0) { // a sink
      auto concat = scores.getDefiningOp<ConcatOp>();
      if (!concat)
        return false;
      scores = concat.getInputs().front();
    }
    RankedTensorType type = typeOf(scores);
    int64_t rows = type.getRank() - 2;
    bool isSquare =
        columns.dim == rows + 1 && llvm::any_of(dims.of(scores), [&](const Varying &varying) {
          return varying.isSamePlace(
              {columns.extent, rows, columns.size, columns.pace, columns.inner});
        });
    // Of a row of which another mask hides all that the triangle does not, what a number hides
    // counts as much as the rest; infinity hides it all the same.
    bool byNumber = false, byInfinity = false, isMaskedElse = false;
    while (isSquare && scores) {
      if (auto select = scores.getDefiningOp<SelectOp>()) {
        double fill = splatValue(select.getOnFalse()).value_or(0);
        if (fill > kForbidden)
          break;
        if (!triangles.triangleOf(select.getCondition()))
          isMaskedElse = true;
        else
          (std::isinf(fill) ? byInfinity : byNumber) = true;
        scores = select.getOnTrue();
      } else if (BinaryOp sum = asBinary(scores, BinaryKind::Add)) {
        bool isLeft = triangles.triangleOfBias(sum.getLhs()).has_value();
        if (isLeft || triangles.triangleOfBias(sum.getRhs()))
          byNumber = true;
        else
          isMaskedElse = true;
        scores = isLeft ? sum.getRhs() : sum.getLhs();
      } else if (auto scaled = withNumber(scores, BinaryKind::Mul)) {
        scores = scaled->first;
      } else if (auto divided = withNumber(scores, BinaryKind::Div)) {
        scores = divided->first;
      } else {
        break;
      }
    }
    return byInfinity || (byNumber && !isMaskedElse);
  }

  /// Scores behind the end are replaced; but a library that adds -inf to them needs numbers, so the
  /// keys that they are products of are zero there.
  void cleanKeys(Value scores, const Varying &columns) {
    while (Operation *op = scores.getDefiningOp()) {
      if (auto product = dyn_cast<DotGeneralOp>(op)) {
        ShardingRule rule = product.getShardingRule();
        for (OpOperand &operand : op->getOpOperands())
          for (const Varying &varying : dims.of(operand.get())) {
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

  //===-- Results ----------------------------------------------------------------------------===//

  LogicalResult markResults() {
    for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
      for (int64_t dim = 0; dim < typeOf(operand.get()).getRank(); ++dim)
        if (repeated.contains({operand.get(), dim}) && !isTold(operand.get(), dim))
          return mlir::emitError(block.getTerminator()->getLoc())
                 << "an extent cannot vary: nothing tells where dimension " << dim << " of output "
                 << operand.getOperandNumber() << " ends, which several extents decide";
      for (const Varying &varying : dims.of(operand.get()))
        if (!varying.isAllOf(operand.get()))
          return refuseToVary(block.getTerminator(), varying.extent)
                 << "gives it as a part of dimension " << varying.dim << " of output "
                 << operand.getOperandNumber();
      if (ArrayAttr varying = dims.describe(operand.get()))
        function.setResultAttr(operand.getOperandNumber(), kVaryingAttribute, varying);
    }
    return success();
  }

  func::FuncOp function;
  Block &block;
  VaryingDims dims;
  PaddingMask padding;
  MovedPositions moved;
  DecidedConstants decided;
  DenseSet<std::pair<Value, int64_t>> repeated; ///< dimensions all of whose positions hold the same
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
