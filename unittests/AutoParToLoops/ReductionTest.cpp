// SPDX-License-Identifier: Apache-2.0
// Row operations, windows and products against plain loops.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace autopar::test;

namespace {

const double inf = std::numeric_limits<double>::infinity();

std::string shaped(const std::string &type, const std::vector<int64_t> &shape) {
  return Tensor{type, shape, {}}.mlirType();
}

/// Reduces [a, b, c] over b.
std::vector<double> reduceMiddle(const Tensor &x, int64_t a, int64_t b, int64_t c, double start,
                                 const std::function<double(double, double)> &combine) {
  std::vector<double> result(a * c, start);
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = 0; k < c; ++k)
        result[i * c + k] = combine(result[i * c + k], x.data[(i * b + j) * c + k]);
  return result;
}

TEST(Reduction, EveryKindAndPlace) {
  struct {
    const char *kind;
    double start;
    std::function<double(double, double)> combine;
  } kinds[] = {{"sum", 0, [](double a, double b) { return a + b; }},
               {"prod", 1, [](double a, double b) { return a * b; }},
               {"max", -inf, [](double a, double b) { return std::max(a, b); }},
               {"min", inf, [](double a, double b) { return std::min(a, b); }}};
  for (const std::string type : {"f32", "f64", "i32", "bf16"})
    for (auto &kind : kinds) {
      Tensor x = makeTensor(type, {3, 7, 300}, 1, 3);
      if (type == "bf16") // values that it holds
        for (double &value : x.data)
          value = std::round(value * 2) / 2;
      std::string reduce = std::string(" = autopar.reduce ") + kind.kind + " %x dims ";
      auto line = [&](const std::string &name, const std::string &dims,
                      std::vector<int64_t> shape) {
        return "  " + name + reduce + dims + " : " + x.mlirType() + " -> " + shaped(type, shape) +
               "\n";
      };
      std::string types =
          shaped(type, {3, 300}) + ", " + shaped(type, {3}) + ", " + shaped(type, {300});
      auto results =
          runProgram("func.func @f(%x: " + x.mlirType() + ") -> (" + types + ") {\n" +
                         line("%m", "[1]", {3, 300}) + line("%l", "[1, 2]", {3}) +
                         line("%f", "[0, 1]", {300}) + "  return %m, %l, %f : " + types + "\n}\n",
                     {x}, false);
      double tolerance = type == "bf16" ? 1e-2 : 1e-4;
      std::string what = std::string(kind.kind) + " " + type;
      expectClose(results[0], reduceMiddle(x, 3, 7, 300, kind.start, kind.combine), tolerance,
                  what);
      if (kind.kind == std::string("prod")) // the longer ones overflow
        continue;
      expectClose(results[1], reduceMiddle(x, 3, 2100, 1, kind.start, kind.combine), tolerance,
                  what);
      expectClose(results[2], reduceMiddle(x, 1, 21, 300, kind.start, kind.combine), tolerance,
                  what);
    }
}

/// Rows whose pieces have a scale each, so that the loops over pieces and within one stay apart: an
/// accumulator per place of a piece. Halves are joined while there are two, thirds one by one.
TEST(Reduction, RowsInPieces) {
  for (int64_t piece : {16, 48, 63, 64, 7})
    for (const std::string kind : {"sum", "max"}) {
      Tensor x = makeTensor("f32", {5, 3, piece}), scale = makeTensor("f32", {5, 3}, 1, 3, 2);
      Tensor scaled = x;
      for (size_t i = 0; i < scaled.data.size(); ++i)
        scaled.data[i] *= scale.data[i / piece];
      std::string type = x.mlirType();
      auto results =
          runProgram("func.func @f(%x: " + type + ", %s: tensor<5x3xf32>) -> tensor<5xf32> {\n" +
                         "  %b = autopar.broadcast %s dims [0, 1] : tensor<5x3xf32> -> " + type +
                         "\n" + "  %p = autopar.binary mul %x, %b : " + type + "\n" +
                         "  %y = autopar.reduce " + kind + " %p dims [1, 2] : " + type +
                         " -> tensor<5xf32>\n  return %y : tensor<5xf32>\n}\n",
                     {x, scale}, true);
      auto expected = kind == "sum"
                          ? reduceMiddle(scaled, 5, 3 * piece, 1, 0, std::plus<double>())
                          : reduceMiddle(scaled, 5, 3 * piece, 1, -inf,
                                         [](double a, double b) { return std::max(a, b); });
      expectClose(results[0], expected, 1e-4, kind + " of pieces of " + std::to_string(piece));
    }
}

/// Columns that are halves of bytes: the loop over halves is the innermost one.
TEST(Reduction, ColumnsInParts) {
  for (int64_t bytes : {3, 300}) {
    Tensor packed = makeTensor("ui8", {9, bytes}, 0, 255), x = makeTensor("f32", {9}, -2, 2, 2);
    std::vector<double> expected(2 * bytes, 0);
    for (double &value : packed.data)
      value = std::floor(value);
    for (int64_t k = 0; k < 9; ++k)
      for (int64_t n = 0; n < 2 * bytes; ++n)
        expected[n] += x.data[k] * (int64_t(packed.data[k * bytes + n / 2]) >> (n % 2 * 4) & 15);
    std::string halves = "tensor<9x" + std::to_string(bytes) + "x2x",
                columns = std::to_string(2 * bytes);
    auto results = runProgram(
        "func.func @f(%p: " + packed.mlirType() + ", %x: tensor<9xf32>) -> tensor<" + columns +
            "xf32> {\n"
            "  %c = autopar.constant dense<[0, 4]> : tensor<2xui8>\n"
            "  %s = autopar.broadcast %c dims [2] : tensor<2xui8> -> " +
            halves + "ui8>\n" + "  %m = autopar.constant dense<15> : " + halves + "ui8>\n" +
            "  %b = autopar.broadcast %p dims [0, 1] : " + packed.mlirType() + " -> " + halves +
            "ui8>\n" + "  %h = autopar.binary shift_right %b, %s : " + halves + "ui8>\n" +
            "  %n = autopar.binary and %h, %m : " + halves + "ui8>\n" +
            "  %r = autopar.reshape %n : " + halves + "ui8> -> tensor<9x" + columns + "xui8>\n" +
            "  %f = autopar.cast %r : tensor<9x" + columns + "xui8> -> tensor<9x" + columns +
            "xf32>\n" + "  %w = autopar.broadcast %x dims [0] : tensor<9xf32> -> tensor<9x" +
            columns + "xf32>\n" + "  %t = autopar.binary mul %w, %f : tensor<9x" + columns +
            "xf32>\n" + "  %y = autopar.reduce sum %t dims [0] : tensor<9x" + columns +
            "xf32> -> tensor<" + columns + "xf32>\n" + "  return %y : tensor<" + columns +
            "xf32>\n}\n",
        {packed, x}, true);
    expectClose(results[0], expected, 1e-4, columns + " columns");
  }
}

/// The mark of autopar-reduce-few-rows: a few rows by the same weights, whose rows are in pieces or
/// not, and lie along the sum or across it.
TEST(Reduction, FewRowsShareTheirWeights) {
  for (bool isAcross : {false, true})
    for (int64_t rows : {1, 2, 4})
      for (int64_t piece : {96, 32}) {
        int64_t n = 70, k = 96;
        std::vector<int64_t> shape = isAcross ? std::vector{k, n} : std::vector{n, k};
        std::vector<int64_t> scales =
            isAcross ? std::vector{k / piece, n} : std::vector{n, k / piece};
        std::vector<int64_t> pieces =
            isAcross ? std::vector{k / piece, piece, n} : std::vector{n, k / piece, piece};
        Tensor x = makeTensor("f32", {rows, k}), w = makeTensor("i8", shape, -100, 100, 2),
               s = makeTensor("f32", scales, 0.5, 1, 3);
        for (double &value : w.data)
          value = std::trunc(value);
        std::vector<double> expected(rows * n, 0);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < k; ++j)
              expected[r * n + i] +=
                  x.data[r * k + j] * (isAcross ? w.data[j * n + i] * s.data[j / piece * n + i]
                                                : w.data[i * k + j] * s.data[(i * k + j) / piece]);
        std::string dims = isAcross ? "[0, 2]" : "[0, 1]", sum = isAcross ? "1" : "2";
        std::string type = shaped("f32", shape), in = shaped("f32", pieces);
        std::string all = shaped("f32", {rows, shape[0], shape[1]}), y = shaped("f32", {rows, n});
        auto results = runProgram(
            "func.func @f(%x: " + x.mlirType() + ", %w: " + w.mlirType() + ", %s: " + s.mlirType() +
                ") -> " + y + " {\n" + "  %b = autopar.broadcast %s dims " + dims + " : " +
                s.mlirType() + " -> " + in + "\n" + "  %q = autopar.reshape %b : " + in + " -> " +
                type + "\n" + "  %c = autopar.cast %w : " + w.mlirType() + " -> " + type + "\n" +
                "  %d = autopar.binary mul %c, %q : " + type + "\n" +
                "  %e = autopar.broadcast %d dims [1, 2] : " + type + " -> " + all + "\n" +
                "  %f = autopar.broadcast %x dims [0, " + sum + "] : " + x.mlirType() + " -> " +
                all + "\n" + "  %p = autopar.binary mul %f, %e : " + all + "\n" +
                "  %y = autopar.reduce sum %p dims [" + sum + "] {autopar.few_rows} : " + all +
                " -> " + y + "\n" + "  return %y : " + y + "\n}\n",
            {x, w, s}, true);
        expectClose(results[0], expected, 1e-3,
                    std::to_string(rows) + " rows, pieces of " + std::to_string(piece) +
                        (isAcross ? ", across" : ", along"));
      }
}

TEST(Reduction, LogicalAndEmpty) {
  Tensor x{"i1", {2, 3}, {1, 1, 1, 0, 0, 1}};
  std::string types = " : tensor<2x3xi1> -> tensor<2xi1>";
  expectClose(runOperation("autopar.reduce and %0 dims [1]" + types, {x}, {"tensor<2xi1>"})[0],
              {1, 0}, 0, "and");
  expectClose(runOperation("autopar.reduce or %0 dims [0] : tensor<2x3xi1> -> tensor<3xi1>", {x},
                           {"tensor<3xi1>"})[0],
              {1, 1, 1}, 0, "or");
  Tensor none{"f32", {2, 0}, {}};
  expectClose(runOperation("autopar.reduce sum %0 dims [1] : tensor<2x0xf32> -> tensor<2xf32>",
                           {none}, {"tensor<2xf32>"})[0],
              {0, 0}, 0, "empty sum");
  Tensor nan{"f32", {1, 40}, std::vector<double>(40, 1.0)};
  nan.data[17] = std::nan("");
  expectClose(runOperation("autopar.reduce max %0 dims [1] : tensor<1x40xf32> -> tensor<1xf32>",
                           {nan}, {"tensor<1xf32>"})[0],
              {std::nan("")}, 0, "max with NaN");
}

TEST(Reduction, ArgReduce) {
  Tensor x{"f32", {2, 5}, {1, 3, 3, 0, 2, -1, -5, -5, -2, -5}};
  std::string types = " : tensor<2x5xf32> -> tensor<2xi64>";
  auto run = [&](const std::string &kind, const std::string &tail) {
    return runOperation("autopar.arg_reduce " + kind + " %0 dim 1" + tail + types, {x},
                        {"tensor<2xi64>"})[0];
  };
  expectClose(run("max", ""), {1, 0}, 0, "first max");
  expectClose(run("max", " last"), {2, 0}, 0, "last max");
  expectClose(run("min", ""), {3, 1}, 0, "first min");
  expectClose(run("min", " last"), {3, 4}, 0, "last min");
}

std::vector<double> softmaxRows(const Tensor &x, int64_t rows, int64_t length, int64_t stride,
                                bool log) {
  std::vector<double> result(x.data.size());
  for (int64_t r = 0; r < rows; ++r) {
    int64_t base = r / stride * length * stride + r % stride;
    double top = -inf, sum = 0;
    for (int64_t i = 0; i < length; ++i)
      top = std::max(top, x.data[base + i * stride]);
    for (int64_t i = 0; i < length; ++i)
      sum += std::exp(x.data[base + i * stride] - top);
    for (int64_t i = 0; i < length; ++i) {
      double shifted = x.data[base + i * stride] - top;
      result[base + i * stride] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  }
  return result;
}

TEST(Reduction, Softmax) {
  for (int64_t length : {1, 7, 64, 1000, 20000}) {
    Tensor x = makeTensor("f32", {4, length}, -9, 9);
    for (bool log : {false, true}) {
      auto result = runOperation(std::string("autopar.softmax %0 dim 1") + (log ? " log" : "") +
                                     " : " + x.mlirType(),
                                 {x}, {x.mlirType()});
      expectClose(result[0], softmaxRows(x, 4, length, 1, log), 1e-5,
                  "softmax of " + std::to_string(length));
    }
  }
}

TEST(Reduction, SoftmaxAcrossRows) {
  Tensor x = makeTensor("f64", {3, 20, 300}, -9, 9);
  auto result = runOperation("autopar.softmax %0 dim 1 : " + x.mlirType(), {x}, {x.mlirType()});
  expectClose(result[0], softmaxRows(x, 900, 20, 300, false), 1e-6, "softmax");
}

TEST(Reduction, SoftmaxOfMaskedScores) {
  Tensor x = makeTensor("f32", {2, 40}, -1, 1);
  for (int64_t i = 10; i < 40; ++i)
    x.data[i] = -inf;
  auto result = runOperation("autopar.softmax %0 dim 1 : tensor<2x40xf32>", {x}, {x.mlirType()});
  expectClose(result[0], softmaxRows(x, 2, 40, 1, false), 1e-6, "softmax");
}

TEST(Reduction, Normalize) {
  for (const char *type : {"f32", "f64"})
    for (bool rms : {false, true}) {
      Tensor x = makeTensor(type, {5, 3, 50}, 99, 101);
      auto result = runOperation(std::string("autopar.normalize %0 dims [1, 2] epsilon 1.0e-5") +
                                     (rms ? " rms" : "") + " : " + x.mlirType(),
                                 {x}, {x.mlirType()});
      std::vector<double> expected;
      for (int r = 0; r < 5; ++r) {
        double mean = 0, variance = 0;
        for (int i = 0; i < 150; ++i)
          mean += rms ? 0 : x.data[r * 150 + i] / 150;
        for (int i = 0; i < 150; ++i)
          variance += std::pow(x.data[r * 150 + i] - mean, 2) / 150;
        for (int i = 0; i < 150; ++i)
          expected.push_back((x.data[r * 150 + i] - mean) / std::sqrt(variance + 1e-5));
      }
      expectClose(result[0], expected, 2e-4, std::string("normalize ") + type);
    }
}

TEST(Reduction, Pool) {
  Tensor x = makeTensor("f32", {2, 3, 9, 20});
  std::string attributes = "{window = array<i64: 1, 1, 3, 2>, strides = array<i64: 1, 1, 2, 1>, "
                           "padBegin = array<i64: 0, 0, 1, 0>, padEnd = array<i64: 0, 0, 1, 1>, "
                           "dilations = array<i64: 1, 1, 1, 2>}";
  // Rows: (9 + 2 - 3) / 2 + 1 = 5; columns: 20 + 1 - 3 + 1 = 19.
  for (const char *kind : {"max", "sum"}) {
    auto result = runOperation(std::string("autopar.pool ") + kind + " %0 " + attributes +
                                   " : tensor<2x3x9x20xf32> -> tensor<2x3x5x19xf32>",
                               {x}, {"tensor<2x3x5x19xf32>"});
    bool isMax = kind == std::string("max");
    std::vector<double> expected;
    for (int plane = 0; plane < 6; ++plane)
      for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 19; ++j) {
          double best = isMax ? -inf : 0;
          for (int u = 0; u < 3; ++u)
            for (int v = 0; v < 2; ++v) {
              int row = 2 * i + u - 1, column = j + 2 * v;
              if (row < 0 || row >= 9 || column >= 20)
                continue;
              double value = x.data[(plane * 9 + row) * 20 + column];
              best = isMax ? std::max(best, value) : best + value;
            }
          expected.push_back(best);
        }
    expectClose(result[0], expected, 1e-5, kind);
  }
}

TEST(Reduction, ArgPool) {
  Tensor x{"f32", {1, 1, 3, 3}, {1, 5, 2, 5, 0, 9, 7, 7, 3}};
  auto run = [&](const std::string &extra) {
    return runOperation(
        "autopar.arg_pool %0 {window = array<i64: 1, 1, 2, 2>, strides = array<i64: 1, "
        "1, 1, 1>, padBegin = array<i64: 0, 0, 0, 0>, padEnd = array<i64: 0, 0, 0, 0>, "
        "dilations = array<i64: 1, 1, 1, 1>" +
            extra + "} : tensor<1x1x3x3xf32> -> tensor<1x1x2x2xi64>",
        {x}, {"tensor<1x1x2x2xi64>"})[0];
  };
  expectClose(run(""), {1, 5, 6, 5}, 0, "arg_pool");
  expectClose(run(", columnMajor"), {3, 7, 2, 7}, 0, "arg_pool column major");
}

TEST(Reduction, DotGeneral) {
  for (const char *type : {"f64", "i32", "f16", "f32"}) {
    Tensor a = makeTensor(type, {2, 5, 30}, -3, 3, 1), b = makeTensor(type, {2, 30, 17}, -3, 3, 2);
    for (Tensor *tensor : {&a, &b})
      for (double &value : tensor->data)
        value = std::round(value);
    auto result =
        runOperation("autopar.dot_general %0, %1 batch [0] x [0] contract [2] x [1] : (" +
                         a.mlirType() + ", " + b.mlirType() + ") -> " + shaped(type, {2, 5, 17}),
                     {a, b}, {shaped(type, {2, 5, 17})});
    std::vector<double> expected;
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < 5; ++i)
        for (int j = 0; j < 17; ++j) {
          double sum = 0;
          for (int k = 0; k < 30; ++k)
            sum += a.data[(n * 5 + i) * 30 + k] * b.data[(n * 30 + k) * 17 + j];
          expected.push_back(sum);
        }
    expectClose(result[0], expected, 1e-6, std::string("dot ") + type);
  }
}

TEST(Reduction, ConvolutionWithDilationsAndGroups) {
  Tensor x = makeTensor("f64", {2, 4, 6, 5}, -2, 2, 1),
         w = makeTensor("f64", {6, 2, 3, 2}, -2, 2, 2);
  // Input spread by 2 along rows: 11; rows: (11 + 1 + 2 - 3) / 2 + 1 = 6; columns: 5 - 2 + 1 + 0 -
  // 2 = 3.
  auto result =
      runOperation("autopar.convolution %0, %1 {strides = array<i64: 2, 1>, padBegin = array<i64: "
                   "1, -1>, padEnd "
                   "= array<i64: 2, 1>, inputDilation = array<i64: 2, 1>, filterDilation = "
                   "array<i64: 1, 2>, groups "
                   "= 2 : i64} : (tensor<2x4x6x5xf64>, tensor<6x2x3x2xf64>) -> tensor<2x6x6x3xf64>",
                   {x, w}, {"tensor<2x6x6x3xf64>"});
  std::vector<double> expected;
  for (int n = 0; n < 2; ++n)
    for (int o = 0; o < 6; ++o)
      for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 3; ++j) {
          double sum = 0;
          for (int c = 0; c < 2; ++c)
            for (int u = 0; u < 3; ++u)
              for (int v = 0; v < 2; ++v) {
                int row = 2 * i + u - 1, column = j + 2 * v + 1;
                if (row < 0 || row > 10 || row % 2 || column >= 5)
                  continue;
                sum += x.data[((n * 4 + o / 3 * 2 + c) * 6 + row / 2) * 5 + column] *
                       w.data[((o * 2 + c) * 3 + u) * 2 + v];
              }
          expected.push_back(sum);
        }
  expectClose(result[0], expected, 1e-9, "convolution");
}

TEST(Reduction, RandomIsOneStream) {
  auto whole = runOperation("autopar.random uniform seed 7 stream 3 of [8, 6] : () -> "
                            "tensor<8x6xf32>",
                            {}, {"tensor<8x6xf32>"});
  Tensor row{"i64", {}, {4}}, column{"i64", {}, {0}};
  auto half = runOperation("autopar.random uniform seed 7 stream 3 of [8, 6] at [%0, %1] : "
                           "(tensor<i64>, tensor<i64>) -> tensor<4x6xf32>",
                           {row, column}, {"tensor<4x6xf32>"});
  expectClose(half[0], {whole[0].data.begin() + 24, whole[0].data.end()}, 0, "random");
  for (double value : whole[0].data)
    EXPECT_TRUE(value >= 0 && value < 1);
  auto normal = runOperation("autopar.random normal seed 1 stream 0 of [40000] : () -> "
                             "tensor<40000xf32>",
                             {}, {"tensor<40000xf32>"});
  double mean = 0, square = 0;
  for (double value : normal[0].data) {
    mean += value / 40000;
    square += value * value / 40000;
  }
  EXPECT_NEAR(mean, 0, 0.03);
  EXPECT_NEAR(square, 1, 0.05);
}

/// The published test vector of Philox 4x32-10: counter and key all zero give 6627e8d5 e169c58d ...
TEST(Reduction, PhiloxKnownAnswer) {
  auto bits = runOperation("autopar.random bits seed 0 stream 0 of [1] : () -> tensor<1xui32>", {},
                           {"tensor<1xui32>"});
  EXPECT_EQ(bits[0].data[0], static_cast<double>(0x6627e8d5u));
}

/// Rows of every length and place: on a GPU, a thread, a warp, a block or a part of a block works
/// on one, with and without elements left over. The numbers of both targets are compared by
/// runProgram.
TEST(Reduction, RowsOfThreeWarps) {
  // Their three sums are read as one vector of four.
  Tensor x = makeTensor("f32", {8, 380});
  auto result = runOperation("autopar.reduce sum %0 dims [1] : tensor<8x380xf32> -> tensor<8xf32>",
                             {x}, {"tensor<8xf32>"});
  std::vector<double> sums(8);
  for (size_t i = 0; i < x.data.size(); ++i)
    sums[i / 380] += x.data[i];
  expectClose(result[0], sums, 1e-4, "sum");
}

TEST(Reduction, RowsOfEveryTeam) {
  struct {
    const char *operation, *type;
    std::vector<int64_t> shape, result;
  } cases[] = {
      {"autopar.softmax %0 dim 1", "f32", {40, 9}, {40, 9}},
      {"autopar.softmax %0 dim 1", "f32", {9, 100}, {9, 100}},
      {"autopar.softmax %0 dim 1", "f32", {7, 1024}, {7, 1024}},
      {"autopar.softmax %0 dim 1", "bf16", {3, 2048}, {3, 2048}},
      {"autopar.softmax %0 dim 1", "f32", {2, 6001}, {2, 6001}},
      {"autopar.softmax %0 dim 1", "f32", {515, 257}, {515, 257}},
      {"autopar.softmax %0 dim 1", "f32", {513, 700}, {513, 700}},
      {"autopar.normalize %0 dims [1] epsilon 1.0e-5", "bf16", {514, 1000}, {514, 1000}},
      // Several rows a warp, which may be too short for its lanes, or fill the last block in part;
      // and a number of rows that leaves a warp in part.
      {"autopar.softmax %0 dim 1", "bf16", {8192, 64}, {8192, 64}},
      {"autopar.normalize %0 dims [1] epsilon 1.0e-5", "f32", {4104, 52}, {4104, 52}},
      {"autopar.reduce max %0 dims [1]", "f32", {32772, 20}, {32772}},
      {"autopar.reduce sum %0 dims [1]", "bf16", {16387, 32}, {16387}},
      {"autopar.softmax %0 dim 0 log", "f32", {150, 37}, {150, 37}},
      {"autopar.reduce sum %0 dims [0]", "f32", {1000, 33}, {33}},
      // Several columns a thread, with blocks that reach beyond the last.
      {"autopar.reduce sum %0 dims [1]", "f32", {66, 67, 260}, {66, 260}},
      {"autopar.reduce sum %0 dims [1]", "bf16", {64, 65, 264}, {64, 264}},
      {"autopar.reduce max %0 dims [0, 1]", "i64", {70, 90}, {}},
      {"autopar.reduce sum %0 dims [0, 1]", "f64", {130, 64}, {}},
      {"autopar.normalize %0 dims [1] epsilon 1.0e-5", "f32", {5, 768}, {5, 768}},
  };
  for (auto &c : cases) {
    Tensor x = makeTensor(c.type, c.shape, -3, 3);
    Tensor y{c.type, c.result, {}};
    std::string signature = " : " + x.mlirType();
    if (c.shape != c.result)
      signature += " -> " + y.mlirType();
    auto result = runOperation(c.operation + signature, {x}, {y.mlirType()});
    EXPECT_EQ(int64_t(result[0].data.size()), y.size()) << c.operation;
  }
}

} // namespace
