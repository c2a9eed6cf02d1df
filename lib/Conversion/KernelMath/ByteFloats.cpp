// SPDX-License-Identifier: Apache-2.0
// Both directions move the bits of exponent and mantissa to where f32 has them; what differs
// between the formats is asked of LLVM's description of them.
#include "ByteFloats.h"

#include <cmath>

using namespace mlir;

namespace autopar::kernelmath {
namespace {

constexpr int kWideBias = 127, kWideMantissa = 23;
constexpr int64_t kWideInfinity = 0x7f800000, kWideSign = 0x80000000;

struct Format {
  explicit Format(FloatType type) : semantics(type.getFloatSemantics()) {
    mantissa = int(APFloat::semanticsPrecision(semantics)) - 1;
    bias = 1 - APFloat::semanticsMinExponent(semantics);
    sign = int64_t(1) << (type.getWidth() - 1);
    largest = bitsOf(APFloat::getLargest(semantics));
    if (APFloat::semanticsHasInf(semantics))
      infinity = bitsOf(APFloat::getInf(semantics));
    if (APFloat::semanticsHasNaN(semantics))
      nan = bitsOf(APFloat::getNaN(semantics));
  }
  /// The bit of the sign alone is NaN where there is no negative zero.
  bool hasNegativeZero() const { return nan != sign; }
  /// How far bits move on the way to f32.
  int shift() const { return kWideMantissa - mantissa; }
  int64_t signShift() const { return 31 - int64_t(llvm::Log2_64(uint64_t(sign))); }

  const llvm::fltSemantics &semantics;
  int mantissa, bias;
  int64_t sign, largest;
  std::optional<int64_t> infinity, nan;

private:
  static int64_t bitsOf(const APFloat &value) {
    return int64_t(value.bitcastToAPInt().getZExtValue());
  }
};

Expr withSign(Expr magnitude, Expr word, const Format &f) {
  return magnitude | shiftLeft(word & word.integer(f.sign), f.signShift());
}

} // namespace

Expr decodeByteFloat(Expr byte, FloatType type) {
  Format f(type);
  auto &builder = byte.getBuilder();
  Expr word = byte.to(builder.getI32Type());
  Expr magnitude = word & word.integer(f.sign - 1);
  // The exponent is too small by the difference of both biases; the product makes numbers below the
  // narrow normal range normal.
  Expr scaled = shiftLeft(magnitude, f.shift()).asFloat() * std::ldexp(1.0, kWideBias - f.bias);
  Expr bits = scaled.bits();
  if (f.infinity)
    bits = select(magnitude < word.integer(*f.infinity), bits, bits | bits.integer(kWideInfinity));
  Expr number = withSign(bits, word, f);
  if (f.nan && !f.infinity) {
    Expr isNan = f.hasNegativeZero()
                     ? magnitude == word.integer(*f.nan)
                     : (word & word.integer(2 * f.sign - 1)) == word.integer(*f.nan);
    number = select(isNan, word.integer(kWideInfinity | 1 << (kWideMantissa - 1)), number);
  }
  return number.asFloat();
}

Expr encodeByteFloat(Expr x, FloatType type) {
  Format f(type);
  auto &builder = x.getBuilder();
  Expr word = x.bits();
  Expr wide = word & word.integer(kWideSign - 1);
  // The sum with a power of two whose last place is what the number keeps as its last rounds to
  // that place. Below the normal numbers the place stays; far beyond all, any will do.
  auto exponent = [&](int power) {
    return wide.integer(int64_t(kWideBias + power) << kWideMantissa);
  };
  Expr power = wide & wide.integer(kWideInfinity);
  power = select(power < exponent(1 - f.bias), exponent(1 - f.bias), power);
  power = select(power > exponent(f.bias + 2), exponent(f.bias + 2), power);
  Expr place = (power + wide.integer(int64_t(f.shift()) << kWideMantissa)).asFloat();
  Expr rounded = (wide.asFloat() + place) - place;
  // With the narrow bias, the bits of both lie at the same places, those of small numbers too.
  Expr code = shiftRightLogic((rounded * std::ldexp(1.0, f.bias - kWideBias)).bits(), f.shift());

  Expr largest = code.integer(f.largest);
  Expr beyond = code.integer(f.infinity ? *f.infinity : f.nan.value_or(f.largest));
  code = select(code > largest, beyond, code);
  if (f.infinity)
    code = select(wide > wide.integer(kWideInfinity), wide.integer(*f.nan), code);
  else if (!f.nan) // NaN is negative zero
    code = select(wide > wide.integer(kWideInfinity), wide.integer(0), code);
  Expr sign = shiftRightLogic(word, f.signShift()) & word.integer(f.sign);
  if (!f.nan)
    sign = select(wide > wide.integer(kWideInfinity), word.integer(f.sign), sign);
  if (!f.hasNegativeZero())
    sign = select(code == code.integer(0), code.integer(0), sign);
  return (code | sign).to(builder.getI8Type());
}

} // namespace autopar::kernelmath
