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
  static constexpr std::pair<StringLiteral, Kind> kinds[] = {
      {"constant", Kind::Constant},       {"linear", Kind::Linear},
      {"cosine", Kind::Cosine},           {"polynomial", Kind::Polynomial},
      {"wsd", Kind::WarmupStableDecay},   {"step", Kind::Step},
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
  if (schedule.ends()) {
    schedule.steps = call->take("steps", 0);
    schedule.least = call->take("min", 0);
  }
  double decay = 0;
  if (schedule.kind == Kind::WarmupStableDecay)
    decay = call->take("decay", 0);
  if (schedule.kind == Kind::Polynomial)
    schedule.power = call->take("power", 2);
  if (schedule.kind == Kind::Step) {
    schedule.every = call->take("every", 0);
    schedule.factor = call->take("factor", 0.1);
  }
  AUTOPAR_RETURN_IF_ERROR(call->checkAllTaken());
  auto isCount = [](double number) {
    return number >= 0 && std::isfinite(number) && number == std::floor(number);
  };
  auto expected = [&](const char *key, const std::string &what) {
    auto option = call->options.find(key);
    return call->errorAt(option == call->options.end() ? call->namePosition
                                                       : option->second.position,
                         "expected " + what);
  };
  auto isPositive = [](double number) { return number > 0 && std::isfinite(number); };
  if (!isCount(schedule.warmup) || (schedule.kind == Kind::InverseSqrt && schedule.warmup < 1))
    return expected("warmup", "a number of warm-up steps");
  if (schedule.ends() && (!isCount(schedule.steps) || schedule.steps <= schedule.warmup))
    return expected("steps", "steps=N, more than the warm-up");
  if (schedule.kind == Kind::WarmupStableDecay &&
      (!isCount(decay) || decay < 1 || decay > schedule.steps - schedule.warmup))
    return expected("decay", "decay=N, some of the steps behind the warm-up");
  if (!(schedule.least >= 0) || !std::isfinite(schedule.least))
    return expected("min", "a rate that is not negative");
  if (!isPositive(schedule.power))
    return expected("power", "a power above 0");
  if (schedule.kind == Kind::Step && (!isCount(schedule.every) || schedule.every < 1))
    return expected("every", "every=N, a number of steps");
  if (!isPositive(schedule.factor))
    return expected("factor", "a factor above 0");
  schedule.begin =
      schedule.kind == Kind::WarmupStableDecay ? schedule.steps - decay : schedule.warmup;
  return schedule;
}

bool LearningRateSchedule::ends() const {
  return kind == Kind::Linear || kind == Kind::Cosine || kind == Kind::Polynomial ||
         kind == Kind::WarmupStableDecay;
}

Value LearningRateSchedule::partLeft(FormulaBuilder &b, Value count) const {
  Value progress = b.scale(b.shift(count, -begin), 1 / (steps - begin));
  progress = b.binary(BinaryKind::Min, progress, b.splatLike(progress, 1));
  progress = b.binary(BinaryKind::Max, progress, b.splatLike(progress, 0));
  if (kind == Kind::Cosine)
    return b.shift(b.scale(b.unary(UnaryKind::Cos, b.scale(progress, std::numbers::pi)), 0.5), 0.5);
  Value left = b.shift(b.scale(progress, -1), 1);
  return kind == Kind::Polynomial ? b.binary(BinaryKind::Pow, left, b.splatLike(left, power))
                                  : left;
}

Value LearningRateSchedule::rate(FormulaBuilder &b, Value base, Value count) const {
  Value rate = base;
  if (ends()) {
    rate = b.shift(b.mul(b.shift(base, -least), partLeft(b, count)), least);
  } else if (kind == Kind::Step) {
    Value times = b.unary(UnaryKind::Floor, b.div(b.shift(count, -1), b.splatLike(count, every)));
    rate = b.mul(base, b.binary(BinaryKind::Pow, b.splatLike(times, factor), times));
  } else if (kind == Kind::InverseSqrt) {
    Value later = b.binary(BinaryKind::Max, count, b.splatLike(count, warmup));
    rate = b.mul(base, b.unary(UnaryKind::Sqrt, b.div(b.splatLike(later, warmup), later)));
  }
  if (warmup > 0)
    rate = b.select(b.compare(ComparePredicate::Le, count, b.splatLike(count, warmup)),
                    b.scale(b.mul(base, count), 1 / warmup), rate);
  return rate;
}
