// SPDX-License-Identifier: Apache-2.0
// The formulas of losses. Cross entropy is built from a maximum, a sum and the logits alone, and
// brings its own derivative exp(x - logsumexp) - target: nothing of the size of the logits has to
// be kept for the way back, and the classes may be sharded.
#include "autopar/Training/Losses.h"

#include "TargetFormulas.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::WeightedCall;

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
    loss.value = total(ofKeptRows(c, b.mul(b.sub(logSum, expected), c.weights)));
    Value probability = b.unary(UnaryKind::Exp, b.sub(c.x, b.unreduce(logSum, c.type, c.dims)));
    Value wanted =
        b.select(c.isLabel, b.splat(c.type, 1 - smoothing + every), b.splat(c.type, every));
    Value slope =
        ofKeptRows(c, b.mul(b.sub(probability, wanted), b.unreduce(c.weights, c.type, c.dims)));
    loss.seeds.emplace_back(c.logits, b.cast(slope, b.typeOf(c.logits).getElementType()));
    return loss;
  }

  Result<Loss> negativeLogLikelihood() {
    Result<Classes> classes = this->classes();
    if (!classes)
      return classes.status();
    AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
    Value expected = b.sum(b.where(classes->isLabel, classes->x), classes->dims);
    return Loss{
        b.unary(UnaryKind::Neg, total(ofKeptRows(*classes, b.mul(expected, classes->weights)))),
        {}};
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

/// Where a term knows its own derivatives, those of the others are known, too: their factors.
static void scaleSeeds(Loss &loss, double factor, FormulaBuilder &b) {
  for (auto &[value, cotangent] : loss.seeds)
    cotangent = factor == 1 ? cotangent : b.scale(cotangent, factor);
  if (loss.seeds.empty())
    loss.seeds.emplace_back(loss.value, b.splatLike(loss.value, factor));
}

Result<Loss> mlir::autopar::buildLoss(func::FuncOp function, MutableArrayRef<WeightedCall> terms) {
  SmallVector<Loss> losses;
  for (WeightedCall &term : terms) {
    Result<Loss> loss = buildLoss(function, term.call);
    if (!loss)
      return loss.status();
    losses.push_back(*loss);
  }
  if (terms.size() == 1 && terms[0].factor == 1)
    return losses[0];
  OpBuilder builder(function.getBody().front().getTerminator());
  FormulaBuilder b(builder, function.getLoc());
  bool isDouble = llvm::any_of(
      losses, [&](const Loss &loss) { return b.typeOf(loss.value).getElementType().isF64(); });
  bool hasSeeds = llvm::any_of(losses, [](const Loss &loss) { return !loss.seeds.empty(); });
  Loss sum;
  for (auto [term, loss] : llvm::zip_equal(terms, losses)) {
    Value value = b.cast(loss.value, isDouble ? builder.getF64Type() : builder.getF32Type());
    value = term.factor == 1 ? value : b.scale(value, term.factor);
    sum.value = sum.value ? b.add(sum.value, value) : value;
  }
  for (auto [term, loss] : llvm::zip_equal(terms, losses))
    if (hasSeeds) {
      scaleSeeds(loss, term.factor, b);
      llvm::append_range(sum.seeds, loss.seeds);
    }
  return sum;
}

Result<Loss> mlir::autopar::buildLoss(func::FuncOp function, Call &call, double ignored) {
  return LossBuilder(function, call, ignored).build();
}
