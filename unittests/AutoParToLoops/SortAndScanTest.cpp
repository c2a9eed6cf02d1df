// SPDX-License-Identifier: Apache-2.0
// top_k and cumulative of rows that the threads of a GPU share: every way in which they do, and
// every element type.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

using namespace autopar::test;

namespace {

/// Element `position` of row `row` along `dim` of a row-major tensor.
int64_t offsetOf(const std::vector<int64_t> &shape, int64_t dim, int64_t row, int64_t position) {
  int64_t stride = 1;
  for (size_t i = dim + 1; i < shape.size(); ++i)
    stride *= shape[i];
  return (row / stride * shape[dim] + position) * stride + row % stride;
}

int64_t rowsOf(const Tensor &x, int64_t dim) { return x.size() / x.shape[dim]; }

//===-- cumulative ---------------------------------------------------------------------------===//

double combine(const std::string &kind, double sum, double element) {
  return kind == "sum"    ? sum + element
         : kind == "prod" ? sum * element
         : kind == "max"  ? std::max(sum, element)
                          : std::min(sum, element);
}

struct Scan {
  const char *kind, *type;
  std::vector<int64_t> shape;
  int64_t dim;
  bool exclusive = false, reverse = false;
};

/// Whole numbers whose sums stay small, so that they are exact in every order.
void expectScan(const Scan &c, double low, double high, double start) {
  Tensor x = makeTensor(c.type, c.shape, low, high);
  for (double &value : x.data) {
    value = std::floor(value);
    if (c.kind == std::string("prod") && value == 0)
      value = 1;
  }
  std::string text = std::string("autopar.cumulative ") + c.kind + " %0 dim " +
                     std::to_string(c.dim) + (c.exclusive ? " exclusive" : "") +
                     (c.reverse ? " reverse" : "") + " : " + x.mlirType();
  Tensor result = runOperation(text, {x}, {x.mlirType()})[0];
  std::vector<double> expected(x.size());
  int64_t length = c.shape[c.dim];
  for (int64_t row = 0; row < rowsOf(x, c.dim); ++row) {
    double sum = start;
    for (int64_t step = 0; step < length; ++step) {
      int64_t at = offsetOf(c.shape, c.dim, row, c.reverse ? length - 1 - step : step);
      double next = combine(c.kind, sum, x.data[at]);
      expected[at] = c.exclusive ? sum : next;
      sum = next;
    }
  }
  expectClose(result, expected, 0, text);
}

TEST(Scan, BlocksShareLongRows) {
  for (bool exclusive : {false, true})
    for (bool reverse : {false, true}) {
      // Vectors of four in one stretch; single elements in seven; as many as a stretch has.
      expectScan({"sum", "f32", {3, 5000}, 1, exclusive, reverse}, -3, 4, 0);
      expectScan({"sum", "f32", {1, 50257}, 1, exclusive, reverse}, -3, 4, 0);
      expectScan({"sum", "i32", {1, 32768}, 1, exclusive, reverse}, -3, 4, 0);
    }
}

TEST(Scan, WarpsHaveShortRows) {
  expectScan({"sum", "f32", {8195, 24}, 1}, -3, 4, 0);
  expectScan({"sum", "i64", {5, 17}, 1, true, true}, -3, 4, 0);
}

TEST(Scan, RowsAcrossMemory) {
  expectScan({"sum", "f32", {2, 300, 5}, 1}, -3, 4, 0);
  expectScan({"sum", "i8", {700, 3}, 0, true, true}, -1, 2, 0);
  expectScan({"sum", "f32", {20, 9000}, 0}, -3, 4, 0);
}

TEST(Scan, EveryType) {
  for (const char *type : {"f16", "bf16", "f64", "i8", "i16", "i64", "ui8", "ui32", "ui64"})
    expectScan({"sum", type, {2, 1200}, 1}, type[0] == 'u' ? 0 : -1, type[0] == 'u' ? 1.1 : 2, 0);
  for (const char *type : {"f32", "bf16", "f64", "i32", "i64"})
    expectScan({"prod", type, {2, 1200}, 1}, -1, 1, 1);
  for (const char *type : {"f32", "f16", "i8", "ui16", "i1"}) {
    bool isFloat = type[0] == 'f', isSigned = type[0] == 'i' && type != std::string("i1");
    double low = type == std::string("i1") || type[0] == 'u' ? 0 : -100;
    double high = type == std::string("i1") ? 2 : 100;
    double infinity = std::numeric_limits<double>::infinity();
    expectScan({"max", type, {2, 1201}, 1, false, true}, low, high,
               isFloat || isSigned ? -infinity : 0);
    expectScan({"min", type, {2, 1201}, 1}, low, high, infinity);
  }
}

TEST(Scan, NoElements) {
  for (const char *type : {"tensor<0x40xf32>", "tensor<3x0xf32>"}) {
    Tensor x{"f32", {type[7] == '0' ? 0 : 3, type[7] == '0' ? 40 : 0}, {}};
    Tensor y =
        runOperation(std::string("autopar.cumulative sum %0 dim 1 : ") + type, {x}, {type})[0];
    EXPECT_EQ(y.size(), 0);
  }
}

TEST(Scan, NanStaysFromWhereItIs) {
  Tensor x = makeTensor("f32", {1, 3000}, 1, 2);
  x.data[1700] = std::nan("");
  for (const char *kind : {"sum", "prod", "max", "min"}) {
    Tensor y = runOperation(std::string("autopar.cumulative ") + kind +
                                " %0 dim 1 exclusive : " + x.mlirType(),
                            {x}, {x.mlirType()})[0];
    for (int64_t i = 0; i < 3000; ++i)
      ASSERT_EQ(std::isnan(y.data[i]), i > 1700) << kind << " at " << i;
  }
}

//===-- top_k --------------------------------------------------------------------------------===//

/// NaN is the greatest.
bool isLess(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

void expectTopK(const Tensor &x, int64_t dim, int64_t k) {
  std::vector<int64_t> shape = x.shape;
  shape[dim] = k;
  Tensor values{x.type, shape, {}}, indices{"i64", shape, {}};
  for (bool smallest : {false, true}) {
    std::string text = "autopar.top_k %0 dim " + std::to_string(dim) +
                       (smallest ? " smallest" : "") + " : (" + x.mlirType() + ") -> (" +
                       values.mlirType() + ", " + indices.mlirType() + ")";
    auto result = runOperation(text, {x}, {values.mlirType(), indices.mlirType()});
    values.data.resize(values.size());
    indices.data.resize(values.size());
    for (int64_t row = 0; row < rowsOf(x, dim); ++row) {
      auto at = [&](int64_t position) { return x.data[offsetOf(x.shape, dim, row, position)]; };
      std::vector<int64_t> order(x.shape[dim]);
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        bool comesFirst = smallest ? isLess(at(a), at(b)) : isLess(at(b), at(a));
        bool comesLast = smallest ? isLess(at(b), at(a)) : isLess(at(a), at(b));
        return comesFirst || (!comesLast && a < b);
      });
      for (int64_t i = 0; i < k; ++i) {
        indices.data[offsetOf(shape, dim, row, i)] = static_cast<double>(order[i]);
        values.data[offsetOf(shape, dim, row, i)] = at(order[i]);
      }
    }
    expectClose(result[1], indices.data, 0, "indices of " + text);
    expectClose(result[0], values.data, 0, "values of " + text);
  }
}

/// With many ties.
Tensor wholeNumbers(const std::string &type, std::vector<int64_t> shape, double low = -50,
                    double high = 50) {
  Tensor x = makeTensor(type, std::move(shape), low, high);
  for (double &value : x.data)
    value = std::floor(value);
  return x;
}

TEST(TopK, BlocksShareLongRows) {
  for (int64_t k : {1, 5, 32}) {
    expectTopK(wholeNumbers("f32", {2, 5000}), 1, k);
    expectTopK(makeTensor("f32", {1, 50257}), 1, k);
  }
  expectTopK(wholeNumbers("bf16", {2, 8192}), 1, 8);
}

TEST(TopK, WarpsHaveRowsWhereTheyAreMany) {
  expectTopK(wholeNumbers("f32", {4099, 40}), 1, 2);
  expectTopK(wholeNumbers("i32", {3, 33}), 1, 32);
}

TEST(TopK, ShortRowsShareAWarp) {
  expectTopK(wholeNumbers("f32", {1001, 8}, 0, 5), 1, 2);
  for (int64_t length : {1, 2, 5, 16, 31, 32})
    expectTopK(wholeNumbers("f32", {13, length}, 0, 9), 1, length);
}

TEST(TopK, RowsThatAreSortedAlready) {
  for (int sign : {1, -1}) {
    Tensor x{"f32", {1, 6000}, {}};
    for (int i = 0; i < 6000; ++i)
      x.data.push_back(sign * i);
    expectTopK(x, 1, 20);
    expectTopK(x, 1, 100);
  }
}

TEST(TopK, MoreResultsThanAWarpHasLanes) {
  expectTopK(wholeNumbers("f32", {2, 40}), 1, 33);
  expectTopK(wholeNumbers("f32", {1, 4096}), 1, 4096);
  expectTopK(wholeNumbers("i64", {1, 4097}), 1, 2048);
  // A part of the row after the other; and more results than a block keeps, so several times.
  expectTopK(makeTensor("f32", {1, 12000}), 1, 50);
  expectTopK(wholeNumbers("f32", {2, 5000}), 1, 3000);
  Tensor x = wholeNumbers("f64", {1, 6145});
  x.data[0] = x.data[6000] = std::nan("");
  expectTopK(x, 1, 6145);
}

TEST(TopK, RowsAcrossMemory) {
  for (int64_t k : {3, 60})
    expectTopK(wholeNumbers("f32", {2, 300, 3}), 1, k);
  expectTopK(wholeNumbers("i32", {10, 9000}), 0, 4);
  expectTopK(wholeNumbers("f64", {9, 7}), 0, 9);
}

TEST(TopK, EveryType) {
  for (const char *type : {"f16", "bf16", "f64", "i8", "i16", "i64", "ui8", "ui32", "ui64", "i1"}) {
    bool isBool = type == std::string("i1");
    double low = isBool || type[0] == 'u' ? 0 : -100, high = isBool ? 2 : 100;
    for (int64_t k : {4, 70})
      expectTopK(wholeNumbers(type, {2, 130}, low, high), 1, k);
    expectTopK(wholeNumbers(type, {3, 9}, low, high), 1, 9);
  }
  expectTopK(makeTensor("i64", {1, 200}, -0x1p62, 0x1p62), 1, 7);
  expectTopK(makeTensor("ui64", {1, 200}, 0x1p62, 0x1p63), 1, 7);
}

TEST(TopK, NanIsTheGreatestAndZerosAreEqual) {
  double infinity = std::numeric_limits<double>::infinity();
  for (const char *type : {"f32", "f16", "f64"}) {
    Tensor x = wholeNumbers(type, {2, 200}, -2, 3);
    for (int i = 0; i < 400; i += 7)
      x.data[i] = i % 2 ? -0.0 : 0.0;
    for (int i : {0, 31, 64, 199, 200, 333})
      x.data[i] = std::nan("");
    x.data[5] = -infinity, x.data[6] = infinity;
    for (int64_t k : {1, 6, 64, 200})
      expectTopK(x, 1, k);
    Tensor few = x;
    few.shape = {16, 25};
    expectTopK(few, 1, 25);
  }
}

TEST(TopK, NoElements) {
  Tensor x{"f32", {0, 40}, {}}, y = makeTensor("f32", {3, 40});
  expectTopK(x, 1, 4);
  expectTopK(y, 1, 0);
}

} // namespace
