// SPDX-License-Identifier: Apache-2.0
// Elementwise operations against the C library, over element types.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

using namespace autopar::test;

namespace {

const double nan_ = std::numeric_limits<double>::quiet_NaN();
const double inf = std::numeric_limits<double>::infinity();

struct UnaryCase {
  const char *kind;
  std::function<double(double)> reference;
  double low, high;
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

const std::vector<UnaryCase> unaryCases = {
    {"neg", [](double x) { return -x; }, -3, 3},
    {"abs", [](double x) { return std::fabs(x); }, -3, 3},
    {"exp", [](double x) { return std::exp(x); }, -8, 8},
    {"log", [](double x) { return std::log(x); }, 0.01, 50},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0, 50},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.1, 50},
    {"reciprocal", [](double x) { return 1 / x; }, 0.1, 50},
    {"sin", [](double x) { return std::sin(x); }, -6, 6},
    {"cos", [](double x) { return std::cos(x); }, -6, 6},
    {"tan", [](double x) { return std::tan(x); }, -1.4, 1.4},
    {"asin", [](double x) { return std::asin(x); }, -1, 1},
    {"acos", [](double x) { return std::acos(x); }, -1, 1},
    {"atan", [](double x) { return std::atan(x); }, -5, 5},
    {"sinh", [](double x) { return std::sinh(x); }, -3, 3},
    {"cosh", [](double x) { return std::cosh(x); }, -3, 3},
    {"tanh", [](double x) { return std::tanh(x); }, -5, 5},
    {"asinh", [](double x) { return std::asinh(x); }, -5, 5},
    {"acosh", [](double x) { return std::acosh(x); }, 1.1, 9},
    {"atanh", [](double x) { return std::atanh(x); }, -0.95, 0.95},
    {"erf", [](double x) { return std::erf(x); }, -4, 4},
    {"sigmoid", sigmoid, -8, 8},
    {"relu", [](double x) { return x < 0 ? 0 : x; }, -3, 3},
    {"gelu", [](double x) { return x / 2 * (1 + std::erf(x * M_SQRT1_2)); }, -5, 5},
    {"gelu_tanh",
     [](double x) {
       return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
     },
     -5, 5},
    {"silu", [](double x) { return x * sigmoid(x); }, -8, 8},
    {"softplus", [](double x) { return std::log1p(std::exp(x)); }, -20, 20},
    {"sign", [](double x) { return x > 0   ? 1
                                   : x < 0 ? -1
                                           : x; }, -3, 3},
    {"floor", [](double x) { return std::floor(x); }, -3, 3},
    {"ceil", [](double x) { return std::ceil(x); }, -3, 3},
    {"round", [](double x) { return std::nearbyint(x); }, -3, 3},
};

double toleranceOf(const std::string &type) {
  return type == "f64" ? 2e-6 : type == "f32" ? 4e-6 : type == "f16" ? 2e-3 : 2e-2;
}

std::vector<double> mapped(const Tensor &input, const std::function<double(double)> &function) {
  std::vector<double> result;
  for (double value : input.data)
    result.push_back(function(value));
  return result;
}

/// The values as the element type holds them.
Tensor rounded(Tensor tensor) {
  return runOperation("autopar.unary neg %0 : " + tensor.mlirType(),
                      {runOperation("autopar.unary neg %0 : " + tensor.mlirType(), {tensor},
                                    {tensor.mlirType()})[0]},
                      {tensor.mlirType()})[0];
}

/// All kinds in one program: compiling is what takes time.
// 1 - tanh^2, times a power of x in the gradient of a GELU, has to vanish.
TEST(Elementwise, TanhIsOneFarOut) {
  Tensor x{"f32", {8}, {8.3, 8.7, 50, 1000, -8.3, -30, -inf, inf}};
  Tensor y = runOperation("autopar.unary tanh %0 : tensor<8xf32>", {x}, {"tensor<8xf32>"})[0];
  expectClose(y, {1, 1, 1, 1, -1, -1, -1, 1}, 0, "tanh");
}

TEST(Elementwise, Unary) {
  for (const std::string type : {"f32", "f64"}) {
    std::vector<Tensor> inputs;
    std::string arguments, body, values, types;
    for (const UnaryCase &test : unaryCases) {
      std::string number = std::to_string(inputs.size()), comma = inputs.empty() ? "" : ", ";
      inputs.push_back(makeTensor(type, {3, 37}, test.low, test.high));
      std::string tensor = inputs.back().mlirType();
      arguments += comma + "%" + number + ": " + tensor;
      body +=
          "  %r" + number + " = autopar.unary " + test.kind + " %" + number + " : " + tensor + "\n";
      values += comma + "%r" + number;
      types += comma + tensor;
    }
    auto results = runProgram("func.func @f(" + arguments + ") -> (" + types + ") {\n" + body +
                                  "  return " + values + " : " + types + "\n}\n",
                              inputs, false);
    ASSERT_EQ(results.size(), unaryCases.size());
    for (size_t i = 0; i < results.size(); ++i)
      expectClose(results[i], mapped(inputs[i], unaryCases[i].reference), toleranceOf(type),
                  std::string(unaryCases[i].kind) + " " + type);
  }
}

TEST(Elementwise, UnaryNarrowFloats) {
  for (const char *type : {"f16", "bf16"})
    for (const char *kind : {"exp", "gelu", "tanh", "relu"}) {
      const UnaryCase *test = nullptr;
      for (const UnaryCase &candidate : unaryCases)
        if (candidate.kind == std::string(kind))
          test = &candidate;
      Tensor input = rounded(makeTensor(type, {5, 40}, test->low / 2, test->high / 2));
      auto result = runOperation(std::string("autopar.unary ") + kind + " %0 : " + input.mlirType(),
                                 {input}, {input.mlirType()});
      expectClose(result[0], mapped(input, test->reference), toleranceOf(type),
                  std::string(kind) + " " + type);
    }
}

TEST(Elementwise, UnarySpecialValues) {
  Tensor input{"f32", {6}, {nan_, inf, -inf, 0.0, 0.5, 2.5}};
  auto run = [&](const std::string &kind) {
    return runOperation("autopar.unary " + kind + " %0 : tensor<6xf32>", {input},
                        {"tensor<6xf32>"})[0];
  };
  expectClose(run("relu"), {nan_, inf, 0, 0, 0.5, 2.5}, 0, "relu");
  expectClose(run("round"), {nan_, inf, -inf, 0, 0, 2}, 0, "round");
  expectClose(run("sign"), {nan_, 1, -1, 0, 1, 1}, 0, "sign");
  expectClose(run("exp"), {nan_, inf, 0, 1, std::exp(0.5), std::exp(2.5)}, 1e-6, "exp");
  expectClose(run("softplus"), {nan_, inf, 0, std::log(2), 0.974077, 2.578889}, 1e-5, "softplus");
}

TEST(Elementwise, IntegersUnary) {
  Tensor input{"i32", {5}, {-3, 0, 7, -2147483648.0, 1}};
  auto run = [&](const std::string &kind) {
    return runOperation("autopar.unary " + kind + " %0 : tensor<5xi32>", {input},
                        {"tensor<5xi32>"})[0];
  };
  expectClose(run("abs"), {3, 0, 7, -2147483648.0, 1}, 0, "abs");
  expectClose(run("sign"), {-1, 0, 1, -1, 1}, 0, "sign");
  expectClose(run("not"), {2, -1, -8, 2147483647.0, -2}, 0, "not");
  Tensor bools{"i1", {3}, {0, 1, 1}};
  expectClose(runOperation("autopar.unary not %0 : tensor<3xi1>", {bools}, {"tensor<3xi1>"})[0],
              {1, 0, 0}, 0, "not i1");
}

std::vector<double> binary(const std::string &kind, const Tensor &a, const Tensor &b) {
  auto result =
      runOperation("autopar.binary " + kind + " %0, %1 : " + a.mlirType(), {a, b}, {a.mlirType()});
  return result.empty() ? std::vector<double>() : result[0].data;
}

TEST(Elementwise, BinaryFloats) {
  Tensor a{"f32", {6}, {5.5, -5.5, 5.5, -5.5, nan_, 3}};
  Tensor b{"f32", {6}, {2, 2, -2, -2, 1, nan_}};
  Tensor like = a;
  auto check = [&](const std::string &kind, std::vector<double> expected) {
    like.data = binary(kind, a, b);
    expectClose(like, expected, 1e-5, kind);
  };
  check("add", {7.5, -3.5, 3.5, -7.5, nan_, nan_});
  check("sub", {3.5, -7.5, 7.5, -3.5, nan_, nan_});
  check("mul", {11, -11, -11, 11, nan_, nan_});
  check("div", {2.75, -2.75, -2.75, 2.75, nan_, nan_});
  check("max", {5.5, 2, 5.5, -2, nan_, nan_});
  check("min", {2, -5.5, -2, -5.5, nan_, nan_});
  check("remainder", {1.5, -1.5, 1.5, -1.5, nan_, nan_});
  check("modulo", {1.5, 0.5, -0.5, -1.5, nan_, nan_});
  check("pow", {30.25, 30.25, 1 / 30.25, 1 / 30.25, nan_, nan_});
}

TEST(Elementwise, BinaryIntegers) {
  for (const char *type : {"i8", "i32", "i64"}) {
    Tensor a{type, {7}, {7, -7, 7, -7, 5, 2, -1}};
    Tensor b{type, {7}, {2, 2, -2, -2, 0, 5, -3}};
    Tensor like = a;
    auto check = [&](const std::string &kind, std::vector<double> expected) {
      like.data = binary(kind, a, b);
      expectClose(like, expected, 0, kind + " " + type);
    };
    check("div", {3, -3, -3, 3, 0, 0, 0});
    check("remainder", {1, -1, 1, -1, 0, 2, -1});
    check("modulo", {1, 1, -1, -1, 0, 2, -1});
    check("pow", {49, 49, 0, 0, 1, 32, -1});
    check("max", {7, 2, 7, -2, 5, 5, -1});
    check("and", {2, 0, 6, -8, 0, 0, -3});
  }
}

TEST(Elementwise, BinaryUnsigned) {
  Tensor a{"ui8", {4}, {200, 250, 7, 255}}, b{"ui8", {4}, {3, 10, 9, 0}};
  Tensor like = a;
  auto check = [&](const std::string &kind, std::vector<double> expected) {
    like.data = binary(kind, a, b);
    expectClose(like, expected, 0, kind);
  };
  check("add", {203, 4, 16, 255});
  check("div", {66, 25, 0, 0});
  check("modulo", {2, 0, 7, 0});
  check("min", {3, 10, 7, 0});
  check("shift_right", {25, 0, 0, 255});
  check("shift_left", {64, 0, 0, 255});
}

TEST(Elementwise, LeastIntegerByMinusOne) {
  Tensor a{"i32", {1}, {-2147483648.0}}, b{"i32", {1}, {-1}};
  EXPECT_EQ(binary("div", a, b), std::vector<double>{-2147483648.0});
  EXPECT_EQ(binary("remainder", a, b), std::vector<double>{0});
}

TEST(Elementwise, Compare) {
  Tensor a{"f32", {4}, {1, 2, 3, nan_}}, b{"f32", {4}, {2, 2, 2, nan_}};
  auto check = [&](const std::string &kind, std::vector<double> expected) {
    auto result = runOperation("autopar.compare " + kind +
                                   " %0, %1 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>",
                               {a, b}, {"tensor<4xi1>"});
    expectClose(result[0], expected, 0, kind);
  };
  check("eq", {0, 1, 0, 0});
  check("ne", {1, 0, 1, 1});
  check("lt", {1, 0, 0, 0});
  check("le", {1, 1, 0, 0});
  check("gt", {0, 0, 1, 0});
  check("ge", {0, 1, 1, 0});
}

TEST(Elementwise, UnsignedCompare) {
  Tensor a{"ui8", {2}, {200, 3}}, b{"ui8", {2}, {100, 4}};
  auto result =
      runOperation("autopar.compare gt %0, %1 : (tensor<2xui8>, tensor<2xui8>) -> tensor<2xi1>",
                   {a, b}, {"tensor<2xi1>"});
  expectClose(result[0], {1, 0}, 0, "gt");
}

TEST(Elementwise, Select) {
  Tensor c{"i1", {3}, {1, 0, 1}}, a{"f16", {3}, {1, 2, 3}}, b{"f16", {3}, {4, 5, 6}};
  auto result = runOperation("autopar.select %0, %1, %2 : (tensor<3xi1>, tensor<3xf16>, "
                             "tensor<3xf16>) -> tensor<3xf16>",
                             {c, a, b}, {"tensor<3xf16>"});
  expectClose(result[0], {1, 5, 3}, 0, "select");
}

TEST(Elementwise, Cast) {
  auto cast = [](Tensor input, const std::string &to) {
    Tensor like{to, input.shape, {}};
    return runOperation("autopar.cast %0 : " + input.mlirType() + " -> " + like.mlirType(), {input},
                        {like.mlirType()})[0];
  };
  Tensor floats{"f32", {5}, {-2.7, 2.7, 0, 200.5, -1}};
  expectClose(cast(floats, "i32"), {-2, 2, 0, 200, -1}, 0, "f32 -> i32");
  expectClose(cast(floats, "i8"), {-2, 2, 0, -56, -1}, 0, "f32 -> i8");
  expectClose(cast(floats, "i1"), {1, 1, 0, 1, 1}, 0, "f32 -> i1");
  expectClose(cast(floats, "f64"), {-2.7f, 2.7f, 0, 200.5, -1}, 0, "f32 -> f64");
  expectClose(cast(floats, "bf16"), {-2.703125, 2.703125, 0, 200, -1}, 0, "f32 -> bf16");
  Tensor bytes{"ui8", {3}, {255, 0, 17}};
  expectClose(cast(bytes, "i64"), {255, 0, 17}, 0, "ui8 -> i64");
  expectClose(cast(bytes, "f32"), {255, 0, 17}, 0, "ui8 -> f32");
  Tensor words{"i64", {3}, {-1, 300, 5}};
  expectClose(cast(words, "ui8"), {255, 44, 5}, 0, "i64 -> ui8");
  expectClose(cast(Tensor{"i1", {2}, {1, 0}}, "f32"), {1, 0}, 0, "i1 -> f32");
}

TEST(Elementwise, Bitcast) {
  auto bitcast = [](Tensor input, const std::string &to) {
    Tensor like{to, input.shape, {}};
    return runOperation("autopar.bitcast %0 : " + input.mlirType() + " -> " + like.mlirType(),
                        {input}, {like.mlirType()})[0];
  };
  expectClose(bitcast({"f32", {3}, {1, -0.0, 0.5}}, "i32"), {0x3f800000, -0x80000000LL, 0x3f000000},
              0, "f32 -> i32");
  expectClose(bitcast({"ui32", {2}, {0x3f800000, 0x40000000}}, "f32"), {1, 2}, 0, "ui32 -> f32");
  expectClose(bitcast({"f64", {2}, {1, 2}}, "i64"), {0x1p62 - 0x1p52, 0x1p62}, 0, "f64 -> i64");
  expectClose(bitcast({"bf16", {2}, {1, -2}}, "ui16"), {0x3f80, 0xc000}, 0, "bf16 -> ui16");
  expectClose(bitcast({"i16", {2}, {0x3c00, 0x4000}}, "f16"), {1, 2}, 0, "i16 -> f16");
  expectClose(bitcast({"f16", {2}, {1, 2}}, "bf16"), {0x1p-7, 2}, 0, "f16 -> bf16");
}

TEST(Elementwise, EmptyAndScalar) {
  Tensor none{"f32", {3, 0}, {}};
  auto empty = runOperation("autopar.unary exp %0 : tensor<3x0xf32>", {none}, {"tensor<3x0xf32>"});
  EXPECT_EQ(empty[0].size(), 0);
  Tensor one{"f32", {}, {4}};
  auto scalar = runOperation("autopar.unary sqrt %0 : tensor<f32>", {one}, {"tensor<f32>"});
  expectClose(scalar[0], {2}, 0, "sqrt");
}

} // namespace
