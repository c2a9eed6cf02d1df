// SPDX-License-Identifier: Apache-2.0
// Sums of products of bytes within rows (autopar.byte_sum) against plain loops: numbers of 2, 4 and
// 8 bits, runs and rows of several lengths, rows that share the weights, the largest sums, by the
// instructions of each kind of processor.
#include "TensorProgram.h"

#include "autopar/Conversion/KernelsToCpu.h"

#include <gtest/gtest.h>

using namespace autopar::test;

namespace {

std::string shaped(const std::string &type, const std::vector<int64_t> &shape) {
  return Tensor{type, shape, {}}.mlirType();
}

struct Shape {
  int64_t rows, columns, blocks, bytes; ///< bytes of a block
  int64_t parts;                        ///< numbers in one
  std::string dots;                     ///< who sums

  /// What weights of one number in a byte stay below.
  int64_t end() const { return dots == "avx2" && parts == 1 ? 16 : 256; }
};

/// The sum over blocks of a scale times the sum of i32, as autopar-round-in-blocks writes it.
std::string programOf(const Shape &s, const Tensor &x, const Tensor &w, const Tensor &scales) {
  std::string packed = shaped("ui8", {s.columns, s.blocks, s.bytes, s.parts}),
              apart = shaped("ui8", {s.columns, s.parts, s.blocks, s.bytes});
  std::vector<int64_t> dims{s.rows, s.columns, s.parts, s.blocks, s.bytes};
  std::string bytes = shaped("i8", dims), numbers = shaped("ui8", dims), all = shaped("i32", dims);
  std::string sums = "tensor<" + std::to_string(s.rows) + "x" + std::to_string(s.columns) + "x" +
                     std::to_string(s.blocks) + "x";
  std::string y = shaped("f32", {s.rows, s.columns}), shifts;
  for (int64_t part = 0; part < s.parts; ++part)
    shifts += (part ? ", " : "") + std::to_string(part * 8 / s.parts);
  std::string count = "tensor<" + std::to_string(s.parts) + "xui8>";
  return "func.func @f(%x: " + x.mlirType() + ", %w: " + w.mlirType() +
         ", %s: " + scales.mlirType() + ") -> " + y + " {\n" + "  %n = autopar.constant dense<[" +
         shifts + "]> : " + count + "\n" + "  %m = autopar.constant dense<" +
         std::to_string((1 << (8 / s.parts)) - 1) + "> : tensor<ui8>\n" +
         "  %a = autopar.broadcast %w dims [0, 1, 2] : " + w.mlirType() + " -> " + packed + "\n" +
         "  %b = autopar.broadcast %n dims [3] : " + count + " -> " + packed + "\n" +
         "  %c = autopar.binary shift_right %a, %b : " + packed + "\n" +
         "  %d = autopar.broadcast %m dims [] : tensor<ui8> -> " + packed + "\n" +
         "  %e = autopar.binary and %c, %d : " + packed + "\n" +
         "  %g = autopar.transpose %e permutation [0, 3, 1, 2] : " + packed + " -> " + apart +
         "\n" + "  %h = autopar.broadcast %g dims [1, 2, 3, 4] : " + apart + " -> " + numbers +
         "\n" + "  %i = autopar.cast %h : " + numbers + " -> " + all + "\n" +
         "  %j = autopar.broadcast %x dims [0, 2, 3, 4] : " + x.mlirType() + " -> " + bytes + "\n" +
         "  %k = autopar.cast %j : " + bytes + " -> " + all + "\n" +
         "  %l = autopar.binary mul %k, %i : " + all + "\n" +
         "  %o = autopar.reduce sum %l dims [2, 4] {autopar.byte_sum = \"" + s.dots +
         "\"} : " + all + " -> " + sums + "i32>\n" + "  %p = autopar.cast %o : " + sums +
         "i32> -> " + sums + "f32>\n" +
         "  %q = autopar.broadcast %s dims [1, 2] : " + scales.mlirType() + " -> " + sums +
         "f32>\n" + "  %r = autopar.binary mul %p, %q : " + sums + "f32>\n" +
         "  %y = autopar.reduce sum %r dims [2] {autopar.few_rows} : " + sums + "f32> -> " + y +
         "\n" + "  return %y : " + y + "\n}\n";
}

std::vector<double> expectedOf(const Shape &s, const Tensor &x, const Tensor &w,
                               const Tensor &scales) {
  std::vector<double> y(s.rows * s.columns, 0);
  int64_t mask = (int64_t{1} << (8 / s.parts)) - 1;
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t column = 0; column < s.columns; ++column)
      for (int64_t block = 0; block < s.blocks; ++block)
        for (int64_t byte = 0; byte < s.bytes; ++byte)
          for (int64_t part = 0; part < s.parts; ++part) {
            auto whole = static_cast<int64_t>(w.data[(column * s.blocks + block) * s.bytes + byte]);
            y[row * s.columns + column] +=
                x.data[((row * s.parts + part) * s.blocks + block) * s.bytes + byte] *
                static_cast<double>(whole >> (part * 8 / s.parts) & mask) *
                scales.data[column * s.blocks + block];
          }
  return y;
}

using ByteSum = ::testing::TestWithParam<std::tuple<std::string, Shape>>;

TEST_P(ByteSum, OfEveryShape) {
  auto [dots, s] = GetParam();
  s.dots = dots;
  if (dots == "vnni" && !__builtin_cpu_supports("avx512vnni")) {
    EXPECT_FALSE(autopar::multipliesBytes("native")) << "here no such sum may be written";
    return;
  }
  std::vector<int64_t> lhs{s.rows, s.parts, s.blocks, s.bytes}, rhs{s.columns, s.blocks, s.bytes};
  Tensor scales = makeTensor("f32", {s.columns, s.blocks}, 0.5, 1, 3);
  auto check = [&, &s = s](const Tensor &x, const Tensor &w, const std::string &what) {
    std::vector<double> expected = expectedOf(s, x, w, scales);
    auto results = runProgram(programOf(s, x, w, scales), {x, w, scales}, true);
    // Sums are exact: what is rounded are their products with scales.
    for (double &value : expected)
      value /= static_cast<double>(s.blocks * s.bytes);
    Tensor scaled = results[0];
    for (double &value : scaled.data)
      value /= static_cast<double>(s.blocks * s.bytes);
    expectClose(scaled, expected, 2e-6, what);
  };
  EXPECT_EQ(countKernels(programOf(s, {"i8", lhs, {}}, {"ui8", rhs, {}}, scales)), "1+0");
  check(makeTensor("i8", lhs, -128, 128, 1), makeTensor("ui8", rhs, 0, s.end(), 2), "any bytes");
  for (double sign : {-128., 127.}) {
    Tensor x{"i8", lhs, {}}, w{"ui8", rhs, {}};
    x.data.assign(x.size(), sign);
    w.data.assign(w.size(), s.end() - 1);
    check(x, w, "the largest sums");
  }
}

// Whole strips, a last strip that lies over the one before, fewer sums than a vector has, blocks of
// several vectors; and what is left to loops: rows too short for a vector, runs of no power of two.
INSTANTIATE_TEST_SUITE_P(
    All, ByteSum,
    ::testing::Combine(::testing::Values("avx2", "vnni"),
                       ::testing::Values(Shape{1, 70, 64, 16, 2}, Shape{4, 33, 64, 16, 2},
                                         Shape{2, 9, 28, 16, 2}, Shape{3, 9, 5, 32, 1},
                                         Shape{1, 40, 24, 32, 1}, Shape{2, 9, 16, 64, 2},
                                         Shape{1, 9, 2, 256, 1}, Shape{1, 9, 32, 4, 4},
                                         Shape{4, 9, 16, 8, 2}, Shape{2, 9, 3, 8, 2},
                                         Shape{2, 9, 20, 12, 2})));

} // namespace
