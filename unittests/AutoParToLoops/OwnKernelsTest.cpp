// SPDX-License-Identifier: Apache-2.0
// Operations with loop nests of their own: cumulative, top_k, scatter.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
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

/// Adds updates one after the other, in f32; -1 counts from the end, what is outside is left out.
std::vector<double> scatterAdd(const Tensor &x, const Tensor &indices, const Tensor &updates,
                               int64_t slice) {
  std::vector<double> sums = x.data;
  int64_t depth = indices.shape.back(), count = indices.size() / depth;
  for (int64_t i = 0; i < count; ++i) {
    int64_t target = 0;
    bool inside = true;
    for (int64_t k = 0; k < depth; ++k) {
      auto index = static_cast<int64_t>(indices.data[i * depth + k]);
      index += index < 0 ? x.shape[k] : 0;
      inside &= index >= 0 && index < x.shape[k];
      target = target * x.shape[k] + index;
    }
    for (int64_t j = 0; j < slice && inside; ++j)
      sums[target * slice + j] = static_cast<float>(sums[target * slice + j]) +
                                 static_cast<float>(updates.data[i * slice + j]);
  }
  return sums;
}

TEST(OwnKernels, ScatterAddsInTheOrderOfUpdatesWhereverTheyGo) {
  struct Case {
    std::vector<int64_t> targets, updates;
    int64_t slice;
  };
  // Ranges of several slices, rounds that end early, slices of less and more than a warp takes.
  for (const Case &c : {Case{{9000}, {300}, 36}, Case{{7}, {2, 40}, 1100}, Case{{5, 3}, {50}, 1},
                        Case{{4}, {1}, 33}}) {
    std::vector<int64_t> shape = c.targets, updatesShape = c.updates, indicesShape = c.updates;
    shape.push_back(c.slice);
    updatesShape.push_back(c.slice);
    indicesShape.push_back(static_cast<int64_t>(c.targets.size()));
    Tensor x = makeTensor("f32", shape), updates = makeTensor("f32", updatesShape, -1, 1, 2);
    // Few targets, so that many updates meet; some are outside.
    double most = std::min<double>(static_cast<double>(c.targets.front()), 20) + 1;
    Tensor indices = makeTensor("i64", indicesShape, -1, most, 3);
    auto result =
        runOperation("autopar.scatter add %0, %1, %2 : (" + x.mlirType() + ", " +
                         indices.mlirType() + ", " + updates.mlirType() + ") -> " + x.mlirType(),
                     {x, indices, updates}, {x.mlirType()});
    expectClose(result[0], scatterAdd(x, indices, updates, c.slice), 0, x.mlirType().c_str());
  }
}

/// So many updates that on a GPU a block lists those of its warps: one whose list is full before
/// the end, warps behind the last range, and updates that end with a stretch or within one.
TEST(OwnKernels, ScatterOfManyUpdatesToManyTargets) {
  struct Case {
    int64_t targets, updates, slice;
  };
  for (const Case &c : {Case{9001, 7001, 136}, Case{9000, 4096, 2}}) {
    Tensor x = makeTensor("f32", {c.targets, c.slice}),
           updates = makeTensor("f32", {c.updates, c.slice}, -1, 1, 2);
    Tensor indices = makeTensor("i64", {c.updates, 1}, -2, static_cast<double>(c.targets) + 2, 3);
    for (size_t i = 0; i < indices.data.size(); ++i)
      if (i % 10 < 8)
        indices.data[i] = 4000.0 + static_cast<double>(i % 3);
    auto result =
        runOperation("autopar.scatter add %0, %1, %2 : (" + x.mlirType() + ", " +
                         indices.mlirType() + ", " + updates.mlirType() + ") -> " + x.mlirType(),
                     {x, indices, updates}, {x.mlirType()});
    expectClose(result[0], scatterAdd(x, indices, updates, c.slice), 0, x.mlirType().c_str());
  }
}

/// Few targets: on a GPU the warps of a block share the updates of one. Sums of -1, 0 and 1 are
/// exact in every type and order.
TEST(OwnKernels, ScatterOfManyUpdatesToFewTargets) {
  struct Case {
    const char *kind, *type;
    int64_t targets, updates, slice;
  };
  for (const Case &c : {Case{"add", "f32", 2, 5000, 40}, Case{"add", "bf16", 3, 1000, 24},
                        Case{"add", "f64", 1, 700, 3}, Case{"add", "i8", 2, 300, 16},
                        Case{"max", "f32", 2, 900, 130}, Case{"min", "i32", 2, 900, 5},
                        Case{"mul", "i64", 2, 900, 1}, Case{"assign", "f32", 2, 900, 40}}) {
    Tensor x = makeTensor(c.type, {c.targets, c.slice}, -1, 2);
    Tensor updates = makeTensor(c.type, {c.updates, c.slice}, -1, 2, 2);
    Tensor indices = makeTensor("i64", {c.updates, 1}, -1, static_cast<double>(c.targets) + 1, 3);
    for (Tensor *tensor : {&x, &updates})
      for (double &value : tensor->data)
        value = std::floor(value);
    runOperation(std::string("autopar.scatter ") + c.kind + " %0, %1, %2 : (" + x.mlirType() +
                     ", " + indices.mlirType() + ", " + updates.mlirType() + ") -> " + x.mlirType(),
                 {x, indices, updates}, {x.mlirType()});
  }
}

/// Most updates go to one target, the others around it: on a GPU several of a batch meet.
TEST(OwnKernels, ScatterOfAHotTarget) {
  for (const char *type : {"f32", "bf16"}) {
    Tensor x = makeTensor(type, {20000, 12}, -1, 2),
           updates = makeTensor(type, {600, 12}, -1, 2, 2);
    Tensor indices = makeTensor("i64", {600, 1}, 0, 6, 3);
    for (Tensor *tensor : {&x, &updates})
      for (double &value : tensor->data)
        value = std::floor(value);
    for (double &index : indices.data)
      index = index < 4 ? 10000 : 9996 + index;
    runOperation("autopar.scatter add %0, %1, %2 : (" + x.mlirType() + ", " + indices.mlirType() +
                     ", " + updates.mlirType() + ") -> " + x.mlirType(),
                 {x, indices, updates}, {x.mlirType()});
  }
}

/// Each batch has targets and updates of its own. On a GPU: ranges of several targets, listed
/// updates, targets in registers, and warps that share the updates of one.
TEST(OwnKernels, ScatterWithinBatches) {
  struct Case {
    int64_t batches, targets, updates, slice;
  };
  for (const Case &c : {Case{3, 5, 7, 2}, Case{3, 9000, 4100, 8}, Case{2, 40, 300, 1100},
                        Case{3, 2, 5000, 4}, Case{70, 300, 64, 3}}) {
    Tensor x = makeTensor("f32", {c.batches, c.targets, c.slice}, -1, 2),
           updates = makeTensor("f32", {c.batches, c.updates, c.slice}, -1, 2, 2),
           indices = makeTensor("i64", {c.batches, c.updates, 1}, -1,
                                static_cast<double>(c.targets) + 1, 3);
    for (Tensor *tensor : {&x, &updates})
      for (double &value : tensor->data)
        value = std::floor(value);
    std::vector<double> expected;
    for (int64_t batch = 0; batch < c.batches; ++batch) {
      auto of = [&](const Tensor &whole, int64_t rows, int64_t width) {
        auto begin = whole.data.begin() + batch * rows * width;
        return Tensor{whole.type, {rows, width}, {begin, begin + rows * width}};
      };
      std::vector<double> sums = scatterAdd(of(x, c.targets, c.slice), of(indices, c.updates, 1),
                                            of(updates, c.updates, c.slice), c.slice);
      expected.insert(expected.end(), sums.begin(), sums.end());
    }
    auto result =
        runOperation("autopar.scatter add %0, %1, %2 batch 1 : (" + x.mlirType() + ", " +
                         indices.mlirType() + ", " + updates.mlirType() + ") -> " + x.mlirType(),
                     {x, indices, updates}, {x.mlirType()});
    expectClose(result[0], expected, 0, x.mlirType().c_str());
  }
}

/// On a GPU the warps of a line share it. The last of several assignments stays.
TEST(OwnKernels, ScatterAlongLongLines) {
  Tensor x = makeTensor("i64", {3, 700}, -5, 5), updates = makeTensor("i64", {3, 4200}, -5, 5, 2),
         indices = makeTensor("i64", {3, 4200}, -2, 702, 3);
  for (const char *kind : {"assign", "add"}) {
    std::vector<double> expected = x.data;
    for (int64_t line = 0; line < 3; ++line)
      for (int64_t i = 0; i < 4200; ++i) {
        auto at = static_cast<int64_t>(indices.data[line * 4200 + i]);
        at += at < 0 ? 700 : 0;
        if (at >= 0 && at < 700) {
          double &old = expected[line * 700 + at], update = updates.data[line * 4200 + i];
          old = *kind == 'a' && kind[1] == 's' ? update : old + update;
        }
      }
    auto result = runOperation(
        std::string("autopar.scatter_elements ") + kind + " %0, %1, %2 dim 1 : (" + x.mlirType() +
            ", " + indices.mlirType() + ", " + updates.mlirType() + ") -> " + x.mlirType(),
        {x, indices, updates}, {x.mlirType()});
    expectClose(result[0], expected, 0, kind);
  }
}

TEST(OwnKernels, ScatterLeavesOutPositionsOf64BitsThatAreOutside) {
  Tensor x{"f32", {4, 1}, {1, 2, 3, 4}}, updates{"f32", {5, 1}, {10, 20, 30, 40, 50}};
  Tensor indices{"i64", {5, 1}, {0x1p32 + 2, -0x1p32 - 2, -0x1p63, 0x1p63, -1}};
  auto result = runOperation("autopar.scatter add %0, %1, %2 : (tensor<4x1xf32>, "
                             "tensor<5x1xi64>, tensor<5x1xf32>) -> tensor<4x1xf32>",
                             {x, indices, updates}, {x.mlirType()});
  expectClose(result[0], {1, 2, 3, 54}, 0, "scatter");
  auto along = runOperation("autopar.scatter_elements add %0, %1, %2 dim 0 : (tensor<4x1xf32>, "
                            "tensor<5x1xi64>, tensor<5x1xf32>) -> tensor<4x1xf32>",
                            {x, indices, updates}, {x.mlirType()});
  expectClose(along[0], {1, 2, 3, 54}, 0, "scatter_elements");
}

TEST(OwnKernels, ScatterElementsOfFewerLinesThanTheInputHas) {
  Tensor x{"f32", {3, 2}, {1, 2, 3, 4, 5, 6}};
  Tensor indices{"i64", {2, 3}, {1, 1, 0, 0, -1, 7}};
  Tensor updates{"f32", {2, 3}, {10, 20, 30, 40, 50, 60}};
  auto result = runOperation("autopar.scatter_elements add %0, %1, %2 dim 1 : (tensor<3x2xf32>, "
                             "tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<3x2xf32>",
                             {x, indices, updates}, {x.mlirType()});
  expectClose(result[0], {31, 32, 43, 54, 5, 6}, 0, "scatter_elements");
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
