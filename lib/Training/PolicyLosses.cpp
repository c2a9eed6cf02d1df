// SPDX-License-Identifier: Apache-2.0
// See the header. Both are functions of the log-probabilities of labels, whose derivative by the
// logits is that of cross entropy, row by row.
#include "PolicyLosses.h"

#include "TargetFormulas.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;

namespace {

class PolicyLosses : TargetFormulas {
public:
  using TargetFormulas::TargetFormulas;

  /// Rafailov et al., "Direct preference optimization", 2023: softplus(-margin) of beta times how
  /// much more the policy has moved towards the first of a pair than towards the second. With
  /// smoothing, Mitchell, "A note on DPO with noisy preferences", 2023.
  Result<Loss> dpo() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments(
        3, 3,
        "a result of the model, labels and log-probabilities of a reference, such as "
        "dpo(logits, labels, reference)"));
    double beta = call.take("beta", 0.1), smoothing = call.take("label_smoothing", 0);
    AUTOPAR_RETURN_IF_ERROR(checkAbove0("beta", beta));
    if (!(smoothing >= 0 && smoothing < 0.5))
      return call.errorAt(call.options["label_smoothing"].position,
                          "expected label_smoothing from 0 to below 0.5");
    Result<Tokens> tokens = this->tokens();
    if (!tokens)
      return tokens.status();
    RankedTensorType rows = b.typeOf(tokens->logProbability);
    if (rows.getRank() < 1 || tokens->classes.dims[0] == 0 || rows.getDimSize(0) % 2 != 0)
      return call.error("expected \"" + call.arguments[0] + "\" to have pairs of rows in front");
    int64_t pairs = rows.getDimSize(0) / 2;
    auto each = RankedTensorType::get({2 * pairs}, rows.getElementType());
    Result<Value> reference = target(call.arguments[2], each);
    if (!reference)
      return reference.status();
    SmallVector<int64_t> positions = llvm::to_vector(llvm::seq<int64_t>(1, rows.getRank()));
    Value moved = b.sub(b.sum(tokens->logProbability, positions), *reference);
    // 1 for what is preferred, -1 for the other.
    auto both = RankedTensorType::get({pairs, 2}, rows.getElementType());
    Value number = IotaOp::create(builder, b.loc, both.clone(builder.getI32Type()), 1);
    Value sign = b.shift(b.scale(b.cast(number, rows.getElementType()), -2), 1);
    Value margin = b.scale(b.sum(b.mul(b.reshape(moved, {pairs, 2}), sign), {1}), beta);
    Value opposite = b.unary(UnaryKind::Neg, margin);
    Value losses = b.scale(b.unary(UnaryKind::Softplus, opposite), 1 - smoothing);
    Value slopes = b.scale(b.unary(UnaryKind::Sigmoid, opposite), smoothing - 1);
    if (smoothing > 0) {
      losses = b.add(losses, b.scale(b.unary(UnaryKind::Softplus, margin), smoothing));
      slopes = b.add(slopes, b.scale(b.unary(UnaryKind::Sigmoid, margin), smoothing));
    }
    double share = 1.0 / static_cast<double>(std::max<int64_t>(pairs, 1));
    Value slope = b.mul(b.unreduce(b.scale(slopes, beta * share), both, {1}), sign);
    return lossOf(*tokens, b.scale(total(losses), share),
                  b.unreduce(b.reshape(slope, {2 * pairs}), rows, positions));
  }

  /// Schulman et al., "Proximal policy optimization algorithms", 2017, as GRPO uses it (Shao et
  /// al., "DeepSeekMath", 2024); another bound above is DAPO's (Yu et al., 2025).
  Result<Loss> ppo() {
    AUTOPAR_RETURN_IF_ERROR(checkArguments(
        4, 4,
        "a result of the model, actions, their advantages and their old log-probabilities, "
        "such as ppo(logits, actions, advantages, old)"));
    double low = call.take("clip", 0.2), high = call.take("clip_high", low);
    if (!(low > 0 && low < 1))
      return call.errorAt(call.options["clip"].position, "expected clip between 0 and 1");
    AUTOPAR_RETURN_IF_ERROR(checkAbove0("clip_high", high));
    Result<Tokens> tokens = this->tokens();
    if (!tokens)
      return tokens.status();
    RankedTensorType rows = b.typeOf(tokens->logProbability);
    Result<Value> advantage = target(call.arguments[2], rows);
    if (!advantage)
      return advantage.status();
    Result<Value> old = target(call.arguments[3], rows);
    if (!old)
      return old.status();
    Value ratio = b.unary(UnaryKind::Exp, b.sub(tokens->logProbability, *old));
    Value inside = b.binary(BinaryKind::Min, ratio, b.splat(rows, 1 + high));
    inside = b.binary(BinaryKind::Max, inside, b.splat(rows, 1 - low));
    Value gain = b.mul(ratio, *advantage), bound = b.mul(inside, *advantage);
    Value isFree = b.compare(ComparePredicate::Le, gain, bound); // else it does not depend on them
    Value weights = tokens->classes.weights;
    auto negated = [&](Value gains) {
      return b.unary(UnaryKind::Neg, ofKeptRows(tokens->classes, b.mul(gains, weights)));
    };
    Value loss = total(negated(b.binary(BinaryKind::Min, gain, bound)));
    return lossOf(*tokens, loss, negated(b.where(isFree, gain)));
  }

private:
  struct Tokens {
    Classes classes;
    Value logSum;         ///< per row
    Value logProbability; ///< of the label, per row; 0 where that is ignored
  };

  Result<Tokens> tokens() {
    Result<Classes> classes = labelledClasses();
    if (!classes)
      return classes.status();
    Value logSum = logSumExp(classes->x, classes->dims);
    Value own = b.sum(b.where(classes->isLabel, classes->x), classes->dims);
    return Tokens{*classes, logSum, ofKeptRows(*classes, b.sub(own, logSum))};
  }

  /// With the slope by the log-probabilities.
  Loss lossOf(const Tokens &tokens, Value value, Value slope) {
    const Classes &c = tokens.classes;
    Value one = b.select(c.isLabel, b.splat(c.type, 1), b.splat(c.type, 0));
    Value byLogits =
        b.mul(b.sub(one, softmax(c.x, tokens.logSum, c.dims)), b.unreduce(slope, c.type, c.dims));
    return Loss{value,
                {{c.logits, b.cast(ofKeptRows(c, byLogits), b.typeOf(c.logits).getElementType())}}};
  }
};

} // namespace

Result<Loss> mlir::autopar::dpoLoss(func::FuncOp function, Call &call, double ignored) {
  return PolicyLosses(function, call, ignored).dpo();
}

Result<Loss> mlir::autopar::ppoLoss(func::FuncOp function, Call &call, double ignored) {
  return PolicyLosses(function, call, ignored).ppo();
}
