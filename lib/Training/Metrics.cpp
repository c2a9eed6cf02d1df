// SPDX-License-Identifier: Apache-2.0
// The formulas of metrics. Whether a label is among the greatest is known by counting what is
// greater: one pass over the logits, in which classes may be sharded, and no sort.
#include "autopar/Training/Metrics.h"

#include "TargetFormulas.h"
#include "autopar/Training/Losses.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::WeightedCall;

namespace {
class MetricBuilder : TargetFormulas {
public:
  using TargetFormulas::TargetFormulas;

  Result<Value> build() {
    if (call.arguments.empty() && call.options.empty())
      return ownOutput();
    std::string known;
    for (const Row &row : rows()) {
      known += row.name.str() + ", ";
      if (row.name != call.name)
        continue;
      AUTOPAR_RETURN_IF_ERROR(checkArguments());
      Result<Value> value = (this->*row.build)();
      AUTOPAR_RETURN_IF_ERROR(value.status());
      AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
      return value;
    }
    if (!llvm::is_contained(knownLosses(), call.name))
      return call.errorAt(call.namePosition, "unknown metric; expected " + known +
                                                 llvm::join(knownLosses(), ", ") +
                                                 ", or the name of a result of one element,");
    Result<Loss> loss = buildLoss(function, call, ignored);
    return loss ? Result<Value>(loss->value) : Result<Value>(loss.status());
  }

private:
  struct Row {
    StringRef name;
    Result<Value> (MetricBuilder::*build)();
  };

  static ArrayRef<Row> rows() {
    static const Row all[] = {{"accuracy", &MetricBuilder::accuracy},
                              {"binary_accuracy", &MetricBuilder::binaryAccuracy}};
    return all;
  }

  Value oneWhere(Value condition, RankedTensorType type) {
    return b.select(condition, b.splat(type, 1), b.splat(type, 0));
  }

  Result<Value> accuracy() {
    Result<Classes> classes = this->classes();
    if (!classes)
      return classes.status();
    Classes &c = *classes;
    double top = call.take("top", 1);
    if (top != std::floor(top) || top < 1 || top > static_cast<double>(c.count()))
      return call.errorAt(call.options["top"].position, "expected top to be one of 1 to " +
                                                            std::to_string(c.count()) +
                                                            ", the number of classes,");
    Value own = b.unreduce(b.sum(b.where(c.isLabel, c.x), c.dims), c.type, c.dims);
    Value isBefore = oneWhere(b.compare(ComparePredicate::Lt, c.number, c.label), c.type);
    Value isAhead = b.select(b.compare(ComparePredicate::Gt, c.x, own), b.splat(c.type, 1),
                             b.where(b.compare(ComparePredicate::Eq, c.x, own), isBefore));
    Value ahead = b.sum(isAhead, c.dims);
    Value isRight = b.compare(ComparePredicate::Lt, ahead, b.splatLike(ahead, top));
    return total(b.where(isRight, c.weights));
  }

  Result<Value> binaryAccuracy() {
    double threshold = call.take("threshold", 0);
    Result<Numbers> numbers = this->numbers();
    if (!numbers)
      return numbers.status();
    Value x = numbers->x, wanted = numbers->wanted;
    Value says =
        oneWhere(b.compare(ComparePredicate::Gt, x, b.splatLike(x, threshold)), b.typeOf(x));
    Value is = oneWhere(b.compare(ComparePredicate::Gt, wanted, b.splatLike(x, 0.5)), b.typeOf(x));
    return meanOf(*numbers, oneWhere(b.compare(ComparePredicate::Eq, says, is), b.typeOf(x)));
  }
};

/// Pieces of a text between commas outside of parentheses.
SmallVector<StringRef> piecesOf(StringRef text) {
  SmallVector<StringRef> pieces;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (text[i] == ',' && depth == 0) {
      pieces.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    }
  }
  pieces.push_back(text.substr(begin).trim());
  return pieces;
}
} // namespace

Result<std::vector<Metric>> mlir::autopar::parseMetrics(StringRef text) {
  std::vector<Metric> metrics;
  if (text.trim().empty())
    return metrics;
  // What a step and its line in a file tell anyway.
  StringSet<> taken = {"loss",       "learning_rate", "gradient_norm",
                       "loss_scale", "skipped_steps", "step",
                       "ms",         "samples_per_s"};
  for (StringRef piece : piecesOf(text)) {
    StringRef name, function = piece;
    if (size_t equals = piece.find('='); equals < piece.find('(')) {
      name = piece.take_front(equals).trim();
      function = piece.drop_front(equals + 1).trim();
    }
    Result<Call> call = Call::parse("metric", function.str());
    if (!call)
      return call.status();
    if (name.empty())
      name = call->name;
    if (name.starts_with("eval_"))
      return call->error("\"" + name.str() + "\" would be what evaluations tell; leave eval_ out");
    if (!taken.insert(name).second)
      return call->error("there is a \"" + name.str() +
                         "\" already; give this one a name, as in top5=accuracy(logits, labels, "
                         "top=5)");
    metrics.push_back({name.str(), call.take()});
  }
  return metrics;
}

Result<Value> mlir::autopar::buildMetric(func::FuncOp function, Call &call,
                                         ArrayRef<WeightedCall> loss) {
  double ignored = std::numeric_limits<double>::quiet_NaN();
  for (const WeightedCall &term : loss) {
    auto given = term.call.options.find("ignore_index");
    if (given != term.call.options.end() && call.arguments.size() >= 2 &&
        call.arguments[1] == term.call.arguments[1])
      ignored = given->second.number;
  }
  return MetricBuilder(function, call, ignored).build();
}
