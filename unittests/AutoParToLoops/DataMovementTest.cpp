// SPDX-License-Identifier: Apache-2.0
// Operations that move elements, against index arithmetic written out.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

using namespace autopar::test;
using Position = std::vector<int64_t>;

namespace {

/// A tensor whose elements are given by a function of the position.
std::vector<double> filled(const Position &shape,
                           const std::function<double(const Position &)> &f) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) {
    Position position(shape.size());
    int64_t rest = i;
    for (size_t dim = shape.size(); dim-- > 0; rest /= shape[dim])
      position[dim] = rest % shape[dim];
    result.push_back(f(position));
  }
  return result;
}

double at(const Tensor &tensor, const Position &position) {
  int64_t offset = 0;
  for (size_t dim = 0; dim < position.size(); ++dim)
    offset = offset * tensor.shape[dim] + position[dim];
  return tensor.data[offset];
}

TEST(DataMovement, Broadcast) {
  Tensor x = makeTensor("f32", {3, 1, 5});
  auto result = runOperation("autopar.broadcast %0 dims [0, 2, 3] : tensor<3x1x5xf32> -> "
                             "tensor<3x2x4x5xf32>",
                             {x}, {"tensor<3x2x4x5xf32>"});
  expectClose(result[0],
              filled({3, 2, 4, 5},
                     [&](const Position &p) {
                       return at(x, {p[0], 0, p[3]});
                     }),
              0, "broadcast");
}

TEST(DataMovement, Transpose) {
  for (Position shape : {Position{2, 3, 4}, Position{40, 3, 50}, Position{1, 70, 64}}) {
    Tensor x = makeTensor("f32", shape);
    Tensor y{"f32", {shape[2], shape[0], shape[1]}, {}};
    auto result = runOperation("autopar.transpose %0 permutation [2, 0, 1] : " + x.mlirType() +
                                   " -> " + y.mlirType(),
                               {x}, {y.mlirType()});
    expectClose(result[0],
                filled(y.shape,
                       [&](const Position &p) {
                         return at(x, {p[1], p[2], p[0]});
                       }),
                0, "transpose");
  }
}

TEST(DataMovement, TransposeOfMatrices) {
  for (const char *type : {"f32", "i8", "bf16", "i64"})
    for (Position shape : {Position{64, 96}, Position{33, 65}, Position{100, 7}, Position{66, 130},
                           Position{67, 128}}) {
      Tensor x = makeTensor(type, shape, -100, 100);
      Tensor y{type, {shape[1], shape[0]}, {}};
      if (std::string(type) == "bf16")
        for (double &value : x.data)
          value = static_cast<int>(value);
      auto result = runOperation("autopar.transpose %0 permutation [1, 0] : " + x.mlirType() +
                                     " -> " + y.mlirType(),
                                 {x}, {y.mlirType()});
      expectClose(result[0],
                  filled(y.shape,
                         [&](const Position &p) {
                           return at(x, {p[1], p[0]});
                         }),
                  0, std::string("transpose ") + type);
    }
}

TEST(DataMovement, MoreTransposesThanSharedMemoryHolds) {
  // Twelve tiles of f32 are 49.5 KiB; a block has 48.
  std::string text = "func.func @f(", body;
  std::vector<Tensor> inputs;
  for (int i = 0; i < 12; ++i) {
    std::string n = std::to_string(i);
    inputs.push_back(makeTensor("f32", {40, 70}, -2, 2, i + 1));
    text += (i ? ", %x" : "%x") + n + ": tensor<40x70xf32>";
    body += "%t" + n + " = autopar.transpose %x" + n +
            " permutation [1, 0] : tensor<40x70xf32> -> tensor<70x40xf32>\n";
    if (i > 0)
      body += "%s" + n + " = autopar.binary add " +
              (i == 1 ? "%t0" : "%s" + std::to_string(i - 1)) + ", %t" + n +
              " : tensor<70x40xf32>\n";
  }
  auto result =
      runProgram(text + ") -> tensor<70x40xf32> {\n" + body + "return %s11 : tensor<70x40xf32>\n}",
                 inputs, true);
  expectClose(result[0],
              filled({70, 40},
                     [&](const Position &p) {
                       float sum = 0;
                       for (const Tensor &x : inputs)
                         sum += static_cast<float>(at(x, {p[1], p[0]}));
                       return sum;
                     }),
              1e-5, "sum of transposes");
}

TEST(DataMovement, Slice) {
  Tensor x = makeTensor("i32", {6, 7}, -50, 50);
  auto result = runOperation("autopar.slice %0 starts [5, 1] steps [-2, 3] : tensor<6x7xi32> -> "
                             "tensor<3x2xi32>",
                             {x}, {"tensor<3x2xi32>"});
  expectClose(result[0],
              filled({3, 2},
                     [&](const Position &p) {
                       return at(x, {5 - 2 * p[0], 1 + 3 * p[1]});
                     }),
              0, "slice");
}

TEST(DataMovement, Pad) {
  Tensor x = makeTensor("f32", {3, 20});
  Tensor value{"f32", {}, {9}};
  auto result = runOperation(
      "autopar.pad %0, %1 low [1, 2] : (tensor<3x20xf32>, tensor<f32>) -> tensor<5x25xf32>",
      {x, value}, {"tensor<5x25xf32>"});
  expectClose(result[0],
              filled({5, 25},
                     [&](const Position &p) {
                       bool inside = p[0] >= 1 && p[0] < 4 && p[1] >= 2 && p[1] < 22;
                       return inside ? at(x, {p[0] - 1, p[1] - 2}) : 9;
                     }),
              0, "pad");
}

TEST(DataMovement, Concat) {
  Tensor a = makeTensor("f32", {2, 3, 4}, -2, 2, 1), b = makeTensor("f32", {2, 5, 4}, -2, 2, 2),
         c = makeTensor("f32", {2, 1, 4}, -2, 2, 3);
  auto result = runOperation("autopar.concat %0, %1, %2 dim 1 : (tensor<2x3x4xf32>, "
                             "tensor<2x5x4xf32>, tensor<2x1x4xf32>) -> tensor<2x9x4xf32>",
                             {a, b, c}, {"tensor<2x9x4xf32>"});
  expectClose(result[0],
              filled({2, 9, 4},
                     [&](const Position &p) {
                       if (p[1] < 3)
                         return at(a, p);
                       return p[1] < 8 ? at(b, {p[0], p[1] - 3, p[2]}) : at(c, {p[0], 0, p[2]});
                     }),
              0, "concat");
}

TEST(DataMovement, ConcatWithEmpty) {
  Tensor a = makeTensor("f32", {2, 0}), b = makeTensor("f32", {2, 5});
  auto result = runOperation(
      "autopar.concat %0, %1 dim 1 : (tensor<2x0xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>", {a, b},
      {"tensor<2x5xf32>"});
  expectClose(result[0], b.data, 0, "concat");
}

TEST(DataMovement, DynamicSlice) {
  Tensor x = makeTensor("f32", {10, 4});
  for (double start : {-3.0, 2.0, 8.0, 30.0}) {
    Tensor row{"i64", {}, {start}}, column{"i64", {}, {1}};
    auto result = runOperation("autopar.dynamic_slice %0[%1, %2] : (tensor<10x4xf32>, tensor<i64>, "
                               "tensor<i64>) -> tensor<4x3xf32>",
                               {x, row, column}, {"tensor<4x3xf32>"});
    int64_t first = std::min(std::max(start, 0.0), 10.0);
    expectClose(result[0],
                filled({4, 3},
                       [&](const Position &p) {
                         return first + p[0] < 10 ? at(x, {first + p[0], p[1] + 1}) : 0;
                       }),
                0, "dynamic_slice");
  }
}

TEST(DataMovement, Gather) {
  Tensor x = makeTensor("f32", {7, 5});
  Tensor rows{"i64", {2, 3, 1}, {0, 6, -1, 3, 99, -99}};
  auto result = runOperation("autopar.gather %0, %1 dims [0] batch 0 : (tensor<7x5xf32>, "
                             "tensor<2x3x1xi64>) -> tensor<2x3x5xf32>",
                             {x, rows}, {"tensor<2x3x5xf32>"});
  int64_t expected[] = {0, 6, 6, 3, 6, 0};
  expectClose(result[0],
              filled({2, 3, 5},
                     [&](const Position &p) {
                       return at(x, {expected[p[0] * 3 + p[1]], p[2]});
                     }),
              0, "gather");
}

/// Positions of 64 bits whose low 32 would be others; the last is the greatest there is.
constexpr double tooLarge[] = {0x1p32 + 2, -0x1p32 - 2, -0x1p63, 0x1p63};

TEST(DataMovement, PositionsOf64Bits) {
  Tensor x = makeTensor("f32", {7, 5});
  Tensor rows{"i64", {4, 1}, {std::begin(tooLarge), std::end(tooLarge)}};
  auto gathered = runOperation("autopar.gather %0, %1 dims [0] batch 0 : (tensor<7x5xf32>, "
                               "tensor<4x1xi64>) -> tensor<4x5xf32>",
                               {x, rows}, {"tensor<4x5xf32>"});
  int64_t expected[] = {6, 0, 0, 6};
  expectClose(gathered[0],
              filled({4, 5},
                     [&](const Position &p) {
                       return at(x, {expected[p[0]], p[1]});
                     }),
              0, "gather");
  Tensor y = makeTensor("f32", {7, 4}), indices{"i64", {1, 4}, rows.data};
  auto elements = runOperation("autopar.gather_elements %0, %1 dim 0 : (tensor<7x4xf32>, "
                               "tensor<1x4xi64>) -> tensor<1x4xf32>",
                               {y, indices}, {"tensor<1x4xf32>"});
  expectClose(elements[0],
              filled({1, 4},
                     [&](const Position &p) {
                       return at(y, {expected[p[1]], p[1]});
                     }),
              0, "gather_elements");
  for (double number : tooLarge) {
    Tensor start{"i64", {}, {number}};
    auto sliced =
        runOperation("autopar.dynamic_slice %0[%1] : (tensor<7xf32>, tensor<i64>) -> tensor<3xf32>",
                     {{"f32", {7}, {1, 2, 3, 4, 5, 6, 7}}, start}, {"tensor<3xf32>"});
    expectClose(sliced[0], number < 0 ? std::vector<double>{1, 2, 3} : std::vector<double>(3), 0,
                "dynamic_slice");
  }
}

TEST(DataMovement, GatherInTheMiddleOfBatches) {
  Tensor x = makeTensor("f32", {2, 4, 6, 3});
  Tensor at2{"i32", {2, 2, 2}, {0, 1, 3, 5, 2, 2, 1, 0}};
  auto result = runOperation("autopar.gather %0, %1 dims [1, 2] batch 1 : (tensor<2x4x6x3xf32>, "
                             "tensor<2x2x2xi32>) -> tensor<2x2x3xf32>",
                             {x, at2}, {"tensor<2x2x3xf32>"});
  expectClose(result[0],
              filled({2, 2, 3},
                     [&](const Position &p) {
                       int64_t i = at2.data[(p[0] * 2 + p[1]) * 2],
                               j = at2.data[(p[0] * 2 + p[1]) * 2 + 1];
                       return at(x, {p[0], i, j, p[2]});
                     }),
              0, "gather");
}

TEST(DataMovement, GatherElements) {
  Tensor x = makeTensor("f32", {4, 5});
  Tensor indices{"i64", {2, 5}, {0, 3, -1, 2, 1, 3, 3, 0, -4, 2}};
  auto result = runOperation("autopar.gather_elements %0, %1 dim 0 : (tensor<4x5xf32>, "
                             "tensor<2x5xi64>) -> tensor<2x5xf32>",
                             {x, indices}, {"tensor<2x5xf32>"});
  expectClose(result[0],
              filled({2, 5},
                     [&](const Position &p) {
                       int64_t i = at(indices, p);
                       return at(x, {i < 0 ? i + 4 : i, p[1]});
                     }),
              0, "gather_elements");
}

TEST(DataMovement, Iota) {
  auto result = runOperation("autopar.iota dim 1 : tensor<3x70xf32>", {}, {"tensor<3x70xf32>"});
  expectClose(result[0], filled({3, 70}, [](const Position &p) { return p[1]; }), 0, "iota");
}

TEST(DataMovement, ReshapeBetweenFormulas) {
  // Two views in a row, one across and one inside a transposition.
  Tensor x = makeTensor("f32", {6, 8});
  auto result = runProgram(R"(
    func.func @f(%x: tensor<6x8xf32>) -> tensor<4x12xf32> {
      %a = autopar.unary neg %x : tensor<6x8xf32>
      %b = autopar.reshape %a : tensor<6x8xf32> -> tensor<2x3x8xf32>
      %c = autopar.transpose %b permutation [1, 0, 2] : tensor<2x3x8xf32> -> tensor<3x2x8xf32>
      %d = autopar.reshape %c : tensor<3x2x8xf32> -> tensor<4x12xf32>
      %e = autopar.unary neg %d : tensor<4x12xf32>
      return %e : tensor<4x12xf32>
    })",
                           {x}, true);
  expectClose(result[0],
              filled({4, 12},
                     [&](const Position &p) {
                       int64_t i = p[0] * 12 + p[1];
                       return at(x, {(i / 8 % 2) * 3 + i / 16, i % 8});
                     }),
              0, "reshape");
}

/// On a GPU a thread has several elements of such rows; the last block may not have all of them.
TEST(DataMovement, RowsOfOddLength) {
  for (int64_t rows : {513, 1024})
    for (const std::string type : {"f32", "bf16"}) {
      int64_t columns = type == "f32" ? 517 : 1029;
      Tensor x = makeTensor(type, {rows, columns + 3}, -8, 8);
      for (double &value : x.data) // values that bf16 holds
        value = std::round(value * 4) / 4;
      Tensor y{type, {rows, columns}, {}};
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c)
          y.data.push_back(-x.data[r * (columns + 3) + c + 2]);
      auto results = runProgram(
          "func.func @f(%x: " + x.mlirType() + ") -> " + y.mlirType() +
              " {\n  %s = autopar.slice %x starts [0, 2] steps [1, 1] : " + x.mlirType() + " -> " +
              y.mlirType() + "\n  %y = autopar.unary neg %s : " + y.mlirType() +
              "\n  return %y : " + y.mlirType() + "\n}\n",
          {x}, true);
      ASSERT_EQ(results.size(), 1u);
      expectClose(results[0], y.data, 0, type);
    }
}

} // namespace
