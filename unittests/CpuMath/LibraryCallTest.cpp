// SPDX-License-Identifier: Apache-2.0
// Products and convolutions of the CPU device against naive loops: packing, epilogues, scale, bias,
// residual, broadcast, transposed operands, layouts.
#include "autopar/Artifact/Layout.h"
#include "autopar/Artifact/Verify.h"
#include "autopar/CpuMath/LibraryCalls.h"
#include "autopar/CpuMath/OpenMP.h"
#include "autopar/CpuMath/PackedSize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::cpumath;

namespace {

std::vector<float> numbers(int64_t count, int seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(float((i * 31 + seed * 17) % 23 - 11) / 11.0f);
  return values;
}

struct Free {
  void operator()(void *p) const { std::free(p); }
};
std::unique_ptr<void, Free> room(int64_t bytes) {
  return std::unique_ptr<void, Free>(std::aligned_alloc(64, size_t((bytes + 127) / 64 * 64)));
}

float apply(Epilogue epilogue, float x) {
  switch (epilogue) {
  case Epilogue::None:
    return x;
  case Epilogue::Relu:
    return std::max(x, 0.0f);
  case Epilogue::GeluErf:
    return 0.5f * x * (1 + std::erf(x / std::sqrt(2.0f)));
  case Epilogue::GeluTanh:
    return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
  default: // refused, below
    break;
  }
  return x;
}

TEST(MatmulCall, RefusesWhatOnlyGpusHave) {
  MatmulGeometry g;
  g.a = g.b = g.c = {{8, 8}, {8, 1}};
  g.hasResidual = true;
  g.epilogue = Epilogue::GeluTanhGrad;
  auto call = MatmulCall::create(g);
  ASSERT_FALSE(call.isOk());
  EXPECT_EQ(call.status().message(),
            "oneDNN has no product with the gradient of an activation behind it or a second "
            "result; compile the model for this device");
}

TEST(MatmulCall, RefusesExtentsThatTheLibraryCannotCount) {
  const int64_t k = int64_t(1) << 32;
  MatmulGeometry g;
  g.a = {{2, k}, {k, 1}};
  g.b = {{k, 4}, {4, 1}};
  g.c = {{2, 4}, {4, 1}};
  auto call = MatmulCall::create(g);
  ASSERT_FALSE(call.isOk());
  EXPECT_EQ(call.status().message(),
            "matmul: expected extents below 2^31 for oneDNN, got 4294967296");
}

TEST(MatmulCall, AgainstLoops) {
  for (bool packed : {false, true})
    for (bool transposedB : {false, true})
      for (bool bias : {false, true})
        for (bool residual : {false, true})
          for (float scale : {1.0f, 0.5f})
            for (Epilogue epilogue :
                 {Epilogue::None, Epilogue::Relu, Epilogue::GeluErf, Epilogue::GeluTanh}) {
              const int64_t batch = packed ? 1 : 3, m = 5, k = 7, n = 9;
              MatmulGeometry g;
              g.a = {{batch, m, k}, {m * k, k, 1}};
              g.b = {{1, k, n},
                     transposedB ? std::vector<int64_t>{0, 1, k} : std::vector<int64_t>{0, n, 1}};
              g.c = {{batch, m, n}, {m * n, n, 1}};
              g.hasBias = bias;
              g.hasResidual = residual;
              g.scale = scale;
              g.epilogue = epilogue;
              g.packedB = packed;
              auto call = MatmulCall::create(g);
              ASSERT_TRUE(call.isOk()) << call.status().message();
              EXPECT_EQ(*cpumath::scratchBytes(g, omp_get_max_threads()), call->scratchBytes());
              auto a = numbers(batch * m * k, 1), b = numbers(k * n, 2),
                   c = numbers(batch * m * n, 3);
              auto biasData = numbers(n, 4), r = numbers(batch * m * n, 5);
              auto packedB = room(call->packedBytes()), scratch = room(call->scratchBytes());
              void *bData = b.data();
              if (packed) {
                EXPECT_EQ(*cpumath::packedBytes(g), call->packedBytes());
                ASSERT_TRUE(call->pack(b.data(), packedB.get()).isOk());
                bData = packedB.get();
              }
              Status ran =
                  call->run(a.data(), bData, c.data(), biasData.data(), r.data(), scratch.get());
              ASSERT_TRUE(ran.isOk()) << ran.message();
              for (int64_t s = 0; s < batch; ++s)
                for (int64_t i = 0; i < m; ++i)
                  for (int64_t j = 0; j < n; ++j) {
                    float sum = bias ? biasData[size_t(j)] : 0.0f;
                    for (int64_t x = 0; x < k; ++x)
                      sum += a[size_t((s * m + i) * k + x)] *
                             b[size_t(transposedB ? j * k + x : x * n + j)];
                    size_t at = size_t((s * m + i) * n + j);
                    float expected = apply(epilogue, scale * sum + (residual ? r[at] : 0.0f));
                    ASSERT_NEAR(c[at], expected, 2e-4f)
                        << "packed " << packed << " T " << transposedB << " bias " << bias
                        << " residual " << residual << " scale " << scale;
                  }
            }
}

/// A product of float32 with room beside the rows of c, on some threads; what c holds afterwards.
std::vector<float> largeProduct(const MatmulGeometry &g, int threads, bool overResidual) {
  int64_t m = g.a.dims[0], k = g.a.dims[1], n = g.b.dims[1], width = g.c.strides[0];
  ThreadCountScope scope(threads);
  auto call = MatmulCall::create(g);
  EXPECT_TRUE(call.isOk()) << call.status().message();
  auto a = numbers(m * k, 1), b = numbers(k * n, 2), bias = numbers(n, 4),
       r = numbers(m * width, 5);
  std::vector<float> c(size_t(m * width), 42.0f);
  auto scratch = room(call->scratchBytes());
  float *target = overResidual ? r.data() : c.data();
  Status ran = call->run(a.data(), b.data(), target, bias.data(), r.data(), scratch.get());
  EXPECT_TRUE(ran.isOk()) << ran.message();
  return overResidual ? r : c;
}

/// All sums are exact: of the largest terms and any sign, of odd extents, few rows, batches, packed
/// or as they lie, transposed or not.
TEST(MatmulCall, ProductsOfBytesAgainstLoops) {
  if (!__builtin_cpu_supports("avx512vnni"))
    GTEST_SKIP() << "needs AVX512-VNNI";
  struct Shape {
    int64_t batch, rows, columns, depth;
  };
  int64_t cases = 0;
  for (Shape s : {Shape{1, 1, 33, 1031},
                  {1, 3, 64, 256},
                  {1, 37, 19, 770},
                  {3, 5, 7, 13},
                  {2, 1, 1, 1},
                  {1, 128, 96, 64}})
    for (int mask = 0; mask < 16; ++mask) {
      bool hasSign = mask & 1, transposesA = mask & 2, transposesB = mask & 4, packs = mask & 8;
      if (packs && s.batch > 1)
        continue;
      MatmulGeometry g;
      g.aType = hasSign ? DataType::I8 : DataType::U8;
      g.bType = DataType::I8;
      g.cType = DataType::I32;
      auto matrix = [&](int64_t rows, int64_t columns, bool transposes) {
        return StridedShape{{s.batch, rows, columns},
                            {rows * columns, transposes ? 1 : columns, transposes ? rows : 1}};
      };
      g.a = matrix(s.rows, s.depth, transposesA);
      g.b = matrix(s.depth, s.columns, transposesB);
      g.c = matrix(s.rows, s.columns, false);
      g.packedB = packs;
      auto call = MatmulCall::create(g);
      ASSERT_TRUE(call.isOk()) << call.status().message();
      // Mostly the extremes, for which sums of pairs do not fit 16 bits.
      uint32_t random = 12345;
      auto draw = [&](int64_t count, uint8_t extreme) {
        auto bytes = room(count);
        for (int64_t i = 0; i < count; ++i) {
          random = random * 1664525 + 1013904223;
          static_cast<uint8_t *>(bytes.get())[i] = random >> 30 ? extreme : uint8_t(random >> 20);
        }
        return bytes;
      };
      auto a = draw(s.batch * s.rows * s.depth, hasSign ? 128 : 255),
           b = draw(s.batch * s.depth * s.columns, 128), c = room(s.batch * s.rows * s.columns * 4),
           packed = room(call->packedBytes()), scratch = room(call->scratchBytes());
      if (packs) {
        ASSERT_TRUE(call->pack(b.get(), packed.get()).isOk());
      }
      ASSERT_TRUE(call->run(a.get(), packs ? packed.get() : b.get(), c.get(), nullptr, nullptr,
                            scratch.get())
                      .isOk());
      auto at = [](const StridedShape &shape, int64_t i, int64_t j, int64_t k) {
        return i * shape.strides[0] + j * shape.strides[1] + k * shape.strides[2];
      };
      for (int64_t i = 0; i < s.batch; ++i)
        for (int64_t row = 0; row < s.rows; ++row)
          for (int64_t column = 0; column < s.columns; ++column) {
            int32_t sum = 0;
            for (int64_t k = 0; k < s.depth; ++k) {
              uint8_t x = static_cast<uint8_t *>(a.get())[at(g.a, i, row, k)];
              sum += (hasSign ? int32_t(int8_t(x)) : int32_t(x)) *
                     static_cast<int8_t *>(b.get())[at(g.b, i, k, column)];
            }
            ASSERT_EQ(static_cast<int32_t *>(c.get())[at(g.c, i, row, column)], sum)
                << s.rows << " x " << s.columns << " x " << s.depth << ", mask " << mask;
          }
      ++cases;
    }
  EXPECT_EQ(cases, 80);
}

TEST(MatmulCall, LargeProductsAgainstLoopsOnAnyThreads) {
  struct Extents {
    int64_t m, k, n;
  };
  // Rests in every direction; more than one block in each; an a too large to be packed at once;
  // seven products of quarters, with rests, with an a of each kind.
  for (Extents e : {Extents{101, 597, 451}, Extents{299, 8200, 97}, Extents{64, 64, 96},
                    Extents{277, 1103, 901}, Extents{261, 2600, 777}})
    for (bool transposedA : {false, true})
      for (bool transposedB : {false, true})
        for (bool adds : {false, true}) {
          int64_t width = e.n + 3;
          MatmulGeometry g;
          g.a = {{e.m, e.k}, {transposedA ? 1 : e.k, transposedA ? e.m : 1}};
          g.b = {{e.k, e.n}, {transposedB ? 1 : e.n, transposedB ? e.k : 1}};
          g.c = {{e.m, e.n}, {width, 1}};
          g.hasBias = g.hasResidual = adds;
          std::vector<float> c = largeProduct(g, 1, false);
          EXPECT_EQ(c, largeProduct(g, 3, false));
          if (adds) {
            std::vector<float> over = largeProduct(g, 2, true);
            for (int64_t i = 0; i < e.m; ++i)
              for (int64_t j = 0; j < e.n; ++j)
                ASSERT_EQ(over[size_t(i * width + j)], c[size_t(i * width + j)]);
          }
          auto a = numbers(e.m * e.k, 1), b = numbers(e.k * e.n, 2), bias = numbers(e.n, 4),
               r = numbers(e.m * width, 5);
          for (int64_t i = 0; i < e.m; i += i % 8 == 4 ? 1 : 3) {
            for (int64_t j = e.n; j < width; ++j)
              ASSERT_EQ(c[size_t(i * width + j)], 42.0f);
            for (int64_t j = 0; j < e.n; j += j + 20 < e.n ? 7 : 1) {
              double sum = adds ? bias[size_t(j)] + r[size_t(i * width + j)] : 0.0;
              for (int64_t x = 0; x < e.k; ++x)
                sum += double(a[size_t(i * g.a.strides[0] + x * g.a.strides[1])]) *
                       b[size_t(x * g.b.strides[0] + j * g.b.strides[1])];
              ASSERT_NEAR(c[size_t(i * width + j)], sum, 1e-3 + 2e-6 * std::abs(sum))
                  << e.m << "x" << e.k << "x" << e.n << " at " << i << ", " << j;
            }
          }
        }
}

uint16_t toHalf(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
float fromHalf(uint16_t half) {
  uint32_t bits = uint32_t(half) << 16;
  float value = 0;
  std::memcpy(&value, &bits, 4);
  return value;
}
std::vector<uint16_t> halves(int64_t count, int seed) {
  std::vector<uint16_t> values;
  for (float value : numbers(count, seed))
    values.push_back(toHalf(value));
  return values;
}

/// A product of bf16 with room beside the rows of c, on some threads; what c holds afterwards, in
/// the bits of its element type.
std::vector<uint8_t> halfProduct(const MatmulGeometry &g, int threads) {
  ThreadCountScope scope(threads);
  auto call = MatmulCall::create(g);
  EXPECT_TRUE(call.isOk()) << call.status().message();
  auto a = halves(*spanBytes(g.a, DataType::BF16) / 2, 1),
       b = halves(*spanBytes(g.b, DataType::BF16) / 2, 2), bias = halves(g.c.dims.back(), 4);
  std::vector<float> wideB = numbers(*spanBytes(g.b, DataType::BF16) / 2, 2);
  std::vector<float> wideBias = numbers(g.c.dims.back(), 4);
  std::vector<uint8_t> c(size_t(*spanBytes(g.c, g.cType)) + 64, 42);
  auto scratch = room(call->scratchBytes());
  void *biasData = g.biasType == DataType::F32 ? static_cast<void *>(wideBias.data()) : bias.data();
  void *bData = g.bType == DataType::F32 ? static_cast<void *>(wideB.data()) : b.data();
  Status ran = call->run(a.data(), bData, c.data(), biasData, nullptr, scratch.get());
  EXPECT_TRUE(ran.isOk()) << ran.message();
  return c;
}

TEST(MatmulCall, HalfProductsAgainstLoopsOnAnyThreads) {
  struct Extents {
    int64_t batch, m, k, n;
  };
  // Rests in every direction; one and several blocks of depth; a left side too large to be packed
  // at once; the last one is the library's. A b of float32 is rounded on the way.
  for (Extents e : {Extents{1, 101, 597, 451}, Extents{1, 2300, 600, 70}, Extents{3, 64, 64, 64},
                    Extents{1, 90, 1100, 75}, Extents{1, 1500, 1000, 40}, Extents{1, 33, 256, 2500},
                    Extents{1, 4100, 257, 40}, Extents{2, 5, 7, 9}})
    for (bool transposedA : {false, true})
      for (bool transposedB : {false, true})
        for (bool givesFloat : {false, true})
          for (bool adds : {false, true}) {
            int64_t width = e.n + 3;
            MatmulGeometry g;
            g.aType = DataType::BF16;
            g.bType = givesFloat == adds ? DataType::F32 : DataType::BF16;
            g.cType = givesFloat ? DataType::F32 : DataType::BF16;
            g.biasType = e.m == 101 ? DataType::F32 : DataType::BF16;
            g.a = {{e.batch, e.m, e.k}, {e.m * e.k, transposedA ? 1 : e.k, transposedA ? e.m : 1}};
            g.b = {{1, e.k, e.n}, {0, transposedB ? 1 : e.n, transposedB ? e.k : 1}};
            g.c = {{e.batch, e.m, e.n}, {e.m * width, width, 1}};
            g.hasBias = adds;
            std::vector<uint8_t> c = halfProduct(g, 1);
            EXPECT_EQ(c, halfProduct(g, 3));
            auto a = halves(e.batch * e.m * e.k, 1), b = halves(e.k * e.n, 2);
            auto bias = numbers(e.n, 4);
            auto at = [&](int64_t place) {
              float wide = 0;
              std::memcpy(&wide, &c[size_t(givesFloat ? place * 4 : 0)], 4);
              uint16_t half = 0;
              std::memcpy(&half, &c[size_t(givesFloat ? 0 : place * 2)], 2);
              return givesFloat ? wide : fromHalf(half);
            };
            for (int64_t s = 0; s < e.batch; ++s)
              for (int64_t i = 0; i < e.m; i += i + 40 < e.m ? 13 : 1)
                for (int64_t j = 0; j < e.n; j += j + 40 < e.n ? 17 : 3) {
                  double sum =
                      adds ? double(g.biasType == DataType::F32 ? bias[size_t(j)]
                                                                : fromHalf(toHalf(bias[size_t(j)])))
                           : 0.0;
                  for (int64_t x = 0; x < e.k; ++x)
                    sum += double(fromHalf(a[size_t(s * g.a.strides[0] + i * g.a.strides[1] +
                                                    x * g.a.strides[2])])) *
                           fromHalf(b[size_t(x * g.b.strides[1] + j * g.b.strides[2])]);
                  double tolerance = givesFloat ? 1e-3 : 1e-3 + std::abs(sum) / 128;
                  ASSERT_NEAR(at(s * g.c.strides[0] + i * width + j), sum, tolerance)
                      << e.m << "x" << e.k << "x" << e.n << " at " << i << ", " << j;
                }
            if (e.batch == 1 && givesFloat)
              for (int64_t j = e.n * 4; j < width * 4; ++j)
                ASSERT_EQ(c[size_t(j)], 42);
          }
}

TEST(MatmulCall, StridedOutputKeepsItsNeighbours) {
  // Heads side by side: c is a slice of columns.
  const int64_t m = 4, k = 3, n = 2, width = 6;
  MatmulGeometry g;
  g.a = {{m, k}, {k, 1}};
  g.b = {{k, n}, {n, 1}};
  g.c = {{m, n}, {width, 1}};
  g.hasResidual = true;
  auto call = MatmulCall::create(g);
  ASSERT_TRUE(call.isOk()) << call.status().message();
  auto a = numbers(m * k, 1), b = numbers(k * n, 2);
  std::vector<float> c(m * width, 42.0f), r(m * width, 1.0f);
  auto scratch = room(call->scratchBytes());
  ASSERT_TRUE(call->run(a.data(), b.data(), c.data(), nullptr, r.data(), scratch.get()).isOk());
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = n; j < width; ++j)
      EXPECT_EQ(c[size_t(i * width + j)], 42.0f);
    for (int64_t j = 0; j < n; ++j) {
      float sum = 1.0f;
      for (int64_t x = 0; x < k; ++x)
        sum += a[size_t(i * k + x)] * b[size_t(x * n + j)];
      EXPECT_NEAR(c[size_t(i * width + j)], sum, 1e-5f);
    }
  }
}

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

/// All sums are exact, of the largest terms too: with any sign, few channels, odd ones, whole
/// blocks in groups and one channel each.
TEST(ConvolutionCall, OfBytesAgainstLoops) {
  if (!__builtin_cpu_supports("avx512vnni"))
    GTEST_SKIP() << "needs AVX512-VNNI";
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

TEST(LibraryCalls, RefuseWhatDoesNotFit) {
  MatmulGeometry g;
  g.a = {{4, 3}, {3, 1}};
  g.b = {{5, 2}, {2, 1}};
  g.c = {{4, 2}, {2, 1}};
  EXPECT_EQ(MatmulCall::create(g).status().code(), StatusCode::BadInput);
  g.aType = DataType::I32;
  EXPECT_FALSE(cpumath::scratchBytes(g, 1).isOk());
}

} // namespace
