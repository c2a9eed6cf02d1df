// SPDX-License-Identifier: Apache-2.0
// Products of the emulated cuBLASLt by definition, with their epilogues as its documents say.
#include "BlasLt.h"
#include "Numbers.h"
#include "autopar/Base/ByteFloat.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

using namespace autopar::runtime::cuda;

namespace emulated {

int bytesOf(int type) {
  return type == kBlasF64                        ? 8
         : type == kBlasF32                      ? 4
         : type == kBlasF16 || type == kBlasBF16 ? 2
         : type == kBlasF8                       ? 1
                                                 : 0;
}

double loadNumber(int type, const uint8_t *at) {
  switch (type) {
  case kBlasF16: {
    Half h;
    std::memcpy(&h, at, 2);
    return h;
  }
  case kBlasBF16: {
    BFloat b;
    std::memcpy(&b, at, 2);
    return b;
  }
  case kBlasF8:
    return autopar::decodeByteFloat(autopar::DataType::F8E4M3FN, *at);
  case kBlasF32: {
    float f;
    std::memcpy(&f, at, 4);
    return double(f);
  }
  default: {
    double d;
    std::memcpy(&d, at, 8);
    return d;
  }
  }
}
void storeNumber(int type, uint8_t *at, double value) {
  if (type == kBlasF16) {
    Half h = Half::of(value);
    std::memcpy(at, &h, 2);
  } else if (type == kBlasBF16) {
    BFloat b = BFloat::of(value);
    std::memcpy(at, &b, 2);
  } else if (type == kBlasF32) {
    float f = float(value);
    std::memcpy(at, &f, 4);
  } else {
    std::memcpy(at, &value, 8);
  }
}

/// The GELU that is written with tanh.
template <typename Sum>
static Sum gelu(Sum x) {
  return Sum(0.5) * x *
         (Sum(1) + std::tanh(Sum(0.7978845608028654) * (x + Sum(0.044715) * x * x * x)));
}

/// Its derivative.
template <typename Sum>
static Sum geluSlope(Sum x) {
  Sum rate(0.7978845608028654), cube(0.044715);
  Sum t = std::tanh(rate * (x + cube * x * x * x));
  return Sum(0.5) * (Sum(1) + t) +
         Sum(0.5) * x * (Sum(1) - t * t) * rate * (Sum(1) + Sum(3) * cube * x * x);
}

/// What the epilogue makes of the sum at a row and column of the result.
template <typename Sum>
static Sum finish(const BlasOperationRecord &o, int type, Sum value, size_t row, size_t column,
                  const BlasOperands &at) {
  size_t width = size_t(bytesOf(type)), place = row + column * size_t(o.auxLeading);
  if (has(o, kBlasBias))
    value += Sum(loadNumber(type, at.bias + row * width));
  if (has(o, kBlasGeluGradient))
    return value * geluSlope(Sum(loadNumber(type, at.aux + place * width)));
  if (has(o, kBlasReluGradient))
    return at.aux[place / 8] >> place % 8 & 1 ? value : Sum(0);
  if (hasMask(o)) {
    uint8_t bit = uint8_t(1 << place % 8), &byte = at.aux[place / 8];
    byte = uint8_t(value > 0 ? byte | bit : byte & ~bit);
  } else if (has(o, kBlasAux)) {
    storeNumber(type, at.aux + place * width, double(value));
  }
  if (has(o, kBlasRelu))
    return value > 0 ? value : Sum(0);
  return has(o, kBlasGelu) ? gelu(value) : value;
}

/// A column of the result at a time.
template <typename Sum>
static void multiplyIn(const BlasOperationRecord &o, const BlasLayouts &l, double alpha,
                       double beta, const BlasOperands &at) {
  size_t m = l.d.rows, n = l.d.columns, k = o.transposeA ? l.a.rows : l.a.columns;
  size_t width = size_t(bytesOf(l.d.type));
  std::vector<Sum> left(m * k), sums(m);
  for (size_t j = 0; j < k; ++j)
    for (size_t i = 0; i < m; ++i) {
      size_t from = o.transposeA ? j + i * size_t(l.a.leading) : i + j * size_t(l.a.leading);
      left[j * m + i] = Sum(loadNumber(l.a.type, at.a + from * size_t(bytesOf(l.a.type))));
    }
  auto storeSum = [&](size_t place, Sum sum) {
    storeNumber(l.d.type, at.bias + place * width, double(sum));
  };
  if (has(o, kBlasSumsOfLeft))
    for (size_t i = 0; i < m; ++i) {
      Sum sum(0);
      for (size_t j = 0; j < k; ++j)
        sum += left[j * m + i];
      storeSum(i, sum);
    }
  for (size_t column = 0; column < n; ++column) {
    std::fill(sums.begin(), sums.end(), Sum(0));
    Sum ofColumn(0);
    for (size_t j = 0; j < k; ++j) {
      size_t from =
          o.transposeB ? column + j * size_t(l.b.leading) : j + column * size_t(l.b.leading);
      Sum factor = Sum(loadNumber(l.b.type, at.b + from * size_t(bytesOf(l.b.type))));
      ofColumn += factor;
      const Sum *terms = &left[j * m];
      for (size_t i = 0; i < m; ++i)
        sums[i] += terms[i] * factor;
    }
    if (has(o, kBlasSumsOfRight))
      storeSum(column, ofColumn);
    for (size_t i = 0; i < m; ++i) {
      Sum value = Sum(alpha) * sums[i];
      if (beta != 0)
        value += Sum(beta) * Sum(loadNumber(l.c.type, at.c + (i + column * size_t(l.c.leading)) *
                                                                 size_t(bytesOf(l.c.type))));
      storeNumber(l.d.type, at.d + (i + column * size_t(l.d.leading)) * width,
                  double(finish(o, l.d.type, value, i, column, at)));
    }
  }
}

void multiply(const BlasOperationRecord &o, const BlasLayouts &layouts, double alpha, double beta,
              const BlasOperands &operands) {
  (o.compute == kBlasComputeF64 ? &multiplyIn<double> : &multiplyIn<float>)(o, layouts, alpha, beta,
                                                                            operands);
}

} // namespace emulated
