// SPDX-License-Identifier: Apache-2.0
// Products of the CPU device against naive loops: packing, epilogues, scale, bias, residual,
// broadcast, transposed operands.
#include "LibraryCallData.h"

#include "autopar/Artifact/Verify.h"
#include "autopar/CpuMath/OpenMP.h"
#include "autopar/CpuMath/PackedSize.h"

#include <cmath>
#include <cstring>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::cpumath;

namespace {

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

/// Rows of packed weights have other lengths than these where the library reads them as they are.
TEST(MatmulCall, PackedRowsOfAnyLengthAgainstLoops) {
  for (int64_t n : {127, 128, 250, 1024}) {
    const int64_t batch = 2, m = 6, k = 5;
    MatmulGeometry g;
    g.a = {{batch, m, k}, {m * k, k, 1}};
    g.b = {{batch, k, n}, {k * n, n, 1}};
    g.c = {{batch, m, n}, {m * n, n, 1}};
    g.packedB = true;
    auto call = MatmulCall::create(g);
    ASSERT_TRUE(call.isOk()) << call.status().message();
    EXPECT_GE(call->packedBytes(), batch * k * n * 4);
    auto a = numbers(batch * m * k, 1), b = numbers(batch * k * n, 2),
         c = numbers(batch * m * n, 3);
    auto packedB = room(call->packedBytes()), scratch = room(call->scratchBytes());
    ASSERT_TRUE(call->pack(b.data(), packedB.get()).isOk());
    Status ran = call->run(a.data(), packedB.get(), c.data(), nullptr, nullptr, scratch.get());
    ASSERT_TRUE(ran.isOk()) << ran.message();
    for (int64_t row = 0; row < batch * m; ++row)
      for (int64_t j = 0; j < n; ++j) {
        float sum = 0.0f;
        for (int64_t x = 0; x < k; ++x)
          sum += a[size_t(row * k + x)] * b[size_t((row / m * k + x) * n + j)];
        ASSERT_NEAR(c[size_t(row * n + j)], sum, 2e-5f) << n << " columns, row " << row;
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
      ++cases;
      if (!sumsBytes<MatmulCall>(g))
        continue;
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
          std::vector<float> onThree = largeProduct(g, 3, false);
          // Our own sums have one order; those of the library, where there are none, may not.
          if (__builtin_cpu_supports("avx512dq"))
            EXPECT_EQ(c, onThree);
          else
            for (size_t i = 0; i < c.size(); ++i)
              ASSERT_NEAR(onThree[i], c[i], 1e-3 + 2e-6 * std::abs(c[i]));
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
            if (!multipliesBf16<MatmulCall>(g))
              return;
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
