// SPDX-License-Identifier: Apache-2.0
// Whether what two extents of a model told holds at others.
#include "SideBySide.h"
#include "VaryingDims.h"
#include "VaryingNumbers.h"

#include "autopar/Transforms/VaryingExtents.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

class Verification : public SideBySide {
public:
  Verification(func::FuncOp function, func::FuncOp other, const MissingSteps &missing,
               StringRef where)
      : SideBySide(function, other), missing(missing), where(where) {}

  bool isWrong = false;

private:
  /// What has one position is not repeated along it: no wonder that there are other operations.
  LogicalResult differ(Location loc, const Twine &why) override {
    return hasOnePosition() ? failure() : LogicalResult(refuse(loc) << why);
  }

  InFlightDiagnostic refuse(Location loc) {
    isWrong = true;
    InFlightDiagnostic error = mlir::emitError(loc);
    error << "extents cannot vary: where " << where << ", ";
    return error;
  }
  InFlightDiagnostic refuse(Operation &op) { return refuse(op.getLoc()); }

  bool hasOnePosition() {
    for (BlockArgument argument : function.getArguments())
      for (Attribute each :
           entriesOf(function.getArgAttr(argument.getArgNumber(), kVaryingAttribute))) {
        auto entry = cast<DictionaryAttr>(each);
        if (typeOf(argument).getDimSize(numberIn(entry, "dim")) -
                numberIn(entry, "step", 1) * missingOf(entry) <=
            1)
          return true;
      }
    return llvm::any_of(function.getBody().front(), [&](Operation &op) {
      return llvm::any_of(entriesOf(op.getAttr(kVariesAttribute)), [&](Attribute each) {
        auto entry = cast<DictionaryAttr>(each);
        int64_t result = numberIn(entry, "result"), dim = numberIn(entry, "dim");
        return shapeOf(typeOf(op.getResult(result)), op.getAttr(kVariesAttribute), result)[dim] <=
               1;
      });
    });
  }

  int64_t missingOf(DictionaryAttr entry) const {
    auto found = missing.find(entry.getAs<StringAttr>("extent").str());
    return found == missing.end() ? 0 : found->second;
  }

  SmallVector<int64_t> shapeOf(RankedTensorType type, Attribute list, int64_t result) const {
    SmallVector<int64_t> shape(type.getShape());
    for (Attribute each : entriesOf(list)) {
      auto entry = cast<DictionaryAttr>(each);
      if (numberIn(entry, "result") == result)
        shape[numberIn(entry, "dim")] -= numberIn(entry, "times", 1) * missingOf(entry);
    }
    return shape;
  }

  /// Of a dimension that extents make by their product.
  double productAt(Operation &op, int64_t result, int64_t dim) const {
    auto size = static_cast<double>(typeOf(op.getResult(result)).getDimSize(dim)), product = size;
    for (Attribute each : entriesOf(op.getAttr(kVariesAttribute))) {
      auto entry = cast<DictionaryAttr>(each);
      if (numberIn(entry, "result") == result && numberIn(entry, "dim") == dim)
        product *= 1 - static_cast<double>(numberIn(entry, "times", 1) * missingOf(entry)) / size;
    }
    return std::round(product);
  }

  Value handedOnThere(Operation &op) override {
    // What is combined with a mask that shows all, or a number that changes nothing: import sees
    // that of small constants alone.
    if (isa<BinaryOp>(op))
      for (int64_t number : {0, 1})
        if (Operation *constant = op.getOperand(number).getDefiningOp();
            constant && folds.isConstant(constant))
          return op.getOperand(1 - number);
    if (!isa<SliceOp, PadOp, ReshapeOp, BroadcastOp>(op) || !matching.lookup(op.getOperand(0)))
      return nullptr;
    ArrayRef<int64_t> given = typeOf(matching.lookup(op.getOperand(0))).getShape();
    SmallVector<int64_t> shape = shapeOf(typeOf(op.getResult(0)), op.getAttr(kVariesAttribute), 0);
    return ArrayRef<int64_t>(shape) == given ? op.getOperand(0) : Value();
  }

  LogicalResult visitArgument(BlockArgument argument, BlockArgument otherArgument) override {
    SmallVector<int64_t> shape(typeOf(argument).getShape());
    for (Attribute each :
         entriesOf(function.getArgAttr(argument.getArgNumber(), kVaryingAttribute))) {
      auto entry = cast<DictionaryAttr>(each);
      shape[numberIn(entry, "dim")] -= numberIn(entry, "step", 1) * missingOf(entry);
    }
    return ArrayRef<int64_t>(shape) == typeOf(otherArgument).getShape()
               ? success()
               : LogicalResult(refuse(argument.getLoc()) << "an input has another shape");
  }

  LogicalResult visitResult(Operation &op, int64_t number, Type other) override {
    auto otherType = cast<RankedTensorType>(other);
    SmallVector<int64_t> shape =
        shapeOf(typeOf(op.getResult(number)), op.getAttr(kVariesAttribute), number);
    if (shape.size() != otherType.getShape().size())
      return differ(op.getLoc(), "it decides how many dimensions there are");
    for (auto [dim, size] : llvm::enumerate(shape))
      if (size != otherType.getDimSize(dim) &&
          productAt(op, number, dim) != otherType.getDimSize(dim))
        return refuse(op)
               << "dimension " << dim << " of " << op.getName() << " has "
               << otherType.getDimSize(dim) << " positions, not " << size
               << " as elsewhere in the range; bind one with wider steps, or a shorter one";
    return success();
  }

  LogicalResult visitAttributes(Operation &op, Operation &otherOp) override {
    for (NamedAttribute attribute : otherOp.getAttrDictionary()) {
      StringRef name = attribute.getName();
      Attribute own = op.getAttr(name);
      auto slice = dyn_cast<SliceOp>(op);
      if (own == attribute.getValue() || isa<ConstantOp>(op) || name == "autopar.id")
        continue;
      if (!slice || name != "starts")
        return own ? refuse(op) << "the attribute '" << name << "' of " << op.getName()
                                << " is another one"
                   : failure();
      SmallVector<int64_t> starts(slice.getStarts());
      for (Attribute each : entriesOf(op.getAttr(kMovesAttribute))) {
        auto entry = cast<DictionaryAttr>(each);
        starts[numberIn(entry, "dim")] -= numberIn(entry, "times", 1) * missingOf(entry);
      }
      if (ArrayRef<int64_t>(starts) != cast<SliceOp>(otherOp).getStarts())
        return refuse(op) << "a slice starts elsewhere than it does in the rest of the range";
    }
    return success();
  }

  //===-- Constants --------------------------------------------------------------------------===//

  /// By what they hold: import may have made them otherwise.
  bool visitsConstantOps() const override { return false; }

  LogicalResult visitConstants(OpOperand &operand, Operation *op, Operation *otherOp) override {
    ConstantOp otherConstant = folds.fold(otherOp);
    auto theirs = otherConstant ? dyn_cast<DenseElementsAttr>(otherConstant.getValue()) : nullptr;
    ConstantOp constant = isa<ConstantOp>(op) ? cast<ConstantOp>(op) : folds.fold(op);
    auto foretold = numberAt(op);
    if (theirs && theirs.isSplat() && foretold)
      return isNear(*foretold, theirs) ? success() : LogicalResult(refuseNumbers(operand));
    if (!theirs || !constant || !isa<DenseElementsAttr>(constant.getValue()))
      return success(); // one of them is too large, or made of numbers that extents decide
    auto ours = cast<DenseElementsAttr>(constant.getValue());
    if (failed(visitResult(*constant, 0, theirs.getType())))
      return failure();
    return isAsForetold(constant, ours, theirs) ? success() : LogicalResult(refuseNumbers(operand));
  }

  InFlightDiagnostic refuseNumbers(OpOperand &operand) {
    InFlightDiagnostic error = refuse(*operand.getOwner());
    error << "numbers that the model computes with are others than the rest of the range tells";
    return error;
  }

  /// The one number that something computed of constants alone holds, if it is a number that is
  /// repeated.
  std::optional<double> numberAt(Operation *op) const {
    if (auto constant = dyn_cast<ConstantOp>(op)) {
      auto value = dyn_cast<DenseElementsAttr>(constant.getValue());
      return value && value.isSplat() ? std::optional<double>(decidedAt(constant, value))
                                      : std::nullopt;
    }
    bool repeats = isa<BroadcastOp, ReshapeOp, TransposeOp>(op);
    return repeats ? numberAt(op->getOperand(0).getDefiningOp()) : std::nullopt;
  }

  bool isAsForetold(ConstantOp constant, DenseElementsAttr ours, DenseElementsAttr theirs) const {
    if (!entriesOf(constant->getAttr(kDecidesAttribute)).empty())
      return theirs.isSplat() && isNear(decidedAt(constant, ours), theirs);
    auto clamped = constant->getAttrOfType<DictionaryAttr>(kClampedAttribute);
    ArrayRef<Attribute> ends = entriesOf(constant->getAttr(kEndsAttribute));
    if (!clamped && ends.empty())
      return VaryingNumbers::agreeInCommon(ours, theirs);
    return isMoved(ends, clamped, ours, theirs);
  }

  double decidedAt(ConstantOp constant, DenseElementsAttr atMost) const {
    double expected = VaryingNumbers::numberOf(atMost);
    for (Attribute each : entriesOf(constant->getAttr(kDecidesAttribute))) {
      auto entry = cast<DictionaryAttr>(each);
      StringRef rule = entry.getAs<StringAttr>("rule").getValue();
      auto most = static_cast<double>(numberIn(entry, "most"));
      double now = most - static_cast<double>(numberIn(entry, "step") * missingOf(entry));
      if (rule == "shift")
        expected += now - most;
      else
        expected *= rule == "multiple" ? now / most : most / now;
    }
    return expected;
  }

  static bool isNear(double expected, DenseElementsAttr splat) {
    double found = VaryingNumbers::numberOf(splat);
    Type element = splat.getElementType();
    double precision = !isa<FloatType>(element)               ? 0
                       : element.getIntOrFloatBitWidth() < 32 ? 1e-2
                                                              : 1e-5;
    return expected == found || (std::isnan(expected) && std::isnan(found)) ||
           std::abs(expected - found) <= precision * std::abs(found);
  }

  /// Of positions and counts, whose elements are few.
  bool isMoved(ArrayRef<Attribute> ends, DictionaryAttr clamped, DenseElementsAttr ours,
               DenseElementsAttr theirs) const {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(ours.getType()).getShape(),
                      otherShape = cast<RankedTensorType>(theirs.getType()).getShape();
    for (int64_t flat = 0; flat < theirs.getNumElements(); ++flat) {
      SmallVector<int64_t> place(shape.size());
      for (int64_t dim = shape.size(), rest = flat; dim-- > 0; rest /= otherShape[dim])
        place[dim] = rest % otherShape[dim];
      int64_t less = 0;
      for (Attribute each : ends) {
        auto entry = cast<DictionaryAttr>(each);
        int64_t dim = numberIn(entry, "dim");
        if (place[dim] < otherShape[dim] - numberIn(entry, "tail"))
          continue;
        place[dim] += numberIn(entry, "step", 1) * missingOf(entry);
        less += numberIn(entry, "less") * missingOf(entry);
      }
      int64_t index = 0;
      for (auto [position, size] : llvm::zip_equal(place, shape))
        index = index * size + position;
      APInt expected = VaryingNumbers::bitsAt(ours, index);
      if (less)
        expected -= less;
      if (clamped) {
        int64_t last =
            numberIn(clamped, "most") - numberIn(clamped, "step", 1) * missingOf(clamped);
        if (expected.getSExtValue() > last)
          expected = APInt(expected.getBitWidth(), last, /*isSigned=*/true);
      }
      if (expected != VaryingNumbers::bitsAt(theirs, flat))
        return false;
    }
    return true;
  }

  const MissingSteps &missing;
  StringRef where;
};

} // namespace

LogicalResult mlir::autopar::verifyVarying(ModuleOp module, ModuleOp other,
                                           const MissingSteps &missing, StringRef where) {
  Verification verification(module.lookupSymbol<func::FuncOp>("main"),
                            other.lookupSymbol<func::FuncOp>("main"), missing, where);
  return success(succeeded(verification.walk()) || !verification.isWrong);
}
