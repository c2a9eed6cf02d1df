// SPDX-License-Identifier: Apache-2.0
// The formulas of optimizers, in the order of operations of PyTorch, whose results they are
// compared with.
#include "autopar/Training/Optimizers.h"

#include "Muon.h"
#include "UpdateRules.h"

#include "autopar/Base/AverageName.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;
using ::autopar::Status;

namespace {

/// The gradient with the derivative of decay / 2 * |parameter|^2.
Value withPenalty(FormulaBuilder &b, Value gradient, Value parameter, double decay) {
  return decay == 0 ? gradient : b.add(gradient, b.scale(parameter, decay));
}

/// Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013.
struct Sgd : Optimizer {
  double momentum = 0;
  bool nesterov = false;

  SmallVector<StringRef> stateNames() const override {
    return momentum == 0 ? SmallVector<StringRef>{} : SmallVector<StringRef>{"momentum"};
  }
  double keptPart() const override { return momentum; }
  SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                            ValueRange shared, double decay) const override {
    gradient = withPenalty(b, gradient, parameter, decay);
    if (momentum == 0)
      return {b.sub(parameter, b.mul(shared[0], gradient))};
    Value velocity = b.add(b.scale(state[0], momentum), gradient);
    Value along = nesterov ? b.add(gradient, b.scale(velocity, momentum)) : velocity;
    return {b.sub(parameter, b.mul(shared[0], along)), velocity};
  }
};

/// Kingma and Ba, "Adam: a method for stochastic optimization", 2015; `decoupled` is AdamW.
struct Adam : Optimizer {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool decoupled = false;

  SmallVector<StringRef> stateNames() const override { return {"mean", "square"}; }
  double keptPart() const override { return std::max(beta1, beta2); }

  /// The rate; rate / (1 - beta1^t); 1 / sqrt(1 - beta2^t).
  SmallVector<Value> shared(FormulaBuilder &b, Value rate, Value count) const override {
    auto correction = [&](double beta) {
      Value power = b.binary(BinaryKind::Pow, b.splatLike(count, beta), count);
      return b.shift(b.unary(UnaryKind::Neg, power), 1);
    };
    return {rate, b.div(rate, correction(beta1)), b.unary(UnaryKind::Rsqrt, correction(beta2))};
  }
  SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                            ValueRange shared, double decay) const override {
    if (decoupled)
      parameter = decayed(b, parameter, shared[0], decay);
    else
      gradient = withPenalty(b, gradient, parameter, decay);
    Value mean = interpolate(b, state[0], gradient, 1 - beta1);
    Value square = b.add(b.scale(state[1], beta2), b.scale(b.square(gradient), 1 - beta2));
    Value root = b.shift(b.mul(b.unary(UnaryKind::Sqrt, square), shared[2]), epsilon);
    return {b.sub(parameter, b.mul(shared[1], b.div(mean, root))), mean, square};
  }
};

/// Duchi, Hazan and Singer, "Adaptive subgradient methods", 2011.
struct Adagrad : Optimizer {
  double epsilon = 1e-10;

  SmallVector<StringRef> stateNames() const override { return {"square"}; }
  double keptPart() const override { return 1; }
  SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                            ValueRange shared, double decay) const override {
    gradient = withPenalty(b, gradient, parameter, decay);
    Value square = b.add(state[0], b.square(gradient));
    Value root = b.shift(b.unary(UnaryKind::Sqrt, square), epsilon);
    return {b.sub(parameter, b.mul(shared[0], b.div(gradient, root))), square};
  }
};

/// Chen et al., "Symbolic discovery of optimization algorithms", 2023.
struct Lion : Optimizer {
  double beta1 = 0.9, beta2 = 0.99;

  SmallVector<StringRef> stateNames() const override { return {"mean"}; }
  double keptPart() const override { return beta2; }
  SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                            ValueRange shared, double decay) const override {
    Value sign = b.unary(UnaryKind::Sign, interpolate(b, state[0], gradient, 1 - beta1));
    parameter = decayed(b, parameter, shared[0], decay);
    return {b.sub(parameter, b.mul(shared[0], sign)),
            interpolate(b, state[0], gradient, 1 - beta2)};
  }
};

/// Beside each parameter its exponential moving average, which begins with what the first step
/// makes of it, as PyTorch's AveragedModel does (Polyak and Juditsky, "Acceleration of stochastic
/// approximation by averaging", 1992).
struct Averaging : Optimizer {
  std::unique_ptr<Optimizer> inner;
  double kept = 0; ///< of the average, in a step

  Averaging(std::unique_ptr<Optimizer> optimizer, double kept)
      : inner(std::move(optimizer)), kept(kept) {
    name = inner->name;
    learningRate = inner->learningRate;
    rateScale = inner->rateScale;
    weightDecay = inner->weightDecay;
    stateBits = inner->stateBits;
  }

  SmallVector<StringRef> stateNames() const override {
    SmallVector<StringRef> names = inner->stateNames();
    names.push_back(::autopar::kAverageState);
    return names;
  }
  /// Those of the optimizer, and the part of the average that is new.
  SmallVector<Value> shared(FormulaBuilder &b, Value rate, Value count) const override {
    SmallVector<Value> numbers = inner->shared(b, rate, count);
    Value isFirst = b.compare(ComparePredicate::Le, count, b.splatLike(count, 1));
    numbers.push_back(b.select(isFirst, b.splatLike(count, 1), b.splatLike(count, 1 - kept)));
    return numbers;
  }
  SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                            ValueRange shared, double decay) const override {
    SmallVector<Value> next =
        inner->update(b, parameter, gradient, state.drop_back(), shared.drop_back(), decay);
    next.push_back(b.add(state.back(), b.mul(b.sub(next[0], state.back()), shared.back())));
    return next;
  }
  double keptPart() const override { return inner->keptPart(); }
  const Preconditioner *preconditioner() const override { return inner->preconditioner(); }
};

using OptimizerPtr = std::unique_ptr<Optimizer>;

Optimizers makeSgd(Call &call, double momentum) {
  auto sgd = std::make_unique<Sgd>();
  sgd->learningRate = call.take("lr", 0.01);
  sgd->momentum = call.take("momentum", momentum);
  sgd->nesterov = call.take("nesterov", 0) != 0;
  sgd->weightDecay = call.take("weight_decay", 0);
  return {std::move(sgd), nullptr};
}

std::unique_ptr<Adam> makeAdam(Call &call, bool decoupled, double beta2, double decay) {
  auto adam = std::make_unique<Adam>();
  adam->decoupled = decoupled;
  adam->learningRate = call.take("lr", 1e-3);
  adam->beta1 = call.take("beta1", 0.9);
  adam->beta2 = call.take("beta2", beta2);
  adam->epsilon = call.take("eps", 1e-8);
  adam->weightDecay = call.take("weight_decay", decay);
  return adam;
}

Optimizers makeAdagrad(Call &call) {
  auto adagrad = std::make_unique<Adagrad>();
  adagrad->learningRate = call.take("lr", 0.01);
  adagrad->epsilon = call.take("eps", 1e-10);
  adagrad->weightDecay = call.take("weight_decay", 0);
  return {std::move(adagrad), nullptr};
}

Optimizers makeLion(Call &call) {
  auto lion = std::make_unique<Lion>();
  lion->learningRate = call.take("lr", 1e-4);
  lion->beta1 = call.take("beta1", 0.9);
  lion->beta2 = call.take("beta2", 0.99);
  lion->weightDecay = call.take("weight_decay", 0);
  return {std::move(lion), nullptr};
}

Optimizers makeMuonAndAdamW(Call &call) {
  OptimizerPtr muon = makeMuon(call);
  auto adamw = makeAdam(call, true, 0.95, muon->weightDecay);
  adamw->name = "adamw";
  double rate = call.take("adamw_lr", muon->learningRate);
  if (rate != muon->learningRate)
    adamw->rateScale = rate / muon->learningRate;
  return {std::move(adamw), std::move(muon)};
}

struct Row {
  StringLiteral name;
  Optimizers (*make)(Call &);
};
const Row rows[] = {{"sgd", [](Call &call) { return makeSgd(call, 0); }},
                    {"momentum", [](Call &call) { return makeSgd(call, 0.9); }},
                    {"adam",
                     [](Call &call) -> Optimizers {
                       return {makeAdam(call, false, 0.999, 0), nullptr};
                     }},
                    {"adamw",
                     [](Call &call) -> Optimizers {
                       return {makeAdam(call, true, 0.999, 0.01), nullptr};
                     }},
                    {"adagrad", makeAdagrad},
                    {"lion", makeLion},
                    {"muon", makeMuonAndAdamW}};

/// bf16 stays what it is where a step changes less than about 1 / 512 of it; a hundredth of what is
/// some times as large is more.
constexpr double kMostKeptIn16Bits = 0.99;

/// Betas, momentum and what an average keeps are fractions, everything else is finite and not
/// negative.
Status checkRanges(const Call &call, const Optimizers &optimizers) {
  for (const auto &[key, option] : call.options) {
    auto expected = [&](const std::string &what) {
      return call.errorAt(option.position, "expected " + key + what);
    };
    bool fraction = key == "momentum" || key == "ema" || StringRef(key).starts_with("beta");
    if (!(option.number >= 0) || !std::isfinite(option.number) || (fraction && option.number >= 1))
      return expected(fraction ? " in [0, 1)" : " to be finite and not negative");
    if (key == "steps" &&
        (option.number < 1 || option.number > 20 || option.number != std::floor(option.number)))
      return expected(" to be a whole number from 1 to 20");
    if (key == "state_bits" && option.number != 16 && option.number != 32)
      return expected(" to be 16 or 32");
    if (key == "state_bits" && option.number == 16)
      for (const OptimizerPtr *optimizer : {&optimizers.others, &optimizers.ofMatrices})
        if (*optimizer && (*optimizer)->keptPart() > kMostKeptIn16Bits)
          return expected(
              "=32: 16 bits do not follow what keeps more than 0.99 of itself in a step,");
    if (key == "adamw_lr" && !std::isfinite(optimizers.others->rateScale))
      return expected(" beside an lr above 0, of which it is a part");
    if (key == "nesterov" && option.number != 0 && optimizers.others->stateNames().empty())
      return call.errorAt(option.position, "expected momentum=N for nesterov to look ahead along");
  }
  return Status::ok();
}

} // namespace

SmallVector<StringRef> Optimizer::keptNames() const {
  const Preconditioner *before = preconditioner();
  SmallVector<StringRef> names = before ? before->stateNames() : SmallVector<StringRef>();
  names.append(stateNames());
  return names;
}

Result<Optimizers> mlir::autopar::makeOptimizers(Call &call) {
  std::string known;
  for (const Row &row : rows) {
    known += (known.empty() ? "" : ", ") + row.name.str();
    if (row.name != call.name)
      continue;
    if (!call.arguments.empty())
      return call.errorAt(call.namePosition, call.name + " takes options (lr=0.1) only,");
    Optimizers optimizers = row.make(call);
    double ema = call.take("ema", 0), stateBits = call.take("state_bits", 32);
    AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
    AUTOPAR_RETURN_IF_ERROR(checkRanges(call, optimizers));
    for (OptimizerPtr *optimizer : {&optimizers.others, &optimizers.ofMatrices}) {
      if (*optimizer && (*optimizer)->name.empty())
        (*optimizer)->name = call.name;
      if (*optimizer)
        (*optimizer)->stateBits = static_cast<int>(stateBits);
      if (*optimizer && ema != 0)
        *optimizer = std::make_unique<Averaging>(std::move(*optimizer), ema);
    }
    return optimizers;
  }
  return call.errorAt(call.namePosition, "unknown optimizer; expected " + known);
}
