// SPDX-License-Identifier: Apache-2.0
// The formulas of loss scaling. The state counts doublings, so that it may start at zero as all
// state does; the scale is a shifted one, exact whatever its size.
#include "autopar/Training/LossScaling.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Call;
using ::autopar::Result;

/// Larger scales would overflow gradients in f32 before they help any in f16.
static constexpr int64_t kMostDoublings = 40;

Result<LossScaling> LossScaling::parse(const std::string &text) {
  Result<Call> parsed = Call::parse("loss scale", text);
  if (!parsed)
    return parsed.status();
  Call &call = *parsed;
  LossScaling scaling;
  scaling.dynamic = call.name == "dynamic";
  if (!scaling.dynamic && call.name != "static")
    return call.errorAt(call.namePosition, "unknown scale; expected dynamic or static");
  if (!call.arguments.empty())
    return call.errorAt(call.namePosition, call.name + " takes options (" +
                                               (scaling.dynamic ? "initial" : "scale") +
                                               "=65536) only,");
  std::string key = scaling.dynamic ? "initial" : "scale";
  double scale = call.take(key, 65536);
  double interval = scaling.dynamic ? call.take("interval", 2000) : 1;
  AUTOPAR_RETURN_IF_ERROR(call.checkAllTaken());
  double exponent = std::log2(scale);
  if (!(scale >= 1) || exponent != std::floor(exponent) || exponent > kMostDoublings)
    return call.errorAt(call.options[key].position, "expected " + key +
                                                        " to be a power of two, from 1 to 2^" +
                                                        std::to_string(kMostDoublings));
  if (!(interval >= 1) || interval != std::floor(interval) || interval > 1e15)
    return call.errorAt(call.options["interval"].position,
                        "expected interval to be a whole number of steps");
  scaling.exponent = static_cast<int64_t>(exponent);
  scaling.interval = static_cast<int64_t>(interval);
  return scaling;
}

SmallVector<StringRef> LossScaling::stateNames() const {
  if (!dynamic)
    return {"loss_scale/skipped_steps"};
  return {"loss_scale/skipped_steps", "loss_scale/doublings", "loss_scale/good_steps"};
}

Value LossScaling::scale(FormulaBuilder &b, ValueRange state) const {
  Type f32 = b.builder.getF32Type();
  if (!dynamic)
    return b.splat(RankedTensorType::get({}, f32), std::ldexp(1.0, exponent));
  Value count = b.shift(state[1], static_cast<double>(exponent));
  return b.cast(b.binary(BinaryKind::ShiftLeft, b.splatLike(count, 1), count), f32);
}

SmallVector<Value> LossScaling::next(FormulaBuilder &b, ValueRange state, Value isFinite) const {
  Value zero = b.splatLike(state[0], 0), one = b.splatLike(state[0], 1);
  Value skipped = b.add(state[0], b.select(isFinite, zero, one));
  if (!dynamic)
    return {skipped};
  Value doublings = state[1], good = b.shift(state[2], 1);
  Value grows =
      b.compare(ComparePredicate::Ge, good, b.splatLike(good, static_cast<double>(interval)));
  Value more = b.binary(BinaryKind::Min, b.add(doublings, one),
                        b.splatLike(doublings, static_cast<double>(kMostDoublings - exponent)));
  Value less = b.binary(BinaryKind::Max, b.sub(doublings, one),
                        b.splatLike(doublings, static_cast<double>(-exponent)));
  return {skipped, b.select(isFinite, b.select(grows, more, doublings), less),
          b.select(isFinite, b.select(grows, zero, good), zero)};
}
