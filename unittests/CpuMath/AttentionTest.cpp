// SPDX-License-Identifier: Apache-2.0
// Attention of the CPU device against its definition in double precision, on drawn shapes, strides,
// types, groups and biases; the same bits on any number of threads.
#include "autopar/CpuMath/Attention.h"
#include "autopar/CpuMath/OpenMP.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace autopar;
using namespace autopar::cpumath;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A tensor of four dimensions in memory of its type, with room between its rows.
struct Tensor {
  DataType type = DataType::F32;
  int64_t rows = 0, length = 0, heads = 0;
  AttentionStrides strides;
  std::vector<uint8_t> bytes;

  size_t place(int64_t b, int64_t h, int64_t row, int64_t i) const {
    return size_t((b * strides.batch + h * strides.head + row * strides.row + i) * byteSize(type));
  }
  double get(int64_t b, int64_t h, int64_t row, int64_t i) const {
    const uint8_t *at = &bytes[place(b, h, row, i)];
    if (type == DataType::F32) {
      float value = 0;
      std::memcpy(&value, at, 4);
      return double(value);
    }
    uint16_t half = 0;
    std::memcpy(&half, at, 2);
    if (type == DataType::BF16) {
      uint32_t bits = uint32_t(half) << 16;
      float value = 0;
      std::memcpy(&value, &bits, 4);
      return double(value);
    }
    _Float16 value = 0;
    std::memcpy(&value, at, 2);
    return double(value);
  }
  void set(int64_t b, int64_t h, int64_t row, int64_t i, float value) {
    uint8_t *at = &bytes[place(b, h, row, i)];
    if (type == DataType::F32) {
      std::memcpy(at, &value, 4);
    } else if (type == DataType::BF16) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, 4);
      auto half = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
      std::memcpy(at, &half, 2);
    } else {
      auto half = _Float16(value);
      std::memcpy(at, &half, 2);
    }
  }
};

struct Drawer {
  std::mt19937 random;
  int64_t below(int64_t end) { return int64_t(random() % uint64_t(end)); }
  float number() { return float(std::normal_distribution<double>()(random)); }

  /// Heads before rows or behind them; rows apart or not. Results begin as what they may not keep.
  Tensor tensor(DataType type, int64_t batch, int64_t heads, int64_t rows, int64_t length,
                bool isResult = false) {
    Tensor t{type, rows, length, heads, {}, {}};
    int64_t room = length + below(2) * below(20);
    t.strides = below(2) ? AttentionStrides{heads * rows * room, rows * room, room}
                         : AttentionStrides{heads * rows * room, room, heads * room};
    t.bytes.assign(size_t(batch * heads * rows * room * byteSize(type)) + 64, 0xff);
    if (!isResult)
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t i = 0; i < length; ++i)
              t.set(b, h, r, i, number());
    return t;
  }
};

/// No numbers at first, as whatever was there before, and a fence behind.
class Scratch {
public:
  explicit Scratch(int64_t bytes) : bytes(bytes), memory(size_t(bytes) + 128, 0xff) {}
  ~Scratch() {
    for (const uint8_t *at = data() + bytes; at < memory.data() + memory.size(); ++at)
      EXPECT_EQ(*at, 0xff) << "written behind the scratch";
  }
  uint8_t *data() {
    return reinterpret_cast<uint8_t *>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  }

private:
  int64_t bytes;
  std::vector<uint8_t> memory;
};

struct Case {
  AttentionShape shape;
  Tensor q, k, v, bias, o, dO, dQ, dK, dV;
  std::vector<float> lse;

  static Case draw(unsigned seed) {
    Drawer draw{std::mt19937(seed)};
    const DataType types[] = {DataType::F32, DataType::BF16, DataType::F16};
    Case c;
    AttentionShape &s = c.shape;
    s.type = types[draw.below(3)];
    s.batch = 1 + draw.below(3);
    s.groups = 1 + draw.below(3);
    s.heads = s.groups * (1 + draw.below(3));
    const int64_t most = seed % 8 == 0 ? 300 : 80;
    s.queries = 1 + draw.below(most);
    s.keys = draw.below(3) ? s.queries : 1 + draw.below(most);
    s.depth = 1 + draw.below(80);
    s.valueDepth = draw.below(2) ? s.depth : 1 + draw.below(140);
    s.scale = float(1 / std::sqrt(double(s.depth)));
    s.isCausal = draw.below(2);
    s.hasBias = draw.below(2);
    s.biasType = draw.below(2) ? DataType::F32 : s.type;
    c.q = draw.tensor(s.type, s.batch, s.heads, s.queries, s.depth);
    c.k = draw.tensor(s.type, s.batch, s.groups, s.keys, s.depth);
    c.v = draw.tensor(s.type, s.batch, s.groups, s.keys, s.valueDepth);
    int64_t biasBatch = draw.below(2) ? s.batch : 1, biasHeads = draw.below(2) ? s.heads : 1,
            biasRows = draw.below(2) ? s.queries : 1;
    c.bias = draw.tensor(s.biasType, biasBatch, biasHeads, biasRows, s.keys);
    // A mask: some keys are hidden, perhaps all of a row.
    bool hidesAll = draw.below(4) == 0;
    for (int64_t j = 0; j < s.keys; ++j)
      if (hidesAll || draw.below(5) == 0)
        c.bias.set(0, 0, 0, j, -std::numeric_limits<float>::infinity());
    c.o = draw.tensor(s.type, s.batch, s.heads, s.queries, s.valueDepth, true);
    c.dO = draw.tensor(s.type, s.batch, s.heads, s.queries, s.valueDepth);
    c.dQ = draw.tensor(s.type, s.batch, s.heads, s.queries, s.depth, true);
    c.dK = draw.tensor(s.type, s.batch, s.groups, s.keys, s.depth, true);
    c.dV = draw.tensor(s.type, s.batch, s.groups, s.keys, s.valueDepth, true);
    c.lse.assign(size_t(s.batch * s.heads * s.queries), NAN);
    s.q = c.q.strides, s.k = c.k.strides, s.v = c.v.strides, s.o = c.o.strides;
    s.dO = c.dO.strides, s.dQ = c.dQ.strides, s.dK = c.dK.strides, s.dV = c.dV.strides;
    s.bias = c.bias.strides;
    if (biasBatch == 1)
      s.bias.batch = 0;
    if (biasHeads == 1)
      s.bias.head = 0;
    if (biasRows == 1)
      s.bias.row = 0;
    if (s.isCausal && draw.below(2))
      s.hiddenKeys = draw.below(s.keys);
    if (s.isCausal && draw.below(2))
      s.window = 1 + draw.below(s.keys);
    return c;
  }

  void run(int threads, int lanes = 0) {
    ThreadCountScope scope(threads);
    Scratch forward(attentionScratchBytes(shape, threads)),
        backward(attentionBackwardScratchBytes(shape, threads));
    attentionForward(shape,
                     {q.bytes.data(), k.bytes.data(), v.bytes.data(), bias.bytes.data(),
                      o.bytes.data(), lse.data()},
                     forward.data(), threads, lanes);
    attentionBackward(shape,
                      {q.bytes.data(), k.bytes.data(), v.bytes.data(), bias.bytes.data(),
                       o.bytes.data(), lse.data(), dO.bytes.data(), dQ.bytes.data(),
                       dK.bytes.data(), dV.bytes.data()},
                      backward.data(), threads, lanes);
  }
};

/// The definition, for one batch and head: probabilities and the logarithms of their sums.
struct Probabilities {
  std::vector<std::vector<double>> rows;
  std::vector<double> lse;

  Probabilities(const Case &c, int64_t b, int64_t h) {
    const AttentionShape &s = c.shape;
    int64_t g = h / (s.heads / s.groups);
    for (int64_t i = 0; i < s.queries; ++i) {
      std::vector<double> row(size_t(s.keys), -kInfinity);
      double largest = -kInfinity, sum = 0;
      for (int64_t j = 0; j < s.keys; ++j) {
        int64_t last = i + s.keys - s.hiddenKeys - s.queries;
        if (s.isCausal && (j > last || (s.window && j <= last - s.window)))
          continue;
        double score = 0;
        for (int64_t x = 0; x < s.depth; ++x)
          score += c.q.get(b, h, i, x) * c.k.get(b, g, j, x);
        score *= double(s.scale);
        if (s.hasBias)
          score += c.bias.get(s.bias.batch ? b : 0, s.bias.head ? h : 0, s.bias.row ? i : 0, j);
        row[size_t(j)] = score;
        largest = std::max(largest, score);
      }
      for (double &x : row)
        sum += x = largest == -kInfinity ? 0 : std::exp(x - largest);
      for (double &x : row)
        x = sum > 0 ? x / sum : 0;
      rows.push_back(row);
      lse.push_back(largest + std::log(sum));
    }
  }
};

class Check {
public:
  explicit Check(const Case &c)
      : tolerance(c.shape.type == DataType::F32    ? 2e-5
                  : c.shape.type == DataType::BF16 ? 3e-2
                                                   : 4e-3) {}
  void operator()(const char *what, double got, double wanted) const {
    if (!(std::abs(got - wanted) <= tolerance * (1 + std::abs(wanted))))
      ADD_FAILURE() << what << ": " << got << " instead of " << wanted;
  }

private:
  double tolerance;
};

void checkForward(const Case &c) {
  const AttentionShape &s = c.shape;
  Check check(c);
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h) {
      Probabilities p(c, b, h);
      int64_t g = h / (s.heads / s.groups);
      for (int64_t i = 0; i < s.queries; ++i) {
        float lse = c.lse[size_t((b * s.heads + h) * s.queries + i)];
        if (p.lse[size_t(i)] == -kInfinity)
          EXPECT_EQ(double(lse), -kInfinity);
        else
          EXPECT_NEAR(double(lse), p.lse[size_t(i)], 1e-5 * (1 + std::abs(p.lse[size_t(i)])));
        for (int64_t x = 0; x < s.valueDepth; ++x) {
          double sum = 0;
          for (int64_t j = 0; j < s.keys; ++j)
            sum += p.rows[size_t(i)][size_t(j)] * c.v.get(b, g, j, x);
          check("o", c.o.get(b, h, i, x), sum);
        }
      }
    }
}

void checkBackward(const Case &c) {
  const AttentionShape &s = c.shape;
  Check check(c);
  int64_t perGroup = s.heads / s.groups;
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t g = 0; g < s.groups; ++g) {
      auto n = size_t(s.keys);
      std::vector<double> dK(n * size_t(s.depth)), dV(n * size_t(s.valueDepth));
      for (int64_t h = g * perGroup; h < (g + 1) * perGroup; ++h) {
        Probabilities p(c, b, h);
        for (int64_t i = 0; i < s.queries; ++i) {
          std::vector<double> dP(n), dQ(size_t(s.depth));
          double mean = 0;
          for (int64_t j = 0; j < s.keys; ++j) {
            double power = p.rows[size_t(i)][size_t(j)];
            for (int64_t x = 0; x < s.valueDepth; ++x) {
              dP[size_t(j)] += c.dO.get(b, h, i, x) * c.v.get(b, g, j, x);
              dV[size_t(j * s.valueDepth + x)] += power * c.dO.get(b, h, i, x);
            }
          }
          // Of the result as it is stored.
          for (int64_t x = 0; x < s.valueDepth; ++x)
            mean += c.dO.get(b, h, i, x) * c.o.get(b, h, i, x);
          for (int64_t j = 0; j < s.keys; ++j) {
            double dS = p.rows[size_t(i)][size_t(j)] * (dP[size_t(j)] - mean) * double(s.scale);
            for (int64_t x = 0; x < s.depth; ++x) {
              dQ[size_t(x)] += dS * c.k.get(b, g, j, x);
              dK[size_t(j * s.depth + x)] += dS * c.q.get(b, h, i, x);
            }
          }
          for (int64_t x = 0; x < s.depth; ++x)
            check("dQ", c.dQ.get(b, h, i, x), dQ[size_t(x)]);
        }
      }
      for (int64_t j = 0; j < s.keys; ++j) {
        for (int64_t x = 0; x < s.depth; ++x)
          check("dK", c.dK.get(b, g, j, x), dK[size_t(j * s.depth + x)]);
        for (int64_t x = 0; x < s.valueDepth; ++x)
          check("dV", c.dV.get(b, g, j, x), dV[size_t(j * s.valueDepth + x)]);
      }
    }
}

TEST(Attention, AgainstItsDefinition) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Case c = Case::draw(seed);
    const AttentionShape &s = c.shape;
    const int lanes[] = {4, 8, 16, 32};
    SCOPED_TRACE(testing::Message()
                 << "seed " << seed << ": " << name(s.type) << " " << s.batch << "x" << s.heads
                 << "/" << s.groups << ", " << s.queries << " over " << s.keys << ", " << s.depth
                 << " and " << s.valueDepth << (s.isCausal ? ", causal" : "")
                 << (s.hasBias ? ", bias" : "") << ", window " << s.window);
    ASSERT_TRUE(verifyAttention(s).isOk());
    c.run(1, std::min(lanes[seed / 2 % 4], attentionLanes(s.type)));
    checkForward(c);
    checkBackward(c);
    if (testing::Test::HasFailure())
      return;
  }
}

/// Masks of the least float and of a large number, which differ from -inf where they hide all.
TEST(Attention, RowsOfWhichAllIsMasked) {
  for (float mask : {std::numeric_limits<float>::lowest(), -1e9f})
    for (unsigned seed = 0, found = 0; found < 4; ++seed) {
      Case c = Case::draw(seed);
      const AttentionShape &s = c.shape;
      if (!s.hasBias || s.type != DataType::F32 || s.isCausal)
        continue;
      ++found;
      for (int64_t j = 0; j < s.keys; ++j)
        c.bias.set(0, 0, 0, j, mask);
      c.run(1);
      for (int64_t x = 0; x < s.valueDepth; ++x) {
        double mean = 0;
        for (int64_t j = 0; j < s.keys; ++j)
          mean += c.v.get(0, 0, j, x) / double(s.keys);
        EXPECT_NEAR(c.o.get(0, 0, 0, x), mean, 1e-5);
      }
      for (const Tensor *t : {&c.dQ, &c.dK, &c.dV})
        for (int64_t row = 0; row < t->rows; ++row)
          for (int64_t x = 0; x < t->length; ++x)
            EXPECT_LT(std::abs(t->get(0, 0, row, x)), 1e4);
    }
}

/// Shapes of a decoder with a cache: one query a head, or one a head of a group; the cache is
/// longer than the text, and what lies behind it need be no number.
TEST(Attention, WhatABiasHidesInBlocksIsNotRead) {
  const float kHidden = -std::numeric_limits<float>::infinity();
  for (unsigned seed = 0, found = 0; found < 12; ++seed) {
    Case c = Case::draw(seed);
    AttentionShape &s = c.shape;
    if (!s.hasBias || s.isCausal)
      continue;
    ++found;
    Drawer draw{std::mt19937(seed)};
    s.queries = found % 2 ? 1 : 1 + draw.below(5);
    s.keys = 300 + draw.below(90);
    int64_t seen = 1 + draw.below(100);
    c.q = draw.tensor(s.type, s.batch, s.heads, s.queries, s.depth);
    c.k = draw.tensor(s.type, s.batch, s.groups, s.keys, s.depth);
    c.v = draw.tensor(s.type, s.batch, s.groups, s.keys, s.valueDepth);
    c.o = draw.tensor(s.type, s.batch, s.heads, s.queries, s.valueDepth, true);
    c.bias = draw.tensor(s.biasType, 1, 1, 1, s.keys);
    s.q = c.q.strides, s.k = c.k.strides, s.v = c.v.strides, s.o = c.o.strides;
    s.bias = AttentionStrides{0, 0, 0};
    for (int64_t j = seen; j < s.keys; ++j)
      c.bias.set(0, 0, 0, j, kHidden);
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t g = 0; g < s.groups; ++g)
        for (int64_t j = 256; j < s.keys; ++j)
          c.v.set(b, g, j, 0, std::numeric_limits<float>::quiet_NaN());
    c.lse.assign(size_t(s.batch * s.heads * s.queries), 0);
    const int lanes[] = {4, 8, 16};
    Scratch scratch(attentionScratchBytes(s, 1));
    attentionForward(s,
                     {c.q.bytes.data(), c.k.bytes.data(), c.v.bytes.data(), c.bias.bytes.data(),
                      c.o.bytes.data(), c.lse.data()},
                     scratch.data(), 1, std::min(lanes[found % 3], attentionLanes(s.type)));
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t g = 0; g < s.groups; ++g)
        for (int64_t j = 256; j < s.keys; ++j)
          c.v.set(b, g, j, 0, 0);
    checkForward(c);
    if (testing::Test::HasFailure())
      return;
  }
}

TEST(Attention, SameBitsOnAnyThreads) {
  for (unsigned seed = 100; seed < 116; ++seed) {
    Case one = Case::draw(seed);
    one.run(1);
    // With 16 there are more of them than heads of keys.
    for (int threads : {2, 3, 16}) {
      Case many = Case::draw(seed);
      many.run(threads);
      EXPECT_EQ(std::memcmp(one.lse.data(), many.lse.data(), one.lse.size() * 4), 0);
      EXPECT_EQ(one.o.bytes, many.o.bytes);
      EXPECT_EQ(one.dQ.bytes, many.dQ.bytes);
      EXPECT_EQ(one.dK.bytes, many.dK.bytes);
      EXPECT_EQ(one.dV.bytes, many.dV.bytes);
    }
  }
}

TEST(Attention, RefusesWhatItDoesNotKnow) {
  AttentionShape s = Case::draw(1).shape;
  s.groups = s.heads + 1;
  EXPECT_NE(verifyAttention(s).message().find("heads of keys"), std::string::npos);
  s = Case::draw(1).shape;
  s.type = DataType::F64;
  EXPECT_NE(verifyAttention(s).message().find("attention: of f64; known are f32, bf16 and f16"),
            std::string::npos);
  s = Case::draw(1).shape;
  s.hasBias = true;
  s.biasType = DataType::I32;
  EXPECT_NE(verifyAttention(s).message().find("a bias of i32"), std::string::npos);
  s = Case::draw(1).shape;
  s.depth = -1;
  EXPECT_NE(verifyAttention(s).message().find("a negative extent"), std::string::npos);
  s = Case::draw(1).shape;
  s.isCausal = true;
  s.keys = 4;
  s.hiddenKeys = 5;
  EXPECT_EQ(verifyAttention(s).message(), "attention: 5 hidden of 4 keys");
  s.hiddenKeys = 0;
  s.isCausal = false;
  s.window = 3;
  EXPECT_EQ(verifyAttention(s).message(), "attention: a window of 3 keys without a causal mask");
}

} // namespace
