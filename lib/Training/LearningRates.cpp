// SPDX-License-Identifier: Apache-2.0
// Schedules as formulas on scalars.
#include "autopar/Training/LearningRates.h"

#include <cmath>
#include <numbers>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;

Result<LearningRateSchedule> LearningRateSchedule::parse(const std::string &text) {
  static constexpr std::pair<StringLiteral, Kind> kinds[] = {{"constant", Kind::Constant},
                                                             {"linear", Kind::Linear},
                                                             {"cosine", Kind::Cosine},
                                                             {"inverse_sqrt", Kind::InverseSqrt}};
  Result<Call> call = Call::parse("lr-schedule", text);
  if (!call)
    return call.status();
  std::string known;
  const Kind *found = nullptr;
  for (const auto &[name, kind] : kinds) {
    known += (known.empty() ? "" : ", ") + name.str();
    if (name == call->name)
      found = &kind;
  }
  if (!found)
    return call->errorAt(call->namePosition, "unknown schedule; expected " + known);
  if (!call->arguments.empty())
    return call->errorAt(call->namePosition, call->name + " takes options (warmup=100) only,");
  LearningRateSchedule schedule;
  schedule.kind = *found;
  schedule.warmup = call->take("warmup", 0);
  bool ends = schedule.kind == Kind::Linear || schedule.kind == Kind::Cosine;
  if (ends) {
    schedule.steps = call->take("steps", 0);
    schedule.least = call->take("min", 0);
  }
  AUTOPAR_RETURN_IF_ERROR(call->checkAllTaken());
  auto isCount = [](double number) { return number >= 0 && number == std::floor(number); };
  auto positionOf = [&](const char *key) {
    auto option = call->options.find(key);
    return option == call->options.end() ? call->namePosition : option->second.position;
  };
  if (!isCount(schedule.warmup) || (schedule.kind == Kind::InverseSqrt && schedule.warmup < 1))
    return call->errorAt(positionOf("warmup"), "expected a number of warm-up steps");
  if (ends && (!isCount(schedule.steps) || schedule.steps <= schedule.warmup))
    return call->errorAt(positionOf("steps"), "expected steps=N, more than the warm-up");
  if (!(schedule.least >= 0) || !std::isfinite(schedule.least))
    return call->errorAt(positionOf("min"), "expected a rate that is not negative");
  return schedule;
}

Value LearningRateSchedule::rate(FormulaBuilder &b, Value base, Value count) const {
  auto least = [&](Value x, double number) {
    return b.binary(BinaryKind::Min, x, b.splatLike(x, number));
  };
  Value rate = base;
  if (kind == Kind::Linear || kind == Kind::Cosine) {
    // From 0 in the last warm-up step to 1 in step number `steps`.
    Value progress = b.scale(b.shift(count, -warmup), 1 / (steps - warmup));
    progress = b.binary(BinaryKind::Max, least(progress, 1), b.splatLike(progress, 0));
    Value left =
        kind == Kind::Linear
            ? b.shift(b.scale(progress, -1), 1)
            : b.shift(b.scale(b.unary(UnaryKind::Cos, b.scale(progress, std::numbers::pi)), 0.5),
                      0.5);
    rate = b.shift(b.mul(b.shift(base, -this->least), left), this->least);
  } else if (kind == Kind::InverseSqrt) {
    Value later = b.binary(BinaryKind::Max, count, b.splatLike(count, warmup));
    rate = b.mul(base, b.unary(UnaryKind::Sqrt, b.div(b.splatLike(later, warmup), later)));
  }
  if (warmup > 0)
    rate = b.select(b.compare(ComparePredicate::Le, count, b.splatLike(count, warmup)),
                    b.scale(b.mul(base, count), 1 / warmup), rate);
  return rate;
}
