// SPDX-License-Identifier: Apache-2.0
// Products of a few rows with a matrix of their own, as tokens meet their caches: a GPU's team has
// all rows of a matrix, and some of its lines.
#include "TensorProgram.h"

#include "gtest/gtest.h"
#include <cmath>

using namespace autopar::test;

namespace {

std::string shaped(const std::string &type, const std::vector<int64_t> &shape) {
  return Tensor{type, shape, {}}.mlirType();
}

struct Sizes {
  int64_t batch, rows, lines, columns;
};

/// Rows [rows, batch, summed] times matrices [batch, lines, columns], of which the lines are summed
/// up if `isAcross`, else the columns; read by what doubles the sums.
void check(const std::string &type, Sizes sizes, bool isAcross) {
  auto [batch, rows, lines, columns] = sizes;
  int64_t summed = isAcross ? lines : columns, free = isAcross ? columns : lines;
  Tensor x = makeTensor(type, {rows, batch, summed}),
         m = makeTensor(type, {batch, lines, columns}, -1, 1, 2);
  for (Tensor *tensor : {&x, &m})
    for (double &value : tensor->data)
      value = std::round(value * 16) / 16; // a bf16
  std::vector<double> expected(rows * batch * free, 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t line = 0; line < lines; ++line)
        for (int64_t column = 0; column < columns; ++column)
          expected[(r * batch + b) * free + (isAcross ? column : line)] +=
              2 * x.data[(r * batch + b) * summed + (isAcross ? line : column)] *
              m.data[(b * lines + line) * columns + column];
  std::string all = shaped("f32", {rows, batch, lines, columns}),
              y = shaped("f32", {rows, batch, free});
  std::string wideX = shaped("f32", x.shape), wideM = shaped("f32", m.shape);
  auto cast = [&](const std::string &name, const Tensor &from, const std::string &to) {
    return type == "f32"
               ? "  %w" + name + " = autopar.reshape %" + name + " : " + to + " -> " + to + "\n"
               : "  %w" + name + " = autopar.cast %" + name + " : " + from.mlirType() + " -> " +
                     to + "\n";
  };
  auto results = runProgram(
      "func.func @f(%x: " + x.mlirType() + ", %m: " + m.mlirType() + ") -> " + y + " {\n" +
          cast("x", x, wideX) + cast("m", m, wideM) + "  %a = autopar.broadcast %wx dims [0, 1, " +
          (isAcross ? "2" : "3") + "] : " + wideX + " -> " + all + "\n" +
          "  %b = autopar.broadcast %wm dims [1, 2, 3] : " + wideM + " -> " + all + "\n" +
          "  %t = autopar.binary mul %a, %b : " + all + "\n" +
          "  %s = autopar.reduce sum %t dims [" + (isAcross ? "2" : "3") +
          "] {autopar.rows_of_batch} : " + all + " -> " + y + "\n" +
          "  %y = autopar.binary add %s, %s : " + y + "\n  return %y : " + y + "\n}\n",
      {x, m}, true);
  expectClose(results[0], expected, 1e-4,
              std::to_string(batch) + " matrices of " + type + ", " + std::to_string(rows) +
                  " rows, " + std::to_string(lines) + " x " + std::to_string(columns) +
                  (isAcross ? ", across" : ", along"));
}

} // namespace

TEST(RowsOfBatch, EachRowMeetsItsMatrixOnce) {
  const Sizes all[] = {{6, 1, 40, 64},  {3, 2, 12, 16},  {2, 4, 24, 128}, {2, 3, 36, 40},
                       {5, 8, 32, 64},  {1, 4, 300, 24}, {3, 8, 10, 20},  {2, 5, 7, 9},
                       {8, 3, 256, 16}, {4, 8, 256, 32}, {9, 5, 171, 8}};
  for (const std::string type : {"bf16", "f32"})
    for (const Sizes &sizes : all)
      for (bool isAcross : {false, true})
        check(type, sizes, isAcross);
}
