// SPDX-License-Identifier: Apache-2.0
// Groups: how many kernels a program becomes, and that it computes the same as one kernel per
// operation.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

using namespace autopar::test;

namespace {

void expectSame(const std::string &text, const std::vector<Tensor> &inputs,
                const std::string &kernels, double tolerance = 2e-5) {
  EXPECT_EQ(countKernels(text), kernels) << text;
  auto fused = runProgram(text, inputs, true), plain = runProgram(text, inputs, false);
  ASSERT_EQ(fused.size(), plain.size());
  for (size_t i = 0; i < fused.size(); ++i)
    expectClose(fused[i], plain[i].data, tolerance, "result " + std::to_string(i));
}

TEST(Fusion, ScaledMaskedSoftmax) {
  expectSame(R"(
    func.func @f(%s: tensor<2x3x16x40xf32>, %m: tensor<16x40xi1>) -> tensor<2x3x16x40xf32> {
      %c = autopar.constant dense<0.125> : tensor<f32>
      %b = autopar.broadcast %c dims [] : tensor<f32> -> tensor<2x3x16x40xf32>
      %0 = autopar.binary mul %s, %b : tensor<2x3x16x40xf32>
      %mb = autopar.broadcast %m dims [2, 3] : tensor<16x40xi1> -> tensor<2x3x16x40xi1>
      %n = autopar.constant dense<-1.0e+09> : tensor<2x3x16x40xf32>
      %1 = autopar.select %mb, %0, %n : (tensor<2x3x16x40xi1>, tensor<2x3x16x40xf32>, tensor<2x3x16x40xf32>) -> tensor<2x3x16x40xf32>
      %2 = autopar.softmax %1 dim 3 : tensor<2x3x16x40xf32>
      return %2 : tensor<2x3x16x40xf32>
    })",
             {makeTensor("f32", {2, 3, 16, 40}, -9, 9), makeTensor("i1", {16, 40}, 0, 2)}, "1+0");
}

TEST(Fusion, CausalMaskFromPositions) {
  expectSame(R"(
    func.func @f(%s: tensor<4x16x16xf32>) -> tensor<4x16x16xf32> {
      %i = autopar.iota dim 0 : tensor<16x16xi64>
      %j = autopar.iota dim 1 : tensor<16x16xi64>
      %ge = autopar.compare ge %i, %j : (tensor<16x16xi64>, tensor<16x16xi64>) -> tensor<16x16xi1>
      %mb = autopar.broadcast %ge dims [1, 2] : tensor<16x16xi1> -> tensor<4x16x16xi1>
      %n = autopar.constant dense<-1.0e+09> : tensor<4x16x16xf32>
      %1 = autopar.select %mb, %s, %n : (tensor<4x16x16xi1>, tensor<4x16x16xf32>, tensor<4x16x16xf32>) -> tensor<4x16x16xf32>
      %2 = autopar.softmax %1 dim 2 : tensor<4x16x16xf32>
      return %2 : tensor<4x16x16xf32>
    })",
             {makeTensor("f32", {4, 16, 16}, -9, 9)}, "1+0");
}

/// A norm in bf16 whose result leaves the function in f32, read by another kernel as it is.
TEST(Fusion, WidenedForTheCaller) {
  expectSame(R"(
    func.func @f(%x: tensor<70x48xbf16>, %s: tensor<48xbf16>) -> (tensor<70x48xf32>, tensor<48x70xbf16>) {
      %n = autopar.normalize %x dims [1] epsilon 1.0e-05 : tensor<70x48xbf16>
      %b = autopar.broadcast %s dims [1] : tensor<48xbf16> -> tensor<70x48xbf16>
      %y = autopar.binary mul %n, %b : tensor<70x48xbf16>
      %c = autopar.cast %y : tensor<70x48xbf16> -> tensor<70x48xf32>
      %t = autopar.transpose %y permutation [1, 0] : tensor<70x48xbf16> -> tensor<48x70xbf16>
      return %c, %t : tensor<70x48xf32>, tensor<48x70xbf16>
    })",
             {makeTensor("bf16", {70, 48}, -3, 3), makeTensor("bf16", {48}, -1, 1, 2)}, "2+0",
             2e-2);
}

/// The second kernel reads what the normalized rows are made of, and all it sums up at once.
TEST(Fusion, GradientsOfALayerNorm) {
  expectSame(R"(
    func.func @f(%x: tensor<70x48xf32>, %g: tensor<70x48xf32>) -> (tensor<70x48xf32>, tensor<48xf32>, tensor<48xf32>) {
      %n = autopar.constant dense<0.0208333333> : tensor<70xf32>
      %e = autopar.constant dense<1.0e-05> : tensor<70xf32>
      %s = autopar.reduce sum %x dims [1] : tensor<70x48xf32> -> tensor<70xf32>
      %m = autopar.binary mul %s, %n : tensor<70xf32>
      %mb = autopar.broadcast %m dims [0] : tensor<70xf32> -> tensor<70x48xf32>
      %c = autopar.binary sub %x, %mb : tensor<70x48xf32>
      %q = autopar.binary mul %c, %c : tensor<70x48xf32>
      %qs = autopar.reduce sum %q dims [1] : tensor<70x48xf32> -> tensor<70xf32>
      %v = autopar.binary mul %qs, %n : tensor<70xf32>
      %ve = autopar.binary add %v, %e : tensor<70xf32>
      %r = autopar.unary rsqrt %ve : tensor<70xf32>
      %rb = autopar.broadcast %r dims [0] : tensor<70xf32> -> tensor<70x48xf32>
      %y = autopar.binary mul %c, %rb : tensor<70x48xf32>
      %gy = autopar.binary mul %g, %y : tensor<70x48xf32>
      %p = autopar.reduce sum %gy dims [1] : tensor<70x48xf32> -> tensor<70xf32>
      %pb = autopar.broadcast %p dims [0] : tensor<70xf32> -> tensor<70x48xf32>
      %yp = autopar.binary mul %y, %pb : tensor<70x48xf32>
      %d = autopar.binary sub %g, %yp : tensor<70x48xf32>
      %scale = autopar.reduce sum %gy dims [0] : tensor<70x48xf32> -> tensor<48xf32>
      %bias = autopar.reduce sum %g dims [0] : tensor<70x48xf32> -> tensor<48xf32>
      return %d, %scale, %bias : tensor<70x48xf32>, tensor<48xf32>, tensor<48xf32>
    })",
             {makeTensor("f32", {70, 48}, -3, 3), makeTensor("f32", {70, 48}, -1, 1)}, "2+0", 2e-4);
}

TEST(Fusion, LayerNormOfResidual) {
  expectSame(R"(
    func.func @f(%x: tensor<4x8x48xf32>, %r: tensor<4x8x48xf32>, %g: tensor<48xf32>, %b: tensor<48xf32>)
        -> (tensor<4x8x48xf32>, tensor<4x8x48xf32>) {
      %h = autopar.binary add %x, %r : tensor<4x8x48xf32>
      %n = autopar.normalize %h dims [2] epsilon 1.0e-05 : tensor<4x8x48xf32>
      %gb = autopar.broadcast %g dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
      %bb = autopar.broadcast %b dims [2] : tensor<48xf32> -> tensor<4x8x48xf32>
      %0 = autopar.binary mul %n, %gb : tensor<4x8x48xf32>
      %1 = autopar.binary add %0, %bb : tensor<4x8x48xf32>
      return %1, %h : tensor<4x8x48xf32>, tensor<4x8x48xf32>
    })",
             {makeTensor("f32", {4, 8, 48}), makeTensor("f32", {4, 8, 48}, -2, 2, 2),
              makeTensor("f32", {48}, 0, 2, 3), makeTensor("f32", {48}, -1, 1, 4)},
             "1+0");
}

/// Layer norm as exporters write it: two means over rows, kept dimensions, division.
TEST(Fusion, DecomposedLayerNorm) {
  expectSame(R"(
    func.func @f(%x: tensor<6x50xf32>) -> (tensor<6x50xf32>, tensor<6x1xf32>) {
      %s = autopar.reduce sum %x dims [1] : tensor<6x50xf32> -> tensor<6xf32>
      %n = autopar.constant dense<0.02> : tensor<6xf32>
      %m = autopar.binary mul %s, %n : tensor<6xf32>
      %mk = autopar.reshape %m : tensor<6xf32> -> tensor<6x1xf32>
      %mb = autopar.broadcast %mk dims [0, 1] : tensor<6x1xf32> -> tensor<6x50xf32>
      %d = autopar.binary sub %x, %mb : tensor<6x50xf32>
      %q = autopar.binary mul %d, %d : tensor<6x50xf32>
      %t = autopar.reduce sum %q dims [1] : tensor<6x50xf32> -> tensor<6xf32>
      %v = autopar.binary mul %t, %n : tensor<6xf32>
      %e = autopar.constant dense<1.0e-5> : tensor<6xf32>
      %w = autopar.binary add %v, %e : tensor<6xf32>
      %r = autopar.unary sqrt %w : tensor<6xf32>
      %rk = autopar.reshape %r : tensor<6xf32> -> tensor<6x1xf32>
      %rb = autopar.broadcast %rk dims [0, 1] : tensor<6x1xf32> -> tensor<6x50xf32>
      %o = autopar.binary div %d, %rb : tensor<6x50xf32>
      return %o, %mk : tensor<6x50xf32>, tensor<6x1xf32>
    })",
             {makeTensor("f32", {6, 50})}, "1+0");
}

TEST(Fusion, BiasGradientDoesNotRepeatTheActivationGradient) {
  expectSame(R"(
    func.func @f(%x: tensor<32x64xf32>, %g: tensor<32x64xf32>) -> (tensor<32x64xf32>, tensor<64xf32>) {
      %t = autopar.unary tanh %x : tensor<32x64xf32>
      %q = autopar.binary mul %t, %t : tensor<32x64xf32>
      %d = autopar.binary mul %q, %g : tensor<32x64xf32>
      %b = autopar.reduce sum %d dims [0] : tensor<32x64xf32> -> tensor<64xf32>
      return %d, %b : tensor<32x64xf32>, tensor<64xf32>
    })",
             {makeTensor("f32", {32, 64}), makeTensor("f32", {32, 64}, -1, 1, 2)}, "2+0");
}

TEST(Fusion, ProductsTakeBiasResidualAndActivation) {
  expectSame(R"(
    func.func @f(%x: tensor<4x8x16xf32>, %w: tensor<16x24xf32>, %b: tensor<24xf32>, %r: tensor<4x8x24xf32>,
                 %v: tensor<24x16xf32>) -> (tensor<4x8x24xf32>, tensor<4x8x16xf32>) {
      %f = autopar.reshape %x : tensor<4x8x16xf32> -> tensor<32x16xf32>
      %0 = autopar.dot_general %f, %w contract [1] x [0] : (tensor<32x16xf32>, tensor<16x24xf32>) -> tensor<32x24xf32>
      %bb = autopar.broadcast %b dims [1] : tensor<24xf32> -> tensor<32x24xf32>
      %1 = autopar.binary add %0, %bb : tensor<32x24xf32>
      %2 = autopar.reshape %1 : tensor<32x24xf32> -> tensor<4x8x24xf32>
      %3 = autopar.binary add %2, %r : tensor<4x8x24xf32>
      %4 = autopar.dot_general %3, %v contract [2] x [0] : (tensor<4x8x24xf32>, tensor<24x16xf32>) -> tensor<4x8x16xf32>
      %5 = autopar.unary gelu %4 : tensor<4x8x16xf32>
      return %3, %5 : tensor<4x8x24xf32>, tensor<4x8x16xf32>
    })",
             {makeTensor("f32", {4, 8, 16}), makeTensor("f32", {16, 24}, -1, 1, 2),
              makeTensor("f32", {24}, -1, 1, 3), makeTensor("f32", {4, 8, 24}, -1, 1, 4),
              makeTensor("f32", {24, 16}, -1, 1, 5)},
             "2+0");
}

TEST(Fusion, NoCycleThroughAProduct) {
  // neg and add share a shape, but the product between them needs neg and feeds add.
  expectSame(R"(
    func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
      %a = autopar.unary exp %x : tensor<8x8xf32>
      %p = autopar.dot_general %a, %a contract [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
      %q = autopar.unary tanh %p : tensor<8x8xf32>
      %r = autopar.binary mul %q, %a : tensor<8x8xf32>
      return %r : tensor<8x8xf32>
    })",
             {makeTensor("f32", {8, 8})}, "3+0");
}

TEST(Fusion, ConcatOfRotatedHalves) {
  expectSame(R"(
    func.func @f(%x: tensor<2x4x16xf32>, %c: tensor<4x16xf32>, %s: tensor<4x16xf32>) -> tensor<2x4x16xf32> {
      %l = autopar.slice %x starts [0, 0, 0] steps [1, 1, 1] : tensor<2x4x16xf32> -> tensor<2x4x8xf32>
      %h = autopar.slice %x starts [0, 0, 8] steps [1, 1, 1] : tensor<2x4x16xf32> -> tensor<2x4x8xf32>
      %n = autopar.unary neg %h : tensor<2x4x8xf32>
      %r = autopar.concat %n, %l dim 2 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x16xf32>
      %cb = autopar.broadcast %c dims [1, 2] : tensor<4x16xf32> -> tensor<2x4x16xf32>
      %sb = autopar.broadcast %s dims [1, 2] : tensor<4x16xf32> -> tensor<2x4x16xf32>
      %a = autopar.binary mul %x, %cb : tensor<2x4x16xf32>
      %b = autopar.binary mul %r, %sb : tensor<2x4x16xf32>
      %y = autopar.binary add %a, %b : tensor<2x4x16xf32>
      return %y : tensor<2x4x16xf32>
    })",
             {makeTensor("f32", {2, 4, 16}), makeTensor("f32", {4, 16}, -1, 1, 2),
              makeTensor("f32", {4, 16}, -1, 1, 3)},
             "1+0");
}

TEST(Fusion, PoolThenScale) {
  expectSame(R"(
    func.func @f(%x: tensor<1x4x12x12xf32>) -> tensor<1x4x6x6xf32> {
      %r = autopar.unary relu %x : tensor<1x4x12x12xf32>
      %p = autopar.pool sum %r {window = array<i64: 1, 1, 2, 2>, strides = array<i64: 1, 1, 2, 2>, padBegin = array<i64: 0, 0, 0, 0>, padEnd = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1, 1, 1>} : tensor<1x4x12x12xf32> -> tensor<1x4x6x6xf32>
      %c = autopar.constant dense<0.25> : tensor<1x4x6x6xf32>
      %y = autopar.binary mul %p, %c : tensor<1x4x6x6xf32>
      return %y : tensor<1x4x6x6xf32>
    })",
             {makeTensor("f32", {1, 4, 12, 12})}, "1+0");
}

TEST(Fusion, BroadcastForALibraryCallIsMaterialized) {
  expectSame(R"(
    func.func @f(%x: tensor<2x8x16xf32>, %k: tensor<2x16xf32>) -> tensor<2x8x4xf32> {
      %b = autopar.broadcast %k dims [0, 1] : tensor<2x16xf32> -> tensor<2x16x4xf32>
      %y = autopar.dot_general %x, %b batch [0] x [0] contract [2] x [1] : (tensor<2x8x16xf32>, tensor<2x16x4xf32>) -> tensor<2x8x4xf32>
      return %y : tensor<2x8x4xf32>
    })",
             {makeTensor("f32", {2, 8, 16}), makeTensor("f32", {2, 16}, -1, 1, 2)}, "2+0");
}

} // namespace
