// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits and less, in kernels and in the runtime, against LLVM's description of them.
#include "TensorProgram.h"

#include "autopar/Base/ByteFloat.h"
#include "llvm/ADT/APFloat.h"

#include <gtest/gtest.h>

#include <cmath>

using llvm::APFloat;

namespace autopar::test {
namespace {

struct Type {
  DataType type;
  const llvm::fltSemantics &semantics;

  std::string name() const { return std::string(::autopar::name(type)); }
  int codes() const { return 1 << APFloat::getSizeInBits(semantics); }
  double number(int code) const {
    APFloat value(semantics, llvm::APInt(APFloat::getSizeInBits(semantics), uint64_t(code)));
    bool lossy;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    return value.convertToDouble();
  }
  int code(float number) const {
    // LLVM does not say what infinity is where there is neither it nor NaN.
    bool isBeyond = std::isinf(number) && !APFloat::semanticsHasNaN(semantics);
    APFloat value(isBeyond ? std::copysign(1e30F, number) : number);
    bool lossy;
    value.convert(semantics, APFloat::rmNearestTiesToEven, &lossy);
    return int(value.bitcastToAPInt().getZExtValue());
  }
  double largest() const { return APFloat::getLargest(semantics).convertToDouble(); }
};

const Type kTypes[] = {{DataType::F8E4M3FN, APFloat::Float8E4M3FN()},
                       {DataType::F8E4M3FNUZ, APFloat::Float8E4M3FNUZ()},
                       {DataType::F8E5M2, APFloat::Float8E5M2()},
                       {DataType::F8E5M2FNUZ, APFloat::Float8E5M2FNUZ()},
                       {DataType::F4E2M1FN, APFloat::Float4E2M1FN()}};

/// All finite numbers of a type, what lies next to them and in the middle between two, zeros, and
/// numbers far beyond.
std::vector<double> samples(const Type &type) {
  std::vector<double> numbers = {0, -0.0, 1e-30, -1e-30, 1e30, -1e30, INFINITY, -INFINITY};
  for (int code = 0; code < type.codes(); ++code) {
    float number = float(type.number(code));
    if (!std::isfinite(number))
      continue;
    // The next code is the next number away from zero; behind the last, one more step as large.
    double next = code + 1 < type.codes() ? type.number(code + 1) : INFINITY;
    double middle = std::isfinite(next) ? (number + next) / 2 : number * (1 + 1.0 / 28);
    for (float near : {number, float(middle)})
      for (float x : {near, std::nextafter(near, -INFINITY), std::nextafter(near, INFINITY)})
        numbers.push_back(x);
  }
  return numbers;
}

bool isSame(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

std::vector<double> cast(const std::vector<double> &from, const std::string &fromType,
                         const std::string &toType, const std::string &how = "") {
  Tensor input{fromType, {int64_t(from.size())}, from}, like{toType, input.shape, {}};
  return runOperation("autopar.cast " + how + "%0 : " + input.mlirType() + " -> " + like.mlirType(),
                      {input}, {like.mlirType()})[0]
      .data;
}

TEST(ByteFloat, EveryCodeIsReadAsItsNumber) {
  for (const Type &type : kTypes) {
    std::vector<double> numbers;
    for (int code = 0; code < type.codes(); ++code) {
      numbers.push_back(type.number(code));
      EXPECT_TRUE(isSame(decodeByteFloat(type.type, uint8_t(code)), numbers.back()))
          << type.name() << " " << code;
    }
    std::vector<double> read = cast(numbers, type.name(), "f32");
    for (size_t i = 0; i < numbers.size(); ++i)
      EXPECT_TRUE(isSame(read[i], numbers[i])) << type.name() << " " << i << ": " << read[i];
  }
}

TEST(ByteFloat, NumbersAreRoundedToTheNearest) {
  for (const Type &type : kTypes) {
    std::vector<double> numbers = samples(type);
    std::vector<double> rounded = cast(numbers, "f32", type.name(), "overflows ");
    for (size_t i = 0; i < numbers.size(); ++i) {
      int expected = type.code(float(numbers[i]));
      EXPECT_TRUE(isSame(rounded[i], type.number(expected)))
          << type.name() << " of " << numbers[i] << " is " << rounded[i];
      EXPECT_TRUE(isSame(decodeByteFloat(type.type, encodeByteFloat(type.type, numbers[i])),
                         type.number(expected)))
          << type.name() << " of " << numbers[i];
    }
  }
}

TEST(ByteFloat, WhatLiesBeyondIsTheLargestUnlessItOverflows) {
  for (const Type &type : kTypes) {
    double most = type.largest();
    std::vector<double> beyond = {2 * most, -2 * most, INFINITY, -INFINITY};
    EXPECT_EQ(cast(beyond, "f32", type.name()), (std::vector<double>{most, -most, most, -most}))
        << type.name();
    EXPECT_EQ(cast({1000000}, "i32", type.name()), (std::vector<double>{most})) << type.name();
  }
}

TEST(ByteFloat, NanStaysNan) {
  for (const Type &type : kTypes) {
    std::vector<double> nan = {std::nan("")};
    bool hasNan = type.type != DataType::F4E2M1FN; // which makes it negative zero
    EXPECT_EQ(std::isnan(cast(nan, "f32", type.name())[0]), hasNan) << type.name();
    EXPECT_EQ(std::isnan(decodeByteFloat(type.type, encodeByteFloat(type.type, nan[0]))), hasNan)
        << type.name();
  }
}

TEST(ByteFloat, ElementsAreMovedAsTheyAre) {
  Tensor x{"f8E5M2", {2, 3}, {1, -2, 0.5, 3, INFINITY, -0.0}};
  auto moved = runOperation("autopar.transpose %0 permutation [1, 0] : tensor<2x3xf8E5M2> -> "
                            "tensor<3x2xf8E5M2>",
                            {x}, {"tensor<3x2xf8E5M2>"})[0];
  EXPECT_EQ(moved.data, (std::vector<double>{1, 3, -2, INFINITY, 0.5, -0.0}));
}

} // namespace
} // namespace autopar::test
