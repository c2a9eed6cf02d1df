// SPDX-License-Identifier: Apache-2.0
// The formulas of losses. Cross entropy is built from a maximum, a sum and the logits alone, and
// brings its own derivative exp(x - logsumexp) - target: nothing of the size of the logits has to
// be kept for the way back, and the classes may be sharded.
#include "autopar/Training/Losses.h"

#include "TargetFormulas.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;
using ::autopar::Status;

namespace {
class LossBuilder : TargetFormulas {
public:
  using TargetFormulas::TargetFormulas;

  Result<Loss> build() {
    if (call.arguments.empty() && call.options.empty()) {
      Result<Value> own = ownOutput();
      return own ? Result<Loss>(Loss{*own, {}}) : Result<Loss>(own.status());
    }
    for (const Row &row : rows()) {
      if (row.name != call.name)
        continue;
      AUTOPAR_RETURN_IF_ERROR(checkTwoArguments());
      return (this->*row.build)();
    }
    return call.errorAt(call.namePosition,
                        "unknown loss; expected " + llvm::join(knownLosses(), ", ") +
                            ", or the name of a result that is the loss itself,");
  }

  static SmallVector<StringRef> names() {
    return llvm::map_to_vector(rows(), [](const Row &row) { return row.name; });
  }

private:
  struct Row {
    StringRef name;
    Result<Loss> (LossBuilder::*build)();
  };

  static ArrayRef<Row> rows() {
    static const Row all[] = {{"softmax_cross_entropy", &LossBuilder::crossEntropy},
                              {"negative_log_likelihood", &LossBuilder::negativeLogLikelihood},
                              {"binary_cross_entropy", &LossBuilder::binaryCrossEntropy},
                              {"mean_squared_error", &LossBuilder::meanSquaredError},
                              {"mse", &LossBuilder::meanSquaredError}};
    return all;
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
    double every = smoothing / c.count();
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
};
} // namespace

SmallVector<StringRef> mlir::autopar::knownLosses() { return LossBuilder::names(); }

Result<Loss> mlir::autopar::buildLoss(func::FuncOp function, Call &call, double ignored) {
  return LossBuilder(function, call, ignored).build();
}
