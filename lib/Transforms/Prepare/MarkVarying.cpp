// SPDX-License-Identifier: Apache-2.0
// What of a model follows an extent: a model is imported at two values of it, and what differs
// follows. Nothing has to be traced through what computes with shapes, which import folds away.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// By how much a dimension grows where the extent does by one; nothing where it does not follow.
using Growth = std::optional<int64_t>;

class Comparison {
public:
  Comparison(func::FuncOp function, func::FuncOp other, const VaryingExtent &extent)
      : function(function), other(other), extent(extent), builder(function.getContext()) {}

  LogicalResult run() {
    Block &ours = function.getBody().front(), &theirs = other.getBody().front();
    if (ours.getNumArguments() != theirs.getNumArguments())
      return refuse(function.getLoc()) << "it decides how many inputs the model has";
    for (auto [a, b] : llvm::zip_equal(ours.getArguments(), theirs.getArguments()))
      if (failed(markArgument(a, b)))
        return failure();
    auto a = ours.begin(), b = theirs.begin();
    for (; a != ours.end() && b != theirs.end(); ++a, ++b)
      if (failed(compare(*a, *b)))
        return failure();
    return success();
  }

private:
  InFlightDiagnostic refuse(Location loc) {
    return mlir::emitError(loc) << "'" << extent.name << "' cannot vary: ";
  }
  InFlightDiagnostic refuse(Operation &op) { return refuse(op.getLoc()); }

  int64_t step() const { return extent.other - extent.most; }

  FailureOr<Growth> growthOf(int64_t size, int64_t otherSize) const {
    if (size == otherSize)
      return Growth();
    if ((otherSize - size) % step() != 0 || (otherSize - size) / step() < 1)
      return failure();
    return Growth((otherSize - size) / step());
  }

  DictionaryAttr entry(ArrayRef<std::pair<StringRef, int64_t>> numbers) {
    NamedAttrList list;
    list.append("extent", builder.getStringAttr(extent.name));
    for (auto [name, number] : numbers)
      list.append(name, builder.getI64IntegerAttr(number));
    return list.getDictionary(builder.getContext());
  }

  /// Adds to a list, which other extents may have begun.
  ArrayAttr extended(Attribute list, DictionaryAttr added) {
    SmallVector<Attribute> all;
    if (auto known = dyn_cast_or_null<ArrayAttr>(list))
      llvm::append_range(all, known);
    all.push_back(added);
    return builder.getArrayAttr(all);
  }

  static bool hasDim(Attribute list, int64_t dim) {
    auto entries = dyn_cast_or_null<ArrayAttr>(list);
    return entries && llvm::any_of(entries, [&](Attribute each) {
             return cast<IntegerAttr>(cast<DictionaryAttr>(each).get("dim")).getInt() == dim;
           });
  }

  LogicalResult markArgument(BlockArgument a, BlockArgument b) {
    matching[a] = b;
    auto type = cast<RankedTensorType>(a.getType()),
         otherType = cast<RankedTensorType>(b.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      FailureOr<Growth> growth = growthOf(type.getDimSize(dim), otherType.getDimSize(dim));
      if (failed(growth) || (*growth && **growth != 1))
        return refuse(a.getLoc()) << "an input has another multiple of it as dimension " << dim;
      if (!*growth)
        continue;
      int64_t least = type.getDimSize(dim) - (extent.most - extent.least);
      unsigned number = a.getArgNumber();
      if (hasDim(function.getArgAttr(number, kVaryingAttribute), dim))
        return refuse(a.getLoc()) << "dimension " << dim
                                  << " of an input is made of it and another range";
      if (least < 1)
        return refuse(a.getLoc()) << "dimension " << dim << " of an input has no positions where "
                                  << "it is " << extent.least << "; begin the range above";
      function.setArgAttr(number, kVaryingAttribute,
                          extended(function.getArgAttr(number, kVaryingAttribute),
                                   entry({{"dim", dim}, {"least", least}})));
    }
    return success();
  }

  LogicalResult compare(Operation &a, Operation &b) {
    if (a.getName() != b.getName() || getOpId(&a) != getOpId(&b) ||
        a.getNumOperands() != b.getNumOperands() || a.getNumResults() != b.getNumResults() ||
        a.getNumRegions() || b.getNumRegions())
      return refuse(a) << "it decides which operations there are (loops are written out)";
    for (auto [operand, otherOperand] : llvm::zip_equal(a.getOperands(), b.getOperands()))
      if (matching.lookup(operand) != otherOperand)
        return refuse(a) << "it decides what the operation reads";
    for (auto [number, result] : llvm::enumerate(a.getResults())) {
      matching[result] = b.getResult(number);
      if (failed(markResult(a, number, b.getResult(number).getType())))
        return failure();
    }
    return compareAttributes(a, b);
  }

  LogicalResult markResult(Operation &op, int64_t number, Type other) {
    auto type = cast<RankedTensorType>(op.getResult(number).getType());
    auto otherType = cast<RankedTensorType>(other);
    if (type.getRank() != otherType.getRank())
      return refuse(op) << "it decides how many dimensions there are";
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      FailureOr<Growth> growth = growthOf(type.getDimSize(dim), otherType.getDimSize(dim));
      if (failed(growth))
        return refuse(op) << "dimension " << dim << " has " << type.getDimSize(dim)
                          << " positions where it is " << extent.most << " and "
                          << otherType.getDimSize(dim) << " where it is " << extent.other;
      if (*growth && type.getDimSize(dim) <= **growth * (extent.most - extent.least))
        return refuse(op) << "dimension " << dim << " has no positions where it is " << extent.least
                          << "; begin the range above";
      if (*growth)
        op.setAttr(kVariesAttribute,
                   extended(op.getAttr(kVariesAttribute),
                            entry({{"dim", dim}, {"result", number}, {"times", **growth}})));
    }
    return success();
  }

  LogicalResult compareAttributes(Operation &a, Operation &b) {
    for (NamedAttribute attribute : b.getAttrDictionary())
      if (!a.hasAttr(attribute.getName()))
        return refuse(a) << "it decides the attribute '" << attribute.getName() << "' of "
                         << a.getName();
    for (NamedAttribute attribute : a.getAttrDictionary()) {
      StringRef name = attribute.getName();
      Attribute theirs = b.getAttr(name);
      if (attribute.getValue() == theirs || name == kVariesAttribute || name == kMovesAttribute ||
          name == kDecidesAttribute)
        continue;
      if (auto constant = dyn_cast<ConstantOp>(a); constant && name == "value") {
        if (failed(compareConstants(constant, cast<ConstantOp>(b))))
          return failure();
      } else if (auto slice = dyn_cast<SliceOp>(a); slice && name == "starts") {
        if (failed(compareStarts(slice, cast<SliceOp>(b))))
          return failure();
      } else {
        return refuse(a) << "it decides the attribute '" << name << "' of " << a.getName();
      }
    }
    return success();
  }

  LogicalResult compareStarts(SliceOp a, SliceOp b) {
    for (auto [dim, start] : llvm::enumerate(a.getStarts())) {
      int64_t later = b.getStarts()[dim] - start;
      if (later == 0)
        continue;
      if (later != step())
        return refuse(*a) << "a slice starts at " << start << " where it is " << extent.most
                          << " and at " << start + later << " where it is " << extent.other;
      a->setAttr(kMovesAttribute, extended(a->getAttr(kMovesAttribute),
                                           entry({{"dim", static_cast<int64_t>(dim)}})));
    }
    return success();
  }

  //===-- Constants --------------------------------------------------------------------------===//

  LogicalResult compareConstants(ConstantOp a, ConstantOp b) {
    auto ours = dyn_cast<DenseElementsAttr>(a.getValue()),
         theirs = dyn_cast<DenseElementsAttr>(b.getValue());
    if (!ours || !theirs)
      return refuse(*a) << "a constant differs that is not read";
    if (agreeInCommon(ours, theirs))
      return success();
    if (a->hasAttr(kDecidesAttribute))
      return refuse(*a) << "it and another range decide one number that the model computes with";
    if (ours.isSplat() && theirs.isSplat())
      if (StringRef rule =
              ruleOf(numberOf(ours), numberOf(theirs), isa<FloatType>(ours.getElementType()));
          !rule.empty()) {
        NamedAttrList list(entry({{"most", extent.most}}));
        list.append("rule", builder.getStringAttr(rule));
        a->setAttr(kDecidesAttribute, list.getDictionary(builder.getContext()));
        return success();
      }
    return refuse(*a) << "it decides numbers that the model computes with, other than as itself, a "
                         "multiple or an inverse";
  }

  /// Whether both hold the same wherever both have a position.
  static bool agreeInCommon(DenseElementsAttr ours, DenseElementsAttr theirs) {
    auto type = cast<RankedTensorType>(ours.getType()),
         other = cast<RankedTensorType>(theirs.getType());
    if (ours.isSplat() && theirs.isSplat())
      return ours.getSplatValue<Attribute>() == theirs.getSplatValue<Attribute>();
    SmallVector<int64_t> shape, place(type.getRank(), 0);
    for (auto [a, b] : llvm::zip_equal(type.getShape(), other.getShape()))
      shape.push_back(std::min(a, b));
    if (llvm::is_contained(shape, 0))
      return true;
    auto at = [&](DenseElementsAttr values, ArrayRef<int64_t> extents) {
      int64_t index = 0;
      for (auto [position, size] : llvm::zip_equal(place, extents))
        index = index * size + position;
      if (isa<FloatType>(values.getElementType()))
        return (values.value_begin<APFloat>() + index).operator*().bitcastToAPInt();
      return *(values.value_begin<APInt>() + index);
    };
    while (true) {
      if (at(ours, type.getShape()) != at(theirs, other.getShape()))
        return false;
      int64_t dim = type.getRank() - 1;
      while (dim >= 0 && ++place[dim] == shape[dim])
        place[dim--] = 0;
      if (dim < 0)
        return true;
    }
  }

  static double numberOf(DenseElementsAttr splat) {
    if (isa<FloatType>(splat.getElementType()))
      return splat.getSplatValue<APFloat>().convertToDouble();
    return static_cast<double>(splat.getSplatValue<APInt>().getSExtValue());
  }

  /// The rule by which the extent decides a number; each has one coefficient, so that two values
  /// tell whether it holds.
  StringRef ruleOf(double ours, double theirs, bool isFloat) const {
    auto most = static_cast<double>(extent.most), second = static_cast<double>(extent.other);
    auto isSame = [&](double a, double b) {
      return isFloat ? std::abs(a - b) <= 1e-6 * std::abs(a) : a == b;
    };
    if (ours - most == theirs - second)
      return "shift";
    if (isSame(ours * second, theirs * most) && (isFloat || std::fmod(ours, most) == 0))
      return "multiple";
    return isFloat && isSame(ours * most, theirs * second) ? "inverse" : "";
  }

  func::FuncOp function, other;
  const VaryingExtent &extent;
  Builder builder;
  DenseMap<Value, Value> matching;
};

} // namespace

LogicalResult mlir::autopar::markVarying(ModuleOp module, ModuleOp other,
                                         const VaryingExtent &extent) {
  return Comparison(module.lookupSymbol<func::FuncOp>("main"),
                    other.lookupSymbol<func::FuncOp>("main"), extent)
      .run();
}
