// SPDX-License-Identifier: Apache-2.0
// What of a model follows an extent: a model is imported at two values of it, and what differs
// follows. Nothing has to be traced through what computes with shapes, which import folds away.
#include "SideBySide.h"
#include "VaryingNumbers.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/AutoPar/IR/UniqueIds.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// By how much a dimension grows where the extent does by a step; nothing where it does not follow.
using Growth = std::optional<int64_t>;

class Comparison : public SideBySide {
public:
  Comparison(func::FuncOp function, func::FuncOp other, const VaryingExtent &extent)
      : SideBySide(function, other), extent(extent), builder(function.getContext()),
        ids(function.getBody().front()), numbers({extent.most, extent.range.step}, direction()) {}

private:
  InFlightDiagnostic refuse(Location loc) {
    return mlir::emitError(loc) << "'" << extent.name << "' cannot vary: ";
  }
  InFlightDiagnostic refuse(Operation &op) { return refuse(op.getLoc()); }

  /// 1 where the other model has an extent of a step more, or -1.
  int64_t direction() const { return extent.other > extent.most ? 1 : -1; }

  FailureOr<Growth> growthOf(int64_t size, int64_t otherSize) {
    int64_t growth = (otherSize - size) * direction();
    if (growth == 0)
      return Growth();
    if (growth < 0)
      return failure();
    numbers.add({size, growth});
    return Growth(growth);
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

  LogicalResult differ(Location loc, const Twine &why) override { return refuse(loc) << why; }

  LogicalResult visitArgument(BlockArgument a, BlockArgument b) override {
    auto type = cast<RankedTensorType>(a.getType()),
         otherType = cast<RankedTensorType>(b.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      FailureOr<Growth> growth = growthOf(type.getDimSize(dim), otherType.getDimSize(dim));
      if (failed(growth))
        return refuse(a.getLoc()) << "dimension " << dim << " of an input shrinks where it grows";
      if (!*growth)
        continue;
      int64_t least = type.getDimSize(dim) - **growth * extent.steps();
      unsigned number = a.getArgNumber();
      if (hasDim(function.getArgAttr(number, kVaryingAttribute), dim))
        return refuse(a.getLoc()) << "dimension " << dim
                                  << " of an input is made of it and another range";
      if (least < 1)
        return refuse(a.getLoc()) << "dimension " << dim << " of an input has no positions where "
                                  << "it is " << extent.range.least << "; begin the range above";
      SmallVector<std::pair<StringRef, int64_t>> numbers{{"dim", dim}, {"least", least}};
      if (**growth != 1)
        numbers.push_back({"step", **growth});
      function.setArgAttr(number, kVaryingAttribute,
                          extended(function.getArgAttr(number, kVaryingAttribute), entry(numbers)));
    }
    return success();
  }

  LogicalResult visitConstants(OpOperand &operand, Operation *op, Operation *otherOp) override {
    ConstantOp constant = folds.fold(op), otherConstant = folds.fold(otherOp);
    if (!constant || !otherConstant)
      return differ(operand.getOwner()->getLoc(), "it decides what the operation reads");
    if (getOpId(constant).empty())
      ids.name(constant, getOpId(op) + "/folded");
    operand.set(constant);
    return compareConstant(operand, constant, otherConstant);
  }

  LogicalResult compareConstant(OpOperand &operand, ConstantOp constant, ConstantOp otherConstant) {
    // One constant may be several in the other model: what is equal is there once.
    DictionaryAttr unmarked =
        unmarkedConstants.try_emplace(constant, constant->getAttrDictionary()).first->second;
    ConstantOp &own = constants[{constant, otherConstant}];
    if (own) {
      operand.set(own);
      return success();
    }
    own = constant;
    if (matching.contains(constant)) {
      own = cast<ConstantOp>(OpBuilder(constant).clone(*constant));
      own->setAttrs(unmarked);
      ids.name(own, getOpId(constant));
      operand.set(own);
    }
    matching[own] = otherConstant;
    return success(succeeded(visitResult(*own, 0, otherConstant.getType())) &&
                   succeeded(visitAttributes(*own, *otherConstant)));
  }

  LogicalResult visitResult(Operation &op, int64_t number, Type other) override {
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
      if (*growth && type.getDimSize(dim) <= **growth * extent.steps())
        return refuse(op) << "dimension " << dim << " of " << type
                          << " has no positions where it is " << extent.range.least
                          << "; begin the range above";
      if (*growth)
        op.setAttr(kVariesAttribute,
                   extended(op.getAttr(kVariesAttribute),
                            entry({{"dim", dim}, {"result", number}, {"times", **growth}})));
    }
    return success();
  }

  LogicalResult visitAttributes(Operation &a, Operation &b) override {
    for (NamedAttribute attribute : b.getAttrDictionary())
      if (!a.hasAttr(attribute.getName()))
        return refuse(a) << "it decides the attribute '" << attribute.getName() << "' of "
                         << a.getName();
    for (NamedAttribute attribute : a.getAttrDictionary()) {
      StringRef name = attribute.getName();
      Attribute theirs = b.getAttr(name);
      if (attribute.getValue() == theirs || llvm::is_contained(kMarks, name))
        continue;
      if (auto constant = dyn_cast<ConstantOp>(a); constant && name == "value") {
        if (failed(compareConstants(constant, cast<ConstantOp>(b))))
          return failure();
      } else if (auto slice = dyn_cast<SliceOp>(a); slice && name == "starts") {
        if (failed(compareStarts(slice, cast<SliceOp>(b))))
          return failure();
      } else if (name != "autopar.id") {
        return refuse(a) << "it decides the attribute '" << name << "' of " << a.getName();
      }
    }
    return success();
  }

  LogicalResult compareStarts(SliceOp a, SliceOp b) {
    for (auto [dim, start] : llvm::enumerate(a.getStarts())) {
      int64_t later = (b.getStarts()[dim] - start) * direction();
      if (later == 0)
        continue;
      if (later < 0)
        return refuse(*a) << "a slice starts at " << start << " where it is " << extent.most
                          << " and at " << b.getStarts()[dim] << " where it is " << extent.other;
      a->setAttr(kMovesAttribute,
                 extended(a->getAttr(kMovesAttribute),
                          entry({{"dim", static_cast<int64_t>(dim)}, {"times", later}})));
    }
    return success();
  }

  //===-- Constants --------------------------------------------------------------------------===//

  LogicalResult compareConstants(ConstantOp a, ConstantOp b) {
    auto ours = dyn_cast<DenseElementsAttr>(a.getValue()),
         theirs = dyn_cast<DenseElementsAttr>(b.getValue());
    if (!ours || !theirs)
      return refuse(*a) << "a constant differs that is not read";
    if (VaryingNumbers::agreeInCommon(ours, theirs))
      return success();
    if (auto last = numbers.clampOf(ours, theirs)) {
      if (a->hasAttr(kClampedAttribute))
        return refuse(*a) << "it and another range decide positions together";
      a->setAttr(kClampedAttribute, entry({{"most", last->most}, {"step", last->growth}}));
      return success();
    }
    if (auto number = numbers.ruleOf(ours, theirs)) {
      NamedAttrList rule(entry({{"most", number->from.most}, {"step", number->from.growth}}));
      rule.append("rule", builder.getStringAttr(number->rule));
      DictionaryAttr added = rule.getDictionary(builder.getContext());
      if (a->hasAttr(kDecidesAttribute) && !(isProduct(added) && areProducts(a)))
        return refuse(*a) << "it and another range decide one number that the model computes "
                             "with, other than by their product";
      a->setAttr(kDecidesAttribute, extended(a->getAttr(kDecidesAttribute), added));
      return success();
    }
    if (auto end = numbers.endOf(ours, theirs, extent.steps())) {
      DictionaryAttr added = entry(
          {{"dim", end->dim}, {"step", end->growth}, {"tail", end->tail}, {"less", end->more}});
      a->setAttr(kEndsAttribute, extended(a->getAttr(kEndsAttribute), added));
      return success();
    }
    return refuse(*a) << "it decides numbers that the model computes with, other than as itself, a "
                         "multiple or an inverse";
  }

  static bool isProduct(Attribute rule) {
    return cast<DictionaryAttr>(rule).getAs<StringAttr>("rule").getValue() != "shift";
  }
  static bool areProducts(ConstantOp constant) {
    return llvm::all_of(cast<ArrayAttr>(constant->getAttr(kDecidesAttribute)), isProduct);
  }

  const VaryingExtent &extent;
  Builder builder;
  UniqueIds ids;
  VaryingNumbers numbers;
  /// By a constant and that of the other model which it is where an operation reads it.
  DenseMap<std::pair<Operation *, Operation *>, ConstantOp> constants;
  DenseMap<Operation *, DictionaryAttr> unmarkedConstants;
};

} // namespace

LogicalResult mlir::autopar::markVarying(ModuleOp module, ModuleOp other,
                                         const VaryingExtent &extent) {
  return Comparison(module.lookupSymbol<func::FuncOp>("main"),
                    other.lookupSymbol<func::FuncOp>("main"), extent)
      .walk();
}
