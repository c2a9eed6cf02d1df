// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "TargetFormulas.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Training/StepSignature.h"
#include "autopar/Transforms/InputLimits.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;
using ::autopar::Status;

static std::string text(Type type) {
  std::string result;
  llvm::raw_string_ostream(result) << type;
  return result;
}

TargetFormulas::TargetFormulas(func::FuncOp function, Call &call, double ignored)
    : function(function), call(call), ignored(ignored),
      returns(function.getBody().front().getTerminator()), builder(returns),
      b(builder, function.getLoc()) {}

Status TargetFormulas::checkArguments(size_t least, size_t most, const std::string &what) const {
  if (call.arguments.size() >= least && call.arguments.size() <= most)
    return Status::ok();
  return call.errorAt(call.namePosition, call.name + " takes " + what + ";");
}

Status TargetFormulas::checkArguments() const {
  return checkArguments(2, 3,
                        "a result of the model, a target and weights if wished, such as " +
                            call.name + "(logits, labels)");
}

Status TargetFormulas::checkAbove0(const std::string &key, double number) {
  auto inF32 = static_cast<float>(number);
  if (number > 0 && std::isnormal(inF32 * inF32) && std::isnormal(1 / inF32))
    return Status::ok();
  return call.errorAt(call.options[key].position, "expected " + key + " to be finite and above 0");
}

Status TargetFormulas::checkRange(const std::string &key, double number, int least,
                                  std::optional<int> most) {
  if (number >= least && std::isfinite(number) && (!most || number <= *most))
    return Status::ok();
  std::string range = most ? "between " + std::to_string(least) + " and " + std::to_string(*most)
                           : "to be finite and at least " + std::to_string(least);
  return call.errorAt(call.options[key].position, "expected " + key + " " + range);
}

//===-- results and targets -------------------------------------------------------------===//

Result<Value> TargetFormulas::output(const std::string &name) {
  std::string known;
  SmallVector<BlockArgument> donors = donorsOfResults(function);
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    auto attribute = function.getResultAttrOfType<StringAttr>(i, "autopar.name");
    if (attribute && attribute.getValue() == name)
      return floats(returns->getOperand(i), name);
    if (!donors[i])
      known += (known.empty() ? "" : ", ") + (attribute ? attribute.str() : "(unnamed)");
  }
  return call.error("the model has no output \"" + name + "\"; its outputs are " + known);
}

Result<Value> TargetFormulas::floats(Value value, const std::string &name) {
  if (isa<FloatType>(b.typeOf(value).getElementType()))
    return value;
  return call.error("expected \"" + name + "\" to hold floats, got " + text(value.getType()));
}

Result<Value> TargetFormulas::target(const std::string &name, RankedTensorType type) {
  for (BlockArgument argument : function.getArguments()) {
    if (nameOfArgument(argument) != name)
      continue;
    if (isParameter(argument))
      return call.error("the target \"" + name + "\" is a parameter of the model");
    if (argument.getType() != type)
      return call.error("expected the input \"" + name + "\" to be " + text(type) + ", it is " +
                        text(argument.getType()));
    return Value(argument);
  }
  for (auto [i, value] : llvm::enumerate(returns->getOperands())) {
    auto attribute = function.getResultAttrOfType<StringAttr>(i, "autopar.name");
    if (!attribute || attribute.getValue() != name)
      continue;
    if (value.getType() != type)
      return call.error("expected the output \"" + name + "\" to be " + text(type) + ", it is " +
                        text(value.getType()));
    return value;
  }
  return Value(addArgument(function, type, name));
}

Result<Value> TargetFormulas::ownOutput() {
  Result<Value> value = output(call.name);
  if (!value)
    return value.status();
  RankedTensorType type = b.typeOf(*value);
  if (type.getNumElements() != 1)
    return call.error("expected an output of one element, it is " + text(type));
  return b.reshape(*value, {});
}

//===-- classes -------------------------------------------------------------------------===//

Result<TargetFormulas::Classes> TargetFormulas::classes() {
  Result<Classes> classes = labelledClasses();
  if (!classes)
    return classes;
  Result<Value> given = givenWeights(b.typeOf(classes->weights));
  if (!given)
    return given.status();
  if (*given)
    classes->weights = b.mul(classes->weights, *given);
  return classes;
}

Result<TargetFormulas::Classes> TargetFormulas::labelledClasses() {
  Classes c;
  Result<Value> logits = output(call.arguments[0]);
  if (!logits)
    return logits.status();
  c.logits = *logits;
  RankedTensorType logitsType = b.typeOf(c.logits);
  c.x = b.cast(c.logits, wide(logitsType));
  c.type = b.typeOf(c.x);
  Result<int64_t> axis = classAxis(logitsType);
  if (!axis)
    return axis.status();
  c.dims = {*axis};
  SmallVector<int64_t> rows(logitsType.getShape());
  rows.erase(rows.begin() + *axis);
  Result<Value> labels =
      target(call.arguments[1], RankedTensorType::get(rows, builder.getI64Type()));
  if (!labels)
    return labels.status();
  RankedTensorType numbers = logitsType.clone(builder.getI32Type());
  c.number = IotaOp::create(builder, b.loc, numbers, *axis);
  c.label = b.unreduce(b.cast(*labels, builder.getI32Type()), numbers, c.dims);
  c.isLabel = b.compare(ComparePredicate::Eq, c.number, c.label);
  double leftOut = call.take("ignore_index", ignored);
  std::optional<int64_t> exception;
  if (!std::isnan(leftOut))
    exception = static_cast<int64_t>(leftOut);
  limitInput(*labels, 0, logitsType.getDimSize(*axis) - 1, exception);
  if (!std::isnan(leftOut))
    c.isKept = b.compare(ComparePredicate::Ne, *labels, b.splatLike(*labels, leftOut));
  c.weights = rowWeights(c.isKept, RankedTensorType::get(rows, c.type.getElementType()));
  return c;
}

Result<int64_t> TargetFormulas::classAxis(RankedTensorType type) {
  double axis = call.take("axis", -1);
  axis += axis < 0 ? static_cast<double>(type.getRank()) : 0;
  if (axis < 0 || axis >= static_cast<double>(type.getRank()) || axis != std::floor(axis))
    return call.error("\"" + call.arguments[0] + "\" is " + text(type) + " and has no such axis");
  return static_cast<int64_t>(axis);
}

Type TargetFormulas::wide(RankedTensorType type) {
  return type.getElementType().isF64() ? type.getElementType() : builder.getF32Type();
}

/// 1 / rows, or 1 / kept rows where labels equal to ignore_index are left out.
Value TargetFormulas::rowWeights(Value isKept, RankedTensorType type) {
  double rows = std::max<int64_t>(type.getNumElements(), 1);
  if (!isKept)
    return b.splat(type, 1 / rows);
  Value kept = b.select(isKept, b.splat(type, 1), b.splat(type, 0));
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  Value count = b.sum(kept, all);
  count = b.binary(BinaryKind::Max, count, b.splatLike(count, 1));
  return b.div(kept, b.unreduce(count, type, all));
}

Value TargetFormulas::ofKeptRows(const Classes &c, Value rows) {
  if (!c.isKept)
    return rows;
  bool isOfClasses = b.typeOf(rows).getShape() == c.type.getShape();
  return b.where(isOfClasses ? b.unreduce(c.isKept, c.type, c.dims) : c.isKept, rows);
}

Value TargetFormulas::total(Value x) {
  return b.sum(x, llvm::to_vector(llvm::seq<int64_t>(0, b.typeOf(x).getRank())));
}

Value TargetFormulas::logSumExp(Value x, ArrayRef<int64_t> dims) {
  Value top = ReduceOp::create(builder, b.loc, ReduceKind::Max, x, dims);
  Value shifted = b.sub(x, b.unreduce(top, b.typeOf(x), dims));
  return b.add(top, b.unary(UnaryKind::Log, b.sum(b.unary(UnaryKind::Exp, shifted), dims)));
}

Value TargetFormulas::softmax(Value x, Value logSum, ArrayRef<int64_t> dims) {
  return b.unary(UnaryKind::Exp, b.sub(x, b.unreduce(logSum, b.typeOf(x), dims)));
}

//===-- numbers -------------------------------------------------------------------------===//

Result<TargetFormulas::Numbers> TargetFormulas::numbers(std::optional<int64_t> across) {
  Result<Value> prediction = output(call.arguments[0]);
  if (!prediction)
    return prediction.status();
  Result<Value> wanted = target(call.arguments[1], b.typeOf(*prediction));
  if (!wanted)
    return wanted.status();
  RankedTensorType type = b.typeOf(*prediction);
  Type element = wide(type);
  SmallVector<int64_t> shape(type.getShape());
  if (across)
    shape.erase(shape.begin() + *across);
  Result<Value> weights = givenWeights(RankedTensorType::get(shape, element));
  if (!weights)
    return weights.status();
  return Numbers{b.cast(*prediction, element), b.cast(*wanted, element), *weights};
}

Value TargetFormulas::meanOf(const Numbers &numbers, Value parts) {
  if (numbers.weights)
    parts = b.mul(parts, numbers.weights);
  return b.scale(total(parts), 1.0 / std::max<int64_t>(b.typeOf(parts).getNumElements(), 1));
}

Result<Value> TargetFormulas::givenWeights(RankedTensorType type) {
  if (call.arguments.size() < 3)
    return Value();
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto name = function.getResultAttrOfType<StringAttr>(i, "autopar.name");
        name && name.getValue() == call.arguments[2])
      return call.error("weights are an input; \"" + call.arguments[2] +
                        "\" is an output of the model");
  return target(call.arguments[2], type);
}
