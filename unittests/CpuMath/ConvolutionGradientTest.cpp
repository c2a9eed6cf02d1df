// SPDX-License-Identifier: Apache-2.0
// Gradients of convolutions by the library against their definition, in every layout.
#include "LibraryCallData.h"

#include "autopar/Artifact/Layout.h"
#include "autopar/CpuMath/PackedSize.h"

#include <functional>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::cpumath;

namespace {

/// Small whole numbers, so that sums are exact in any order.
std::vector<float> wholeNumbers(int64_t count, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float((i * 7 + seed * 5 + i / 11) % 9 - 4));
  return values;
}

/// One convolution of images, x to y, and what is known of its gradients.
struct Sample {
  std::vector<int64_t> x, w, y, strides, begin, end, dilations;
  int64_t groups;

  Sample(int64_t channels, int64_t filters, int64_t side, int64_t stride, int64_t pad,
         int64_t dilation, int64_t groups)
      : groups(groups) {
    x = {2, channels, 7, 6};
    w = {filters, channels / groups, side, side};
    strides = {stride, stride};
    begin = {pad, 0};
    end = {0, pad};
    dilations = {dilation, dilation};
    y = {2, filters};
    for (size_t i = 0; i < 2; ++i)
      y.push_back((x[i + 2] + pad - (side - 1) * dilation - 1) / stride + 1);
  }

  /// Calls back for every product: places in x, w and y.
  void eachProduct(const std::function<void(int64_t, int64_t, int64_t)> &visit) const {
    int64_t perGroup = w[1], side = w[2];
    for (int64_t n = 0; n < 2; ++n)
      for (int64_t o = 0; o < w[0]; ++o)
        for (int64_t i = 0; i < y[2] * y[3]; ++i)
          for (int64_t c = 0; c < perGroup; ++c)
            for (int64_t p = 0; p < side * side; ++p) {
              int64_t row = i / y[3] * strides[0] + p / side * dilations[0] - begin[0],
                      column = i % y[3] * strides[1] + p % side * dilations[1] - begin[1];
              if (row < 0 || row >= x[2] || column < 0 || column >= x[3])
                continue;
              int64_t channel = o / (w[0] / groups) * perGroup + c;
              visit(((n * x[1] + channel) * x[2] + row) * x[3] + column,
                    (o * perGroup + c) * side * side + p, (n * y[1] + o) * y[2] * y[3] + i);
            }
  }

  ConvolutionGeometry geometry(ConvolutionKind kind, Layout xLayout, Layout yLayout) const {
    ConvolutionGeometry g;
    g.kind = kind;
    bool ofInput = kind == ConvolutionKind::InputGradient;
    g.x = ofInput ? y : x;
    g.w = ofInput ? w : y;
    g.y = ofInput ? x : w;
    g.xLayout = ofInput ? yLayout : xLayout;
    g.yLayout = ofInput ? xLayout : yLayout;
    g.strides = strides;
    g.padsBegin = begin;
    g.padsEnd = end;
    g.dilations = dilations;
    g.groups = groups;
    return g;
  }
};

std::vector<float> reordered(const std::vector<float> &values, const std::vector<int64_t> &dims,
                             Layout from, Layout to) {
  std::vector<float> moved(size_t(*layoutBytes(dims, DataType::F32, to) / 4));
  Reorder reorder;
  reorder.dims = dims;
  reorder.dtype = DataType::F32;
  reorder.from = from;
  reorder.to = to;
  auto call = ReorderCall::create(reorder);
  EXPECT_TRUE(call.isOk()) << call.status().message();
  std::vector<float> source = values;
  EXPECT_TRUE(call->run(source.data(), moved.data()).isOk());
  return moved;
}

void checkInputGradient(const Sample &s, Layout xLayout, Layout yLayout, bool packed) {
  auto g = s.geometry(ConvolutionKind::InputGradient, xLayout, yLayout);
  g.packedW = packed;
  auto call = ConvolutionCall::create(g);
  ASSERT_TRUE(call.isOk()) << call.status().message();
  auto dy = wholeNumbers(countOf(s.y), 1), w = wholeNumbers(countOf(s.w), 2);
  std::vector<float> expected(size_t(countOf(s.x)), 0.0f);
  s.eachProduct([&](int64_t x, int64_t filter, int64_t y) {
    expected[size_t(x)] += dy[size_t(y)] * w[size_t(filter)];
  });
  auto packedW = room(call->packedBytes()), scratch = room(call->scratchBytes());
  if (packed) {
    ASSERT_TRUE(call->pack(w.data(), packedW.get()).isOk());
  }
  auto given = reordered(dy, s.y, Layout::Plain, yLayout);
  std::vector<float> dx(size_t(*layoutBytes(s.x, DataType::F32, xLayout) / 4), 42.0f);
  Status ran = call->run(given.data(), packed ? packedW.get() : w.data(), dx.data(), nullptr,
                         nullptr, scratch.get());
  ASSERT_TRUE(ran.isOk()) << ran.message();
  EXPECT_EQ(reordered(dx, s.x, xLayout, Layout::Plain), expected);
}

void checkFilterGradient(const Sample &s, Layout xLayout, Layout yLayout) {
  auto call =
      ConvolutionCall::create(s.geometry(ConvolutionKind::FilterGradient, xLayout, yLayout));
  ASSERT_TRUE(call.isOk()) << call.status().message();
  auto x = wholeNumbers(countOf(s.x), 1), dy = wholeNumbers(countOf(s.y), 2);
  std::vector<float> expected(size_t(countOf(s.w)), 0.0f), dw(expected.size(), 42.0f);
  s.eachProduct([&](int64_t in, int64_t filter, int64_t out) {
    expected[size_t(filter)] += x[size_t(in)] * dy[size_t(out)];
  });
  auto scratch = room(call->scratchBytes());
  auto given = reordered(x, s.x, Layout::Plain, xLayout),
       other = reordered(dy, s.y, Layout::Plain, yLayout);
  Status ran = call->run(given.data(), other.data(), dw.data(), nullptr, nullptr, scratch.get());
  ASSERT_TRUE(ran.isOk()) << ran.message();
  EXPECT_EQ(dw, expected);
}

TEST(ConvolutionGradient, AgainstItsDefinition) {
  // Channels, filters, side, stride, pad, dilation, groups.
  const Sample samples[] = {
      {16, 32, 3, 1, 1, 1, 1}, {32, 16, 3, 2, 1, 1, 1},  {16, 16, 1, 2, 0, 1, 1},
      {32, 32, 3, 2, 1, 1, 2}, {32, 32, 3, 1, 1, 1, 32}, {16, 16, 2, 2, 0, 1, 1},
      {16, 16, 3, 1, 2, 2, 1}, {16, 16, 1, 3, 2, 1, 1},
  };
  for (const Sample &s : samples)
    for (Layout layout : {Layout::Plain, Layout::Blocked8, Layout::Blocked16}) {
      SCOPED_TRACE(testing::Message() << "sample " << &s - samples << " layout " << int(layout));
      for (bool packed : {false, true})
        checkInputGradient(s, layout, layout, packed);
      checkFilterGradient(s, layout, layout);
    }
  // Channels that fill no blocks lie behind all else.
  const Sample odd[] = {{24, 24, 3, 1, 1, 1, 24}, {24, 24, 5, 2, 2, 1, 24}, {6, 40, 3, 2, 1, 1, 1},
                        {24, 40, 1, 1, 0, 1, 1},  {20, 12, 3, 1, 1, 2, 4},  {5, 1, 3, 1, 1, 1, 1}};
  for (const Sample &s : odd) {
    SCOPED_TRACE(testing::Message() << "odd sample " << &s - odd);
    for (bool packed : {false, true})
      checkInputGradient(s, Layout::ChannelsLast, Layout::ChannelsLast, packed);
    checkFilterGradient(s, Layout::ChannelsLast, Layout::ChannelsLast);
  }
  // An image of three channels lies plain before blocks.
  Sample image(3, 16, 3, 2, 1, 1, 1);
  checkFilterGradient(image, Layout::Plain, Layout::Blocked16);
  checkInputGradient(Sample(6, 4, 3, 2, 1, 1, 2), Layout::Plain, Layout::Plain, false);
  checkFilterGradient(Sample(6, 4, 3, 2, 1, 1, 2), Layout::Plain, Layout::Plain);
}

TEST(ConvolutionGradient, WhereTheLibraryIsSlow) {
  Sample strided(16, 32, 3, 2, 1, 1, 1), dilated(16, 32, 3, 2, 1, 2, 1);
  auto isFastOn = [](const Sample &s, Layout layout) {
    auto g = s.geometry(ConvolutionKind::InputGradient, layout, layout);
    g.packedW = layout != Layout::Plain;
    auto fast = isFast(g);
    EXPECT_TRUE(fast.isOk()) << fast.status().message();
    return fast.isOk() && *fast;
  };
  Layout blocked = __builtin_cpu_supports("avx512f") ? Layout::Blocked16 : Layout::Blocked8;
  EXPECT_TRUE(isFastOn(strided, Layout::Plain));
  EXPECT_TRUE(isFastOn(strided, blocked));
  EXPECT_TRUE(isFastOn(dilated, Layout::Plain));
  EXPECT_FALSE(isFastOn(dilated, blocked));
}

} // namespace
