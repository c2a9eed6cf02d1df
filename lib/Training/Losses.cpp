// SPDX-License-Identifier: Apache-2.0
// The formulas of losses. Those of classes are built from a maximum, a sum and the logits alone,
// and bring their own derivative exp(x - logsumexp) - target: nothing of the size of the logits has
// to be kept for the way back, and the classes may be sharded.
#include "autopar/Training/Losses.h"

#include "PolicyLosses.h"
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
      Result<Loss> loss = (this->*row.build)();
      AUTOPAR_RETURN_IF_ERROR(loss.status());
      AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
      return loss;
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
                              {"soft_cross_entropy", &LossBuilder::softCrossEntropy},
                              {"distillation", &LossBuilder::distillation},
                              {"negative_log_likelihood", &LossBuilder::negativeLogLikelihood},
                              {"dpo", &LossBuilder::dpo},
                              {"ppo", &LossBuilder::ppo},
                              {"binary_cross_entropy", &LossBuilder::binaryCrossEntropy},
                              {"binary_focal", &LossBuilder::binaryFocal},
                              {"mean_squared_error", &LossBuilder::meanSquaredError},
                              {"mse", &LossBuilder::meanSquaredError},
                              {"mean_absolute_error", &LossBuilder::meanAbsoluteError},
                              {"mae", &LossBuilder::meanAbsoluteError},
                              {"huber", &LossBuilder::huber},
                              {"smooth_l1", &LossBuilder::smoothL1}};
    return all;
  }

  //===-- classes -----------------------------------------------------------------------===//

  Result<Loss> crossEntropy() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments());
    Result<Classes> classes = this->classes();
    if (!classes)
      return classes.status();
    Classes &c = *classes;
    double smoothing = call.take("label_smoothing", 0), normalizing = call.take("z_loss", 0);
    AUTOPAR_RETURN_IF_ERROR(checkRange("label_smoothing", smoothing, 0, 1));
    AUTOPAR_RETURN_IF_ERROR(checkRange("z_loss", normalizing, 0));
    double every = smoothing / c.count();
    Value logSum = logSumExp(c.x, c.dims);
    Value expected = b.scale(b.sum(b.where(c.isLabel, c.x), c.dims), 1 - smoothing);
    if (smoothing > 0)
      expected = b.add(expected, b.scale(b.sum(c.x, c.dims), every));
    Value rows = b.sub(logSum, expected);
    // Zoph et al., "ST-MoE: designing stable and transferable sparse expert models", 2022.
    if (normalizing > 0)
      rows = b.add(rows, b.scale(b.square(logSum), normalizing));
    Loss loss;
    loss.value = total(ofKeptRows(c, b.mul(rows, c.weights)));
    Value probability = softmax(c.x, logSum, c.dims);
    if (normalizing > 0)
      probability = b.mul(probability,
                          b.unreduce(b.shift(b.scale(logSum, 2 * normalizing), 1), c.type, c.dims));
    Value wanted =
        b.select(c.isLabel, b.splat(c.type, 1 - smoothing + every), b.splat(c.type, every));
    Value slope =
        ofKeptRows(c, b.mul(b.sub(probability, wanted), b.unreduce(c.weights, c.type, c.dims)));
    loss.seeds.emplace_back(c.logits, b.cast(slope, b.typeOf(c.logits).getElementType()));
    return loss;
  }

  /// sum(t) log(sum(exp(x))) - sum(t x).
  Result<Loss> softCrossEntropy() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments());
    auto scores = scoresOf();
    if (!scores)
      return scores.status();
    auto [x, wanted, dims, weights, everywhere] = *scores;
    Value logSum = logSumExp(x, dims), all = b.sum(wanted, dims);
    Value rows = b.sub(b.mul(logSum, all), b.sum(b.mul(wanted, x), dims));
    Value expected = b.mul(softmax(x, logSum, dims), b.unreduce(all, b.typeOf(x), dims));
    return Loss{total(b.mul(rows, weights)), {{x, b.mul(b.sub(expected, wanted), everywhere)}}};
  }

  /// Hinton, Vinyals and Dean, "Distilling the knowledge in a neural network", 2015: the divergence
  /// of softened probabilities, times the square of the temperature.
  Result<Loss> distillation() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments());
    double temperature = call.take("temperature", 1);
    AUTOPAR_RETURN_IF_ERROR(checkAbove0("temperature", temperature));
    auto scores = scoresOf();
    if (!scores)
      return scores.status();
    auto [logits, teacher, dims, weights, everywhere] = *scores;
    Value x = b.scale(logits, 1 / temperature), y = b.scale(teacher, 1 / temperature);
    Value logSum = logSumExp(x, dims), logSumY = logSumExp(y, dims);
    Value wanted = softmax(y, logSumY, dims);
    Value rows = b.add(b.sum(b.mul(wanted, b.sub(y, x)), dims), b.sub(logSum, logSumY));
    Value slope = b.mul(b.scale(b.sub(softmax(x, logSum, dims), wanted), temperature), everywhere);
    return Loss{b.scale(total(b.mul(rows, weights)), temperature * temperature), {{logits, slope}}};
  }

  Result<Loss> negativeLogLikelihood() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments());
    Result<Classes> classes = this->classes();
    if (!classes)
      return classes.status();
    Value expected = b.sum(b.where(classes->isLabel, classes->x), classes->dims);
    return Loss{
        b.unary(UnaryKind::Neg, total(ofKeptRows(*classes, b.mul(expected, classes->weights)))),
        {}};
  }

  Result<Loss> dpo() { return dpoLoss(function, call, ignored); }
  Result<Loss> ppo() { return ppoLoss(function, call, ignored); }

  /// Scores of classes beside what is wanted of each.
  struct Scores {
    Value x, wanted;
    SmallVector<int64_t> dims; ///< the axis
    Value weights;             ///< per row
    Value everywhere;          ///< the same, of the shape of `x`
  };
  Result<Scores> scoresOf() {
    Result<Value> logits = output(call.arguments[0]);
    if (!logits)
      return logits.status();
    Result<int64_t> axis = classAxis(b.typeOf(*logits));
    if (!axis)
      return axis.status();
    Result<Numbers> numbers = this->numbers(*axis);
    if (!numbers)
      return numbers.status();
    RankedTensorType type = b.typeOf(numbers->x);
    SmallVector<int64_t> shape(type.getShape());
    shape.erase(shape.begin() + *axis);
    auto rows = RankedTensorType::get(shape, type.getElementType());
    Value weights = b.splat(rows, 1.0 / std::max<int64_t>(rows.getNumElements(), 1));
    if (numbers->weights)
      weights = b.mul(weights, numbers->weights);
    return Scores{numbers->x, numbers->wanted, {*axis}, weights, b.unreduce(weights, type, *axis)};
  }

  //===-- numbers -----------------------------------------------------------------------===//

  Result<Loss> meanSquaredError() {
    return meanOfDistances([&](Value distance) { return b.square(distance); });
  }

  Result<Loss> meanAbsoluteError() {
    return meanOfDistances([&](Value distance) { return b.unary(UnaryKind::Abs, distance); });
  }

  /// Huber, "Robust estimation of a location parameter", 1964.
  Result<Loss> huber() {
    double delta = call.take("delta", 1);
    AUTOPAR_RETURN_IF_ERROR(checkAbove0("delta", delta));
    return meanOfDistances([&](Value distance) { return huber(distance, delta); });
  }

  /// Girshick, "Fast R-CNN", 2015, as PyTorch has it: the former divided by where it bends.
  Result<Loss> smoothL1() {
    double beta = call.take("beta", 1);
    AUTOPAR_RETURN_IF_ERROR(checkAbove0("beta", beta));
    return meanOfDistances(
        [&](Value distance) { return b.scale(huber(distance, beta), 1 / beta); });
  }

  /// m (|d| - m / 2) of m = min(|d|, delta): half a square up to delta, straight behind.
  Value huber(Value distance, double delta) {
    Value size = b.unary(UnaryKind::Abs, distance);
    Value bent = b.binary(BinaryKind::Min, size, b.splatLike(size, delta));
    return b.mul(bent, b.sub(size, b.scale(bent, 0.5)));
  }

  Result<Loss> meanOfDistances(function_ref<Value(Value distance)> part) {
    AUTOPAR_RETURN_IF_ERROR(checkArguments());
    Result<Numbers> numbers = this->numbers();
    if (!numbers)
      return numbers.status();
    return Loss{meanOf(*numbers, part(b.sub(numbers->x, numbers->wanted))), {}};
  }

  //===-- yes or no ---------------------------------------------------------------------===//

  Result<Loss> binaryCrossEntropy() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments());
    double positive = call.take("pos_weight", 1);
    AUTOPAR_RETURN_IF_ERROR(checkAbove0("pos_weight", positive));
    Result<Numbers> numbers = this->numbers();
    if (!numbers)
      return numbers.status();
    return Loss{meanOf(*numbers, crossEntropyOf(numbers->x, numbers->wanted, positive)), {}};
  }

  /// softplus(x) - x t; errors on what is wanted count `positive` times.
  Value crossEntropyOf(Value x, Value wanted, double positive) {
    if (positive == 1)
      return b.sub(b.unary(UnaryKind::Softplus, x), b.mul(x, wanted));
    Value missed = b.unary(UnaryKind::Softplus, b.unary(UnaryKind::Neg, x));
    Value weight = b.shift(b.scale(wanted, positive - 1), 1);
    return b.add(b.sub(x, b.mul(x, wanted)), b.mul(weight, missed));
  }

  /// Lin et al., "Focal loss for dense object detection", 2017: alpha_t (1 - p_t)^gamma as the
  /// weight of each.
  Result<Loss> binaryFocal() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments());
    double alpha = call.take("alpha", 0.25), gamma = call.take("gamma", 2);
    AUTOPAR_RETURN_IF_ERROR(checkRange("alpha", alpha, 0, 1));
    AUTOPAR_RETURN_IF_ERROR(checkRange("gamma", gamma, 1));
    Result<Numbers> numbers = this->numbers();
    if (!numbers)
      return numbers.status();
    Value x = numbers->x, wanted = numbers->wanted;
    Value p = b.unary(UnaryKind::Sigmoid, x);
    Value wrong = b.sub(b.add(p, wanted), b.scale(b.mul(p, wanted), 2));
    wrong = b.binary(BinaryKind::Max, wrong, b.splatLike(wrong, 0));
    Value weight = b.binary(BinaryKind::Pow, wrong, b.splatLike(wrong, gamma));
    weight = b.mul(weight, b.shift(b.scale(wanted, 2 * alpha - 1), 1 - alpha));
    return Loss{meanOf(*numbers, b.mul(weight, crossEntropyOf(x, wanted, 1))), {}};
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
