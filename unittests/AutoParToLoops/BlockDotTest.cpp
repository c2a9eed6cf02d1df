// SPDX-License-Identifier: Apache-2.0
// Rows of bytes times weights of few bits (autopar.block_dot) against plain loops: numbers of 2, 4
// and 8 bits, blocks of several lengths, teams of rows of one size and two, zero points of all
// kinds, the largest sums, by the instructions of each kind of processor.
#include "TensorProgram.h"

#include "autopar/Conversion/KernelsToCpu.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace autopar::test;

namespace {

/// What zero points are: one per block and column, several of these in a byte, one for all.
enum class Zeros { None, Each, Packed, One };

struct Shape {
  int64_t rows, columns, blocks, bytes; ///< bytes of weights in a block
  int64_t parts;                        ///< numbers in one
  Zeros zeros = Zeros::None;
  std::string zeroType = "ui8";
  std::string dots; ///< who sums

  int64_t bits() const { return 8 / parts; }
  int64_t zeroRows() const {
    return zeros == Zeros::Packed ? (blocks + parts - 1) / parts : blocks;
  }
  /// Where the number of a row and column is among those of `rows` that are given in lanes.
  static int64_t inLanes(int64_t rows, int64_t row, int64_t column) {
    return (column / 16 * rows + row) * 16 + column % 16;
  }
  int64_t highest() const { return (int64_t{1} << bits()) - 1; }
};

struct Operands {
  Tensor bytes, rowScales, weights, scales, zeros, sums;

  Operands(const Shape &s, Tensor bytes, Tensor weights)
      : bytes(bytes), rowScales(makeTensor("f32", {s.rows, s.blocks}, 0.5, 1, 3)), weights(weights),
        scales(makeTensor("f32", {s.columns / 16, s.blocks, 16}, 0.5, 1, 4)) {
    if (s.zeros == Zeros::None)
      return;
    std::vector<int64_t> shape{s.columns / 16, s.zeroRows(), 16};
    if (s.zeros == Zeros::One)
      shape.clear();
    double end = s.zeros == Zeros::Packed ? 256 : static_cast<double>(s.highest() + 1);
    zeros = makeTensor(s.zeroType, shape, 0, end, 5);
    for (double &zero : zeros.data)
      zero = std::floor(zero);
    sums = Tensor{"f32", {s.rows, s.blocks}, {}};
    sums.data.assign(sums.size(), 0);
    for (int64_t row = 0; row < s.rows; ++row)
      for (int64_t part = 0; part < s.parts; ++part)
        for (int64_t at = 0; at < s.blocks * s.bytes; ++at)
          sums.data[row * s.blocks + at / s.bytes] +=
              bytes.data[(row * s.parts + part) * s.blocks * s.bytes + at];
  }

  int64_t zeroOf(const Shape &s, int64_t block, int64_t column) const {
    if (s.zeros == Zeros::None)
      return 0;
    int64_t row = s.zeros == Zeros::Packed ? block / s.parts : block;
    auto number = static_cast<int64_t>(
        zeros.data[s.zeros == Zeros::One ? 0 : s.inLanes(s.zeroRows(), row, column)]);
    return s.zeros == Zeros::Packed ? number >> (block % s.parts * s.bits()) & s.highest() : number;
  }

  std::vector<Tensor> all() const {
    std::vector<Tensor> all{bytes, rowScales, weights, scales};
    if (!zeros.type.empty())
      all.insert(all.end(), {zeros, sums});
    return all;
  }
};

std::string programOf(const Shape &s, const Operands &operands) {
  std::string arguments, types, y = Tensor{"f32", {s.rows, s.columns}, {}}.mlirType();
  std::vector<Tensor> all = operands.all();
  for (size_t i = 0; i < all.size(); ++i) {
    arguments += (i ? ", %" : "%") + std::to_string(i) + ": " + all[i].mlirType();
    types += (i ? ", " : "") + all[i].mlirType();
  }
  return "func.func @f(" + arguments + ") -> " + y +
         " {\n  %y = autopar.block_dot %0 scales %1, %2 scales %3" +
         (all.size() > 4 ? " zeros %4 sums %5" : "") + " {autopar.byte_sum = \"" + s.dots +
         "\"} : (" + types + ") -> " + y + "\n  return %y : " + y + "\n}\n";
}

/// Divided by the length of the sum, as the result is before it is compared.
std::vector<double> expectedOf(const Shape &s, const Operands &o) {
  std::vector<double> y(s.rows * s.columns, 0);
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t column = 0; column < s.columns; ++column)
      for (int64_t block = 0; block < s.blocks; ++block) {
        int64_t zero = o.zeroOf(s, block, column), sum = 0,
                place = s.inLanes(s.blocks, block, column);
        for (int64_t byte = 0; byte < s.bytes; ++byte)
          for (int64_t part = 0; part < s.parts; ++part) {
            int64_t at = block * s.bytes + byte;
            auto packed = static_cast<int64_t>(o.weights.data[column * s.blocks * s.bytes + at]);
            sum += ((packed >> (part * 8 / s.parts) & s.highest()) - zero) *
                   static_cast<int64_t>(
                       o.bytes.data[(row * s.parts + part) * s.blocks * s.bytes + at]);
          }
        y[row * s.columns + column] += static_cast<double>(sum) * o.scales.data[place] *
                                       o.rowScales.data[row * s.blocks + block] /
                                       static_cast<double>(s.blocks * s.bytes * s.parts);
      }
  return y;
}

using BlockDot = ::testing::TestWithParam<std::tuple<std::string, Shape>>;

TEST_P(BlockDot, OfEveryShape) {
  auto [dots, s] = GetParam();
  s.dots = dots;
  if (dots == "vnni" && !__builtin_cpu_supports("avx512vnni")) {
    EXPECT_FALSE(autopar::multipliesBytes("native")) << "here no such product may be written";
    return;
  }
  std::vector<int64_t> lhs{s.rows, s.parts, s.blocks, s.bytes}, rhs{s.columns, s.blocks, s.bytes};
  auto check = [&, &s = s](const Tensor &bytes, const Tensor &weights, const std::string &what) {
    Operands operands(s, bytes, weights);
    Tensor scaled = runOnCpu(programOf(s, operands), operands.all(), false)[0];
    // Sums are exact: what is rounded are their products with scales.
    for (double &value : scaled.data)
      value /= static_cast<double>(s.blocks * s.bytes * s.parts);
    expectClose(scaled, expectedOf(s, operands), 1e-4, what);
  };
  check(makeTensor("i8", lhs, -128, 128, 1), makeTensor("ui8", rhs, 0, 256, 2), "any bytes");
  for (double sign : {-128., 127.}) {
    Tensor bytes{"i8", lhs, {}}, weights{"ui8", rhs, {}};
    bytes.data.assign(bytes.size(), sign);
    weights.data.assign(weights.size(), 255);
    check(bytes, weights, "the largest sums");
  }
}

// One team of rows, of equal size, of two sizes; an odd number of vectors of columns; several slabs
// of blocks, the last one shorter; blocks of one word, of several loops; one number of each kind.
INSTANTIATE_TEST_SUITE_P(
    All, BlockDot,
    ::testing::Combine(
        ::testing::Values("avx2", "vnni"),
        ::testing::Values(
            Shape{5, 64, 4, 16, 2, Zeros::Each}, Shape{12, 96, 2, 16, 2, Zeros::Each, "f32"},
            Shape{13, 32, 3, 16, 2, Zeros::One, "f32"}, Shape{29, 48, 5, 16, 2, Zeros::One},
            Shape{7, 64, 75, 16, 2, Zeros::Packed}, Shape{1, 16, 1, 16, 2, Zeros::Each},
            Shape{6, 64, 4, 32, 1}, Shape{25, 80, 70, 32, 1, Zeros::Each},
            Shape{8, 32, 4, 8, 4, Zeros::Packed}, Shape{3, 32, 132, 4, 4, Zeros::Packed},
            Shape{9, 32, 3, 128, 2, Zeros::Packed}, Shape{5, 32, 5, 256, 2, Zeros::Each},
            Shape{5, 16, 3, 512, 1, Zeros::Each, "f32"})));

} // namespace
