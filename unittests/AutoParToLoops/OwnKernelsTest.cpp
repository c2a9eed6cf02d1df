// SPDX-License-Identifier: Apache-2.0
// Operations with loop nests of their own: cumulative, top_k, scatter.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace autopar::test;

namespace {

TEST(OwnKernels, Cumulative) {
  Tensor x{"f32", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}};
  auto run = [&](const std::string &text) {
    return runOperation("autopar.cumulative " + text + " : tensor<2x4xf32>", {x},
                        {x.mlirType()})[0];
  };
  expectClose(run("sum %0 dim 1"), {1, 3, 6, 10, 5, 11, 18, 26}, 0, "sum");
  expectClose(run("sum %0 dim 1 exclusive"), {0, 1, 3, 6, 0, 5, 11, 18}, 0, "exclusive");
  expectClose(run("sum %0 dim 1 reverse"), {10, 9, 7, 4, 26, 21, 15, 8}, 0, "reverse");
  expectClose(run("prod %0 dim 0"), {1, 2, 3, 4, 5, 12, 21, 32}, 0, "prod");
}

TEST(OwnKernels, TopK) {
  Tensor x = makeTensor("f32", {3, 200}, 0, 20);
  for (double &value : x.data)
    value = static_cast<int>(value); // many ties
  for (bool smallest : {false, true})
    for (int64_t k : {1, 7, 200}) {
      Tensor values{"f32", {3, k}, {}}, indices{"i64", {3, k}, {}};
      auto result = runOperation(std::string("autopar.top_k %0 dim 1") +
                                     (smallest ? " smallest" : "") + " : (" + x.mlirType() +
                                     ") -> (" + values.mlirType() + ", " + indices.mlirType() + ")",
                                 {x}, {values.mlirType(), indices.mlirType()});
      for (int row = 0; row < 3; ++row) {
        std::vector<double> order(200);
        std::iota(order.begin(), order.end(), 0);
        std::sort(order.begin(), order.end(), [&](double a, double b) {
          double left = x.data[row * 200 + a], right = x.data[row * 200 + b];
          return left == right ? a < b : smallest ? left < right : left > right;
        });
        for (int64_t i = 0; i < k; ++i) {
          EXPECT_EQ(result[1].data[row * k + i], order[i]);
          EXPECT_EQ(result[0].data[row * k + i], x.data[row * 200 + order[i]]);
        }
      }
    }
}

TEST(OwnKernels, TopKAlongFirst) {
  Tensor x{"i32", {4, 2}, {3, -1, 9, 4, 9, 5, 0, 5}};
  auto result = runOperation(
      "autopar.top_k %0 dim 0 : (tensor<4x2xi32>) -> (tensor<2x2xi32>, tensor<2x2xi64>)", {x},
      {"tensor<2x2xi32>", "tensor<2x2xi64>"});
  expectClose(result[0], {9, 5, 9, 5}, 0, "values");
  expectClose(result[1], {1, 2, 2, 3}, 0, "indices");
}

TEST(OwnKernels, Scatter) {
  Tensor x{"f32", {3, 2}, {1, 2, 3, 4, 5, 6}};
  Tensor indices{"i64", {3, 1}, {2, 0, -1}};
  Tensor updates{"f32", {3, 2}, {10, 20, 30, 40, 50, 60}};
  auto run = [&](const std::string &kind) {
    return runOperation("autopar.scatter " + kind +
                            " %0, %1, %2 : (tensor<3x2xf32>, "
                            "tensor<3x1xi64>, tensor<3x2xf32>) -> tensor<3x2xf32>",
                        {x, indices, updates}, {x.mlirType()})[0];
  };
  expectClose(run("assign"), {30, 40, 3, 4, 50, 60}, 0, "assign");
  expectClose(run("add"), {31, 42, 3, 4, 65, 86}, 0, "add");
  expectClose(run("max"), {30, 40, 3, 4, 50, 60}, 0, "max");
}

TEST(OwnKernels, ScatterOfWideSlices) {
  Tensor x = makeTensor("f32", {20, 700}), updates = makeTensor("f32", {50, 700}, -1, 1, 2);
  Tensor indices = makeTensor("i64", {50, 1}, 0, 20, 3);
  auto result = runOperation("autopar.scatter add %0, %1, %2 : (tensor<20x700xf32>, "
                             "tensor<50x1xi64>, tensor<50x700xf32>) -> tensor<20x700xf32>",
                             {x, indices, updates}, {x.mlirType()});
  std::vector<double> expected = x.data;
  for (int i = 0; i < 50; ++i)
    for (int j = 0; j < 700; ++j)
      expected[static_cast<int>(indices.data[i]) * 700 + j] += updates.data[i * 700 + j];
  expectClose(result[0], expected, 1e-5, "scatter");
}

TEST(OwnKernels, ScatterElements) {
  Tensor x{"f32", {3, 3}, {0, 0, 0, 0, 0, 0, 0, 0, 0}};
  Tensor indices{"i32", {2, 3}, {1, 0, 2, 0, 2, -2}};
  Tensor updates{"f32", {2, 3}, {1, 1.5, 2, 3, 3.5, 4}};
  auto result = runOperation("autopar.scatter_elements assign %0, %1, %2 dim 0 : (tensor<3x3xf32>, "
                             "tensor<2x3xi32>, tensor<2x3xf32>) -> tensor<3x3xf32>",
                             {x, indices, updates}, {x.mlirType()});
  expectClose(result[0], {3, 1.5, 0, 1, 0, 4, 0, 3.5, 2}, 0, "scatter_elements");
}

} // namespace
