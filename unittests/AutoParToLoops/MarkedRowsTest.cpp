// SPDX-License-Identifier: Apache-2.0
// Losses: rows of which one element, the label's, stands where data says, against plain loops.
#include "TensorProgram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace autopar::test;

namespace {

const double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();

std::string replaced(std::string text, const std::string &what, const std::string &by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// The cross-entropy of rows of which `classes` elements count, and its gradient, as training
/// writes them: the rest of a row is padding.
std::string lossOf(int64_t rows, int64_t length, int64_t classes, const std::string &type) {
  std::string text = R"(
    func.func @f(%x: tensor<RxCxT>, %l: tensor<Rxi64>) -> (tensor<Rxf32>, tensor<RxCxT>) {
      %label = autopar.cast %l : tensor<Rxi64> -> tensor<Rxi32>
      %i = autopar.iota dim 1 : tensor<RxCxi32>
      %lb = autopar.broadcast %label dims [0] : tensor<Rxi32> -> tensor<RxCxi32>
      %hot = autopar.compare eq %i, %lb : (tensor<RxCxi32>, tensor<RxCxi32>) -> tensor<RxCxi1>
      %n = autopar.constant dense<N> : tensor<i32>
      %nb = autopar.broadcast %n dims [] : tensor<i32> -> tensor<RxCxi32>
      %in = autopar.compare lt %i, %nb : (tensor<RxCxi32>, tensor<RxCxi32>) -> tensor<RxCxi1>
      %w = autopar.cast %x : tensor<RxCxT> -> tensor<RxCxf32>
      %low = autopar.constant dense<0xFF800000> : tensor<f32>
      %lowb = autopar.broadcast %low dims [] : tensor<f32> -> tensor<RxCxf32>
      %zero = autopar.constant dense<0.0> : tensor<RxCxf32>
      %masked = autopar.select %in, %w, %lowb : (tensor<RxCxi1>, tensor<RxCxf32>, tensor<RxCxf32>) -> tensor<RxCxf32>
      %max = autopar.reduce max %masked dims [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %maxb = autopar.broadcast %max dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %shifted = autopar.binary sub %w, %maxb : tensor<RxCxf32>
      %e = autopar.unary exp %shifted : tensor<RxCxf32>
      %em = autopar.select %in, %e, %zero : (tensor<RxCxi1>, tensor<RxCxf32>, tensor<RxCxf32>) -> tensor<RxCxf32>
      %sum = autopar.reduce sum %em dims [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %log = autopar.unary log %sum : tensor<Rxf32>
      %lse = autopar.binary add %max, %log : tensor<Rxf32>
      %own = autopar.select %hot, %w, %zero : (tensor<RxCxi1>, tensor<RxCxf32>, tensor<RxCxf32>) -> tensor<RxCxf32>
      %ownm = autopar.select %in, %own, %zero : (tensor<RxCxi1>, tensor<RxCxf32>, tensor<RxCxf32>) -> tensor<RxCxf32>
      %picked = autopar.reduce sum %ownm dims [1] : tensor<RxCxf32> -> tensor<Rxf32>
      %loss = autopar.binary sub %lse, %picked : tensor<Rxf32>
      %lseb = autopar.broadcast %lse dims [0] : tensor<Rxf32> -> tensor<RxCxf32>
      %d = autopar.binary sub %w, %lseb : tensor<RxCxf32>
      %p = autopar.unary exp %d : tensor<RxCxf32>
      %label2 = autopar.cast %l : tensor<Rxi64> -> tensor<Rxi32>
      %i2 = autopar.iota dim 1 : tensor<RxCxi32>
      %lb2 = autopar.broadcast %label2 dims [0] : tensor<Rxi32> -> tensor<RxCxi32>
      %hot2 = autopar.compare eq %i2, %lb2 : (tensor<RxCxi32>, tensor<RxCxi32>) -> tensor<RxCxi1>
      %one = autopar.constant dense<1.0> : tensor<RxCxf32>
      %t = autopar.select %hot2, %one, %zero : (tensor<RxCxi1>, tensor<RxCxf32>, tensor<RxCxf32>) -> tensor<RxCxf32>
      %g = autopar.binary sub %p, %t : tensor<RxCxf32>
      %gt = autopar.cast %g : tensor<RxCxf32> -> tensor<RxCxT>
      %zt = autopar.constant dense<0.0> : tensor<RxCxT>
      %gm = autopar.select %in, %gt, %zt : (tensor<RxCxi1>, tensor<RxCxT>, tensor<RxCxT>) -> tensor<RxCxT>
      return %loss, %gm : tensor<Rxf32>, tensor<RxCxT>
    })";
  text = replaced(replaced(text, "RxCx", std::to_string(rows) + "x" + std::to_string(length) + "x"),
                  "<Rx", "<" + std::to_string(rows) + "x");
  return replaced(replaced(text, "dense<N>", "dense<" + std::to_string(classes) + ">"), "xT>",
                  "x" + type + ">");
}

struct Loss {
  std::vector<double> loss, gradient;
};

Loss expected(const Tensor &x, const Tensor &labels, int64_t classes) {
  int64_t rows = x.shape[0], length = x.shape[1];
  Loss result;
  result.gradient.assign(rows * length, 0);
  for (int64_t r = 0; r < rows; ++r) {
    const double *row = &x.data[r * length];
    double max = -inf, sum = 0;
    for (int64_t c = 0; c < classes; ++c)
      max = std::isnan(max) || std::isnan(row[c]) ? nan : std::max(max, row[c]);
    for (int64_t c = 0; c < classes; ++c)
      sum += std::exp(row[c] - max);
    double lse = max + std::log(sum);
    auto label = static_cast<int64_t>(labels.data[r]);
    result.loss.push_back(lse - (label >= 0 && label < classes ? row[label] : 0));
    for (int64_t c = 0; c < classes; ++c)
      result.gradient[r * length + c] = std::exp(row[c] - lse) - (c == label);
  }
  return result;
}

void expectLoss(int64_t rows, int64_t length, int64_t classes, const std::string &type,
                double tolerance, bool hasOdds) {
  Tensor x = makeTensor(type, {rows, length}, -9, 9);
  if (type == "bf16") // values that it holds
    for (double &value : x.data)
      value = std::round(value * 4) / 4;
  Tensor labels{"i64", {rows}, {}};
  for (int64_t r = 0; r < rows; ++r) // the first, the last, one of padding, none, others
    labels.data.push_back(r % 7 == 0   ? 0
                          : r % 7 == 1 ? classes - 1
                          : r % 7 == 2 ? length - 1
                          : r % 7 == 3 ? -100
                          : r % 7 == 4 ? length + 5
                                       : (r * 37) % classes);
  if (hasOdds) {
    x.data[0 * length + 3] = nan;
    x.data[1 * length + classes - 1] = -inf;
    x.data[5 * length + 2] = inf;
    x.data[6 * length + 1] = -3e38;
  }
  Loss want = expected(x, labels, classes);
  auto results = runProgram(lossOf(rows, length, classes, type), {x, labels}, true);
  ASSERT_EQ(results.size(), 2u);
  expectClose(results[0], want.loss, tolerance, "loss");
  expectClose(results[1], want.gradient, tolerance, "gradient");
}

TEST(MarkedRows, ALabelOfEveryRow) {
  expectLoss(600, 768, 765, "f32", 1e-5, false);   // a warp per row
  expectLoss(14, 3000, 3000, "f32", 1e-5, false);  // a block
  expectLoss(7, 20001, 20000, "f32", 1e-5, false); // a block whose row waits in shared memory
  expectLoss(600, 24, 21, "f32", 1e-5, false);
  expectLoss(20, 8, 8, "f32", 1e-5, false); // a thread
}

TEST(MarkedRows, WhatIsNoNumberStaysWithinItsRow) {
  expectLoss(7, 1000, 1000, "f32", 1e-5, true);
  expectLoss(600, 512, 509, "f32", 1e-5, true);
  expectLoss(7, 9000, 8990, "f32", 1e-5, true);
}

TEST(MarkedRows, Narrow) {
  expectLoss(600, 1000, 1000, "bf16", 1e-2, false);
  expectLoss(7, 20000, 19990, "bf16", 1e-2, true);
}

} // namespace
