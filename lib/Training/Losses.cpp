// SPDX-License-Identifier: Apache-2.0
// The formulas of losses. Cross entropy is built from a maximum, a sum and the logits alone, and
// brings its own derivative exp(x - logsumexp) - target: nothing of the size of the logits has to
// be kept for the way back, and the classes may be sharded.
#include "autopar/Training/Losses.h"

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/InputLimits.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;
using ::autopar::Status;

BlockArgument mlir::autopar::addArgument(func::FuncOp function, RankedTensorType type,
                                         const Twine &name, ArrayRef<NamedAttribute> attributes) {
  return addArguments(function, TypeRange(Type(type)), {name.str()}, attributes).front();
}

ArrayRef<BlockArgument> mlir::autopar::addArguments(func::FuncOp function, TypeRange types,
                                                    ArrayRef<std::string> names,
                                                    ArrayRef<NamedAttribute> attributes) {
  unsigned first = function.getNumArguments();
  SmallVector<DictionaryAttr> lists;
  for (const std::string &name : names) {
    NamedAttrList list(attributes);
    list.set("autopar.name", StringAttr::get(function.getContext(), name));
    lists.push_back(list.getDictionary(function.getContext()));
  }
  (void)function.insertArguments(SmallVector<unsigned>(names.size(), first), types, lists,
                                 SmallVector<Location>(names.size(), function.getLoc()));
  return function.getArguments().drop_front(first);
}

bool mlir::autopar::isStateResult(func::FuncOp function, unsigned result) {
  auto name = function.getResultAttrOfType<StringAttr>(result, "autopar.name");
  for (unsigned i = 0; name && i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, "autopar.donated") &&
        function.getArgAttrOfType<StringAttr>(i, "autopar.name") == name)
      return true;
  return false;
}

namespace {
std::string text(Type type) {
  std::string result;
  llvm::raw_string_ostream(result) << type;
  return result;
}

class LossBuilder {
public:
  LossBuilder(func::FuncOp function, Call &call)
      : function(function), call(call), returns(function.getBody().front().getTerminator()),
        builder(returns), b(builder, function.getLoc()) {}

  Result<Loss> build() {
    struct Row {
      StringRef name;
      Result<Loss> (LossBuilder::*build)();
    };
    static const Row rows[] = {{"softmax_cross_entropy", &LossBuilder::crossEntropy},
                               {"negative_log_likelihood", &LossBuilder::negativeLogLikelihood},
                               {"binary_cross_entropy", &LossBuilder::binaryCrossEntropy},
                               {"mean_squared_error", &LossBuilder::meanSquaredError},
                               {"mse", &LossBuilder::meanSquaredError}};
    if (call.arguments.empty() && call.options.empty())
      return ownOutput();
    std::string known;
    for (const Row &row : rows) {
      known += row.name.str() + ", ";
      if (row.name != call.name)
        continue;
      if (call.arguments.size() != 2)
        return call.errorAt(call.namePosition, row.name.str() +
                                                   " takes a result of the model and a target, "
                                                   "such as " +
                                                   row.name.str() + "(logits, labels);");
      return (this->*row.build)();
    }
    return call.errorAt(call.namePosition, "unknown loss; expected " + known +
                                               "or the name of a result that is the loss itself,");
  }

private:
  //===-- results and targets -------------------------------------------------------------===//

  Result<Value> output(const std::string &name) {
    std::string known;
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      auto attribute = function.getResultAttrOfType<StringAttr>(i, "autopar.name");
      if (attribute && attribute.getValue() == name)
        return floats(returns->getOperand(i), name);
      if (!isStateResult(function, i))
        known += (known.empty() ? "" : ", ") + (attribute ? attribute.str() : "(unnamed)");
    }
    return Status::badInput("loss \"" + call.text + "\": the model has no output \"" + name +
                            "\"; its outputs are " + known);
  }

  Result<Value> floats(Value value, const std::string &name) {
    if (isa<FloatType>(b.typeOf(value).getElementType()))
      return value;
    return Status::badInput("loss \"" + call.text + "\": expected \"" + name +
                            "\" to hold floats, got " + text(value.getType()));
  }

  Result<Value> target(const std::string &name, RankedTensorType type) {
    for (BlockArgument argument : function.getArguments()) {
      if (nameOfArgument(argument) != name)
        continue;
      if (isParameter(argument))
        return Status::badInput("loss \"" + call.text + "\": the target \"" + name +
                                "\" is a parameter of the model");
      if (argument.getType() != type)
        return Status::badInput("loss \"" + call.text + "\": expected the input \"" + name +
                                "\" to be " + text(type) + ", it is " + text(argument.getType()));
      return Value(argument);
    }
    return Value(addArgument(function, type, name));
  }

  //===-- classes -------------------------------------------------------------------------===//

  /// What the losses over classes share.
  struct Classes {
    Value logits; ///< as the model gives them
    Value x;      ///< widened
    RankedTensorType type;
    SmallVector<int64_t> dims; ///< the axis
    Value isLabel;             ///< of `type`: whether the class is the label
    Value weights;             ///< per row; they sum to 1
  };

  Result<Classes> classes() {
    Classes c;
    Result<Value> logits = output(call.arguments[0]);
    if (!logits)
      return logits.status();
    c.logits = *logits;
    RankedTensorType given = b.typeOf(c.logits);
    c.x = b.cast(c.logits, wide(given));
    c.type = b.typeOf(c.x);
    auto axis = static_cast<int64_t>(call.take("axis", -1));
    axis += axis < 0 ? given.getRank() : 0;
    if (axis < 0 || axis >= given.getRank())
      return Status::badInput("loss \"" + call.text + "\": \"" + call.arguments[0] + "\" is " +
                              text(given) + " and has no such axis");
    c.dims = {axis};
    SmallVector<int64_t> rows(given.getShape());
    rows.erase(rows.begin() + axis);
    Result<Value> labels =
        target(call.arguments[1], RankedTensorType::get(rows, builder.getI64Type()));
    if (!labels)
      return labels.status();
    RankedTensorType numbers = given.clone(builder.getI32Type());
    Value number = IotaOp::create(builder, b.loc, numbers, axis);
    Value label = b.unreduce(b.cast(*labels, builder.getI32Type()), numbers, c.dims);
    c.isLabel = b.compare(ComparePredicate::Eq, number, label);
    double ignored = call.take("ignore_index", std::numeric_limits<double>::quiet_NaN());
    std::optional<int64_t> exception;
    if (!std::isnan(ignored))
      exception = static_cast<int64_t>(ignored);
    limitInput(*labels, 0, given.getDimSize(axis) - 1, exception);
    c.weights = rowWeights(*labels, ignored, RankedTensorType::get(rows, c.type.getElementType()));
    return c;
  }

  Type wide(RankedTensorType type) {
    return type.getElementType().isF64() ? type.getElementType() : builder.getF32Type();
  }

  /// 1 / rows, or 1 / kept rows where labels equal to ignore_index are left out.
  Value rowWeights(Value labels, double ignored, RankedTensorType type) {
    double rows = std::max<int64_t>(type.getNumElements(), 1);
    if (std::isnan(ignored))
      return b.splat(type, 1 / rows);
    Value isKept = b.compare(ComparePredicate::Ne, labels, b.splatLike(labels, ignored));
    Value kept = b.select(isKept, b.splat(type, 1), b.splat(type, 0));
    SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    Value count = b.sum(kept, all);
    count = b.binary(BinaryKind::Max, count, b.splatLike(count, 1));
    return b.div(kept, b.unreduce(count, type, all));
  }

  Value total(Value x) {
    return b.sum(x, llvm::to_vector(llvm::seq<int64_t>(0, b.typeOf(x).getRank())));
  }

  Result<Loss> crossEntropy() {
    Result<Classes> classes = this->classes();
    if (!classes)
      return classes.status();
    Classes &c = *classes;
    double smoothing = call.take("label_smoothing", 0);
    if (smoothing < 0 || smoothing > 1)
      return call.errorAt(call.options["label_smoothing"].position,
                          "expected label_smoothing between 0 and 1");
    AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
    double every = smoothing / c.type.getDimSize(c.dims[0]);
    Value top = ReduceOp::create(builder, b.loc, ReduceKind::Max, c.x, c.dims);
    Value shifted = b.sub(c.x, b.unreduce(top, c.type, c.dims));
    Value sum = b.sum(b.unary(UnaryKind::Exp, shifted), c.dims);
    Value logSum = b.add(top, b.unary(UnaryKind::Log, sum));
    Value expected = b.scale(b.sum(b.where(c.isLabel, c.x), c.dims), 1 - smoothing);
    if (smoothing > 0)
      expected = b.add(expected, b.scale(b.sum(c.x, c.dims), every));
    Loss loss;
    loss.value = total(b.mul(b.sub(logSum, expected), c.weights));
    Value probability = b.unary(UnaryKind::Exp, b.sub(c.x, b.unreduce(logSum, c.type, c.dims)));
    Value wanted =
        b.select(c.isLabel, b.splat(c.type, 1 - smoothing + every), b.splat(c.type, every));
    Value slope = b.mul(b.sub(probability, wanted), b.unreduce(c.weights, c.type, c.dims));
    loss.seeds.emplace_back(c.logits, b.cast(slope, b.typeOf(c.logits).getElementType()));
    return loss;
  }

  Result<Loss> negativeLogLikelihood() {
    Result<Classes> classes = this->classes();
    if (!classes)
      return classes.status();
    AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
    Value expected = b.sum(b.where(classes->isLabel, classes->x), classes->dims);
    return Loss{b.unary(UnaryKind::Neg, total(b.mul(expected, classes->weights))), {}};
  }

  //===-- numbers -------------------------------------------------------------------------===//

  /// The widened result and target of one shape.
  Result<std::pair<Value, Value>> pairOf() {
    Result<Value> prediction = output(call.arguments[0]);
    if (!prediction)
      return prediction.status();
    Result<Value> wanted = target(call.arguments[1], b.typeOf(*prediction));
    if (!wanted)
      return wanted.status();
    AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
    Type element = wide(b.typeOf(*prediction));
    return std::pair<Value, Value>(b.cast(*prediction, element), b.cast(*wanted, element));
  }

  Value meanOfAll(Value x) {
    return b.scale(total(x), 1.0 / std::max<int64_t>(b.typeOf(x).getNumElements(), 1));
  }

  Result<Loss> meanSquaredError() {
    auto both = pairOf();
    if (!both)
      return both.status();
    return Loss{meanOfAll(b.square(b.sub(both->first, both->second))), {}};
  }

  /// softplus(x) - x t.
  Result<Loss> binaryCrossEntropy() {
    auto both = pairOf();
    if (!both)
      return both.status();
    Value x = both->first;
    return Loss{meanOfAll(b.sub(b.unary(UnaryKind::Softplus, x), b.mul(x, both->second))), {}};
  }

  Result<Loss> ownOutput() {
    Result<Value> value = output(call.name);
    if (!value)
      return value.status();
    RankedTensorType type = b.typeOf(*value);
    if (type.getNumElements() != 1)
      return Status::badInput("loss \"" + call.text +
                              "\": expected an output of one element, it is " + text(type));
    return Loss{b.reshape(*value, {}), {}};
  }

  func::FuncOp function;
  Call &call;
  Operation *returns;
  OpBuilder builder;
  FormulaBuilder b;
};
} // namespace

Result<Loss> mlir::autopar::buildLoss(func::FuncOp function, Call &call) {
  return LossBuilder(function, call).build();
}
