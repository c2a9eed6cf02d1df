// SPDX-License-Identifier: Apache-2.0
// Convolutions of the CPU device, and what moves their layouts, against naive loops.
#include "LibraryCallData.h"

#include "autopar/Artifact/Layout.h"
#include "autopar/Artifact/Verify.h"

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::cpumath;

namespace {

int64_t placeOf(Layout layout, const std::vector<int64_t> &dims, int64_t n, int64_t c, int64_t h,
                int64_t w) {
  int64_t C = dims[1], H = dims[2], W = dims[3];
  if (layout == Layout::Plain)
    return ((n * C + c) * H + h) * W + w;
  if (layout == Layout::ChannelsLast)
    return ((n * H + h) * W + w) * C + c;
  int64_t block = layout == Layout::Blocked8 ? 8 : 16, blocks = (C + block - 1) / block;
  return (((n * blocks + c / block) * H + h) * W + w) * block + c % block;
}

TEST(ConvolutionCall, AgainstLoops) {
  for (Layout layout : {Layout::Plain, Layout::ChannelsLast, Layout::Blocked8, Layout::Blocked16})
    for (int64_t groups : {1, 2})
      for (bool packed : {false, true}) {
        ConvolutionGeometry g;
        g.x = {2, 4, 6, 5};
        g.w = {6, 4 / groups, 3, 3};
        g.strides = {2, 1};
        g.padsBegin = {1, 1};
        g.padsEnd = {0, 1};
        g.dilations = {1, 1};
        g.y = {2, 6, 3, 5};
        g.groups = groups;
        g.xLayout = g.yLayout = layout;
        g.hasBias = g.hasResidual = true;
        g.epilogue = Epilogue::Relu;
        g.packedW = packed;
        auto call = ConvolutionCall::create(g);
        ASSERT_TRUE(call.isOk()) << call.status().message();
        auto x = numbers(2 * 4 * 6 * 5, 1), w = numbers(6 * 4 / groups * 9, 2),
             bias = numbers(6, 3), r = numbers(2 * 6 * 3 * 5, 4);
        size_t xRoom = size_t(*layoutBytes(g.x, DataType::F32, layout) / 4),
               yRoom = size_t(*layoutBytes(g.y, DataType::F32, layout) / 4);
        std::vector<float> xs(xRoom, 0.0f), ys(yRoom, 0.0f), rs(yRoom, 0.0f);
        auto each = [](const std::vector<int64_t> &dims, auto visit) {
          for (int64_t a = 0; a < dims[0]; ++a)
            for (int64_t b = 0; b < dims[1]; ++b)
              for (int64_t c = 0; c < dims[2]; ++c)
                for (int64_t d = 0; d < dims[3]; ++d)
                  visit(a, b, c, d);
        };
        each(g.x, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
          xs[size_t(placeOf(layout, g.x, a, b, c, d))] =
              x[size_t(placeOf(Layout::Plain, g.x, a, b, c, d))];
        });
        each(g.y, [&](int64_t a, int64_t b, int64_t c, int64_t d) {
          rs[size_t(placeOf(layout, g.y, a, b, c, d))] =
              r[size_t(placeOf(Layout::Plain, g.y, a, b, c, d))];
        });
        auto packedW = room(call->packedBytes()), scratch = room(call->scratchBytes());
        void *wData = w.data();
        if (packed) {
          ASSERT_TRUE(call->pack(w.data(), packedW.get()).isOk());
          wData = packedW.get();
        }
        Status ran = call->run(xs.data(), wData, ys.data(), bias.data(), rs.data(), scratch.get());
        ASSERT_TRUE(ran.isOk()) << ran.message();
        int64_t perGroup = 4 / groups;
        each(g.y, [&](int64_t b, int64_t o, int64_t i, int64_t j) {
          float sum = bias[size_t(o)] + r[size_t(placeOf(Layout::Plain, g.y, b, o, i, j))];
          for (int64_t c = 0; c < perGroup; ++c)
            for (int64_t p = 0; p < 3; ++p)
              for (int64_t q = 0; q < 3; ++q) {
                int64_t row = i * 2 + p - 1, column = j + q - 1;
                if (row < 0 || row >= 6 || column < 0 || column >= 5)
                  continue;
                int64_t channel = o / (6 / groups) * perGroup + c;
                sum += x[size_t(placeOf(Layout::Plain, g.x, b, channel, row, column))] *
                       w[size_t(((o * perGroup + c) * 3 + p) * 3 + q)];
              }
          ASSERT_NEAR(ys[size_t(placeOf(layout, g.y, b, o, i, j))], std::max(sum, 0.0f), 1e-4f)
              << "layout " << int(layout) << " groups " << groups << " packed " << packed;
        });
      }
}

/// The library has code for images in groups, none for lines.
TEST(ConvolutionCall, LinesOfAChannelEachAreImages) {
  constexpr int64_t channels = 16, length = 40, taps = 4;
  auto x = numbers(channels * length, 1), w = numbers(channels * taps, 2);
  for (Layout layout : {Layout::Plain, Layout::ChannelsLast, Layout::Blocked16}) {
    ConvolutionGeometry g;
    g.x = g.y = {1, channels, length};
    g.w = {channels, 1, taps};
    g.strides = g.dilations = {1};
    g.padsBegin = {taps - 1};
    g.padsEnd = {0};
    g.groups = channels;
    g.xLayout = g.yLayout = layout;
    g.packedW = true;
    auto call = ConvolutionCall::create(g);
    ASSERT_TRUE(call.isOk()) << call.status().message();
    if (layout == Layout::Blocked16 && __builtin_cpu_supports("avx512f"))
      EXPECT_FALSE(call->isReference());
    auto at = [&](int64_t channel, int64_t place) {
      return size_t(layout == Layout::Plain ? channel * length + place
                                            : place * channels + channel);
    };
    std::vector<float> xs(x.size()), ys(x.size());
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < length; ++i)
        xs[at(c, i)] = x[size_t(c * length + i)];
    auto packed = room(call->packedBytes()), scratch = room(call->scratchBytes());
    ASSERT_TRUE(call->pack(w.data(), packed.get()).isOk());
    ASSERT_TRUE(
        call->run(xs.data(), packed.get(), ys.data(), nullptr, nullptr, scratch.get()).isOk());
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t i = 0; i < length; ++i) {
        float sum = 0;
        for (int64_t k = 0; k < taps; ++k)
          if (int64_t place = i + k - (taps - 1); place >= 0)
            sum += x[size_t(c * length + place)] * w[size_t(c * taps + k)];
        ASSERT_NEAR(ys[at(c, i)], sum, 1e-4f) << "layout " << int(layout);
      }
  }
}

/// All sums are exact, of the largest terms too: with any sign, few channels, odd ones, whole
/// blocks in groups and one channel each.
/// Of an image that is one row or one column: the numbers are the same.
ConvolutionGeometry lineOf(ConvolutionKind kind, bool isColumn) {
  auto image = [&](int64_t outer, int64_t inner, int64_t length) -> std::vector<int64_t> {
    return isColumn ? std::vector{outer, inner, length, int64_t(1)}
                    : std::vector{outer, inner, int64_t(1), length};
  };
  auto along = [&](int64_t value, int64_t across) {
    return isColumn ? std::vector{value, across} : std::vector{across, value};
  };
  ConvolutionGeometry g;
  auto x = image(2, 8, 20), w = image(4, 8, 5), y = image(2, 4, 10);
  g.kind = kind;
  g.x = kind == ConvolutionKind::InputGradient ? y : x;
  g.w = kind == ConvolutionKind::FilterGradient ? y : w;
  g.y = kind == ConvolutionKind::Forward ? y : kind == ConvolutionKind::InputGradient ? x : w;
  g.strides = along(2, 1);
  g.dilations = along(1, 1);
  g.padsBegin = along(3, 0);
  g.padsEnd = along(1, 0);
  return g;
}

TEST(ConvolutionCall, ColumnsAreCalledAsRows) {
  for (ConvolutionKind kind : {ConvolutionKind::Forward, ConvolutionKind::InputGradient,
                               ConvolutionKind::FilterGradient}) {
    std::vector<std::vector<float>> results;
    for (bool isColumn : {false, true}) {
      ConvolutionGeometry g = lineOf(kind, isColumn);
      auto call = ConvolutionCall::create(g);
      ASSERT_TRUE(call.isOk()) << call.status().message();
      auto x = numbers(countOf(g.x), 1), w = numbers(countOf(g.w), 2);
      std::vector<float> y(size_t(countOf(g.y)), 42.0f);
      auto scratch = room(call->scratchBytes());
      Status ran = call->run(x.data(), w.data(), y.data(), nullptr, nullptr, scratch.get());
      ASSERT_TRUE(ran.isOk()) << ran.message();
      results.push_back(y);
    }
    EXPECT_EQ(results[0], results[1]) << int(kind);
  }
}

TEST(ConvolutionCall, OfBytesAgainstLoops) {
  struct Shape {
    int64_t channels, filters, groups, stride, pad;
  };
  constexpr int64_t side = 7;
  for (Shape s : {Shape{3, 8, 1, 2, 1}, {37, 19, 1, 1, 1}, {96, 32, 2, 1, 0}, {24, 24, 24, 1, 1}})
    for (bool hasSign : {false, true}) {
      int64_t perGroup = s.channels / s.groups, result = (side + 2 * s.pad - 3) / s.stride + 1;
      ConvolutionGeometry g;
      g.x = {2, s.channels, side, side};
      g.w = {s.filters, perGroup, 3, 3};
      g.y = {2, s.filters, result, result};
      g.strides = {s.stride, s.stride};
      g.padsBegin = g.padsEnd = {s.pad, s.pad};
      g.dilations = {1, 1};
      g.groups = s.groups;
      g.xType = hasSign ? DataType::I8 : DataType::U8;
      g.wType = DataType::I8;
      g.yType = DataType::I32;
      g.xLayout = g.yLayout = Layout::ChannelsLast;
      g.packedW = true;
      if (!sumsBytes<ConvolutionCall>(g))
        continue;
      auto call = ConvolutionCall::create(g);
      ASSERT_TRUE(call.isOk()) << call.status().message();
      EXPECT_FALSE(call->isReference());
      std::vector<int> x, w;
      auto bytes = [](std::vector<int> &numbers, int64_t count, int extreme, int least) {
        auto stored = room(count);
        for (int64_t i = 0; i < count; ++i) {
          numbers.push_back(i % 3 ? extreme : least + int((i * 7919) % 256));
          static_cast<uint8_t *>(stored.get())[i] = uint8_t(numbers.back());
        }
        return stored;
      };
      auto xs = bytes(x, 2 * s.channels * side * side, hasSign ? -128 : 255, hasSign ? -128 : 0),
           ws = bytes(w, s.filters * perGroup * 9, -128, -128),
           ys = room(2 * s.filters * result * result * 4), packed = room(call->packedBytes()),
           scratch = room(call->scratchBytes());
      ASSERT_TRUE(call->pack(ws.get(), packed.get()).isOk());
      ASSERT_TRUE(
          call->run(xs.get(), packed.get(), ys.get(), nullptr, nullptr, scratch.get()).isOk());
      for (int64_t n = 0; n < 2; ++n)
        for (int64_t o = 0; o < s.filters; ++o)
          for (int64_t i = 0; i < result; ++i)
            for (int64_t j = 0; j < result; ++j) {
              int32_t sum = 0;
              for (int64_t c = 0; c < perGroup; ++c)
                for (int64_t p = 0; p < 3; ++p)
                  for (int64_t q = 0; q < 3; ++q) {
                    int64_t row = i * s.stride + p - s.pad, column = j * s.stride + q - s.pad;
                    if (row < 0 || row >= side || column < 0 || column >= side)
                      continue;
                    int64_t channel = o / (s.filters / s.groups) * perGroup + c;
                    sum += x[size_t(placeOf(Layout::ChannelsLast, g.x, n, channel, row, column))] *
                           w[size_t(((o * perGroup + c) * 3 + p) * 3 + q)];
                  }
              ASSERT_EQ(
                  static_cast<int32_t *>(ys.get())[placeOf(Layout::ChannelsLast, g.y, n, o, i, j)],
                  sum)
                  << s.channels << " channels, sign " << hasSign;
            }
    }
}

/// A convolution of `channels` by both algorithms, within `tolerance`.
void compareWinograd(std::vector<int64_t> image, int64_t channels, bool hasResidual,
                     float tolerance) {
  ConvolutionGeometry g;
  g.x = g.y = image;
  g.y[1] = channels;
  g.w = {channels, image[1], 3, 3};
  g.strides = g.padsBegin = g.padsEnd = g.dilations = {1, 1};
  g.xLayout = g.yLayout = Layout::Blocked16;
  g.hasBias = true;
  g.hasResidual = hasResidual;
  g.epilogue = Epilogue::Relu;
  g.packedW = true;
  size_t positions = size_t(image[0] * image[2] * image[3]), count = positions * size_t(channels);
  auto x = numbers(positions * size_t(image[1]), 1),
       w = numbers(size_t(channels * image[1] * 9), 2), bias = numbers(size_t(channels), 3),
       residual = numbers(count, 4);
  std::vector<float> results[2];
  for (ConvolutionAlgorithm algorithm :
       {ConvolutionAlgorithm::Direct, ConvolutionAlgorithm::Winograd}) {
    g.algorithm = algorithm;
    auto call = ConvolutionCall::create(g);
    // The library has this algorithm for CPUs with AVX-512; others are refused, not given another.
    if (algorithm == ConvolutionAlgorithm::Winograd && !__builtin_cpu_supports("avx512dq")) {
      EXPECT_FALSE(call.isOk());
      return;
    }
    ASSERT_TRUE(call.isOk()) << call.status().message();
    auto packed = room(call->packedBytes()), scratch = room(call->scratchBytes());
    ASSERT_TRUE(call->pack(w.data(), packed.get()).isOk());
    auto &y = results[size_t(algorithm)];
    y.assign(count, -1.0f);
    Status ran = call->run(x.data(), packed.get(), y.data(), bias.data(),
                           hasResidual ? residual.data() : nullptr, scratch.get());
    ASSERT_TRUE(ran.isOk()) << ran.message();
  }
  for (size_t i = 0; i < count; ++i)
    ASSERT_NEAR(results[0][i], results[1][i], tolerance) << "element " << i;
}

TEST(ConvolutionCall, WinogradAgainstDirect) { compareWinograd({2, 32, 13, 16}, 32, false, 2e-5f); }

// The library leaves out so many channels at once, where the second cache is small.
TEST(ConvolutionCall, WinogradInParts) { compareWinograd({1, 128, 28, 28}, 128, true, 8e-5f); }

TEST(ConvolutionCall, WinogradIsForStrideOne) {
  ConvolutionGeometry g;
  g.x = {1, 32, 16, 16};
  g.y = {1, 32, 8, 8};
  g.w = {32, 32, 3, 3};
  g.strides = {2, 2};
  g.padsBegin = g.padsEnd = g.dilations = {1, 1};
  g.xLayout = g.yLayout = Layout::Blocked16;
  g.algorithm = ConvolutionAlgorithm::Winograd;
  g.packedW = true;
  EXPECT_FALSE(ConvolutionCall::create(g).isOk());
}

TEST(ReorderCall, MovesIntegers) {
  artifact::Reorder there;
  there.dims = {1, 8, 1, 2};
  there.from = Layout::Plain;
  there.to = Layout::Blocked8;
  auto check = [&](DataType type, auto element) {
    using Element = decltype(element);
    there.dtype = type;
    auto call = ReorderCall::create(there);
    ASSERT_TRUE(call.isOk()) << call.status().message();
    std::vector<Element> plain, blocked(16);
    for (int i = 0; i < 16; ++i)
      plain.push_back(static_cast<Element>(~Element(0) - Element(i * 9)));
    ASSERT_TRUE(call->run(plain.data(), blocked.data()).isOk());
    for (size_t i = 0; i < 16; ++i)
      EXPECT_EQ(blocked[i], plain[i % 8 * 2 + i / 8]) << "element " << i;
  };
  check(DataType::Bool, uint8_t());
  check(DataType::U8, uint8_t());
  check(DataType::I8, int8_t());
  check(DataType::I32, int32_t());
  check(DataType::U32, uint32_t());
}

} // namespace
