// SPDX-License-Identifier: Apache-2.0
// Grouped products of the CPU device against naive loops.
#include "LibraryCallData.h"

#include "autopar/CpuMath/GroupedProductCall.h"
#include "autopar/CpuMath/OpenMP.h"

#include <atomic>
#include <cstring>

using namespace autopar;
using namespace autopar::artifact;
using namespace autopar::cpumath;

namespace {

/// A geometry with its operands.
struct Case {
  GroupedProductGeometry g;
  std::vector<float> lhs, rhs;
  std::vector<int64_t> group;

  int64_t rows() const { return int64_t(group.size()); }
  int64_t matrixOf(int64_t row) const {
    return group[size_t(row)] < 0 || group[size_t(row)] >= g.groups ? -1 : group[size_t(row)];
  }

  std::vector<float> expected() const {
    int64_t depth = g.depth(), columns = g.columns();
    std::vector<float> result(size_t((g.isGradient ? g.groups * depth : rows()) * columns), 0.0f);
    for (int64_t row = 0; row < rows(); ++row)
      for (int64_t k = 0; k < depth && matrixOf(row) >= 0; ++k)
        for (int64_t n = 0; n < columns; ++n) {
          float x = lhs[size_t(row * depth + k)];
          int64_t first = matrixOf(row) * depth * columns;
          if (g.isGradient)
            result[size_t(first + k * columns + n)] += x * rhs[size_t(row * columns + n)];
          else
            result[size_t(row * columns + n)] +=
                x * rhs[size_t(first + (g.transposed ? n * depth + k : k * columns + n))];
        }
    return result;
  }

  void check(int threads) const {
    ThreadCountScope scope(threads);
    auto call = GroupedProductCall::create(g);
    ASSERT_TRUE(call.isOk()) << call.status().message();
    std::vector<float> want = expected(), have(want.size(), 7.0f);
    std::vector<int32_t> narrow(group.begin(), group.end());
    const void *numbers = group.data();
    if (g.groupType == DataType::I32)
      numbers = narrow.data();
    auto scratch = room(call->scratchBytes());
    std::memset(scratch.get(), 0xff, size_t(call->scratchBytes())); // of floats: no numbers
    ASSERT_TRUE(call->run(lhs.data(), rhs.data(), numbers, have.data(), scratch.get()).isOk());
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(have[i], want[i], 1e-4f * float(g.isGradient ? rows() : g.depth())) << i;
  }
};

/// Rows in an order without meaning, some of them of no group.
Case makeCase(int64_t rows, int64_t depth, int64_t columns, int64_t groups) {
  Case made;
  made.g.lhs = {{rows, depth}, {depth, 1}};
  made.g.rows = {{rows, columns}, {columns, 1}};
  made.g.groups = groups;
  for (int64_t row = 0; row < rows; ++row)
    made.group.push_back(row * row * 7 % (groups + 2) - 1);
  made.lhs = numbers(rows * depth, 1);
  made.rhs = numbers(groups * depth * columns, 2);
  return made;
}

TEST(GroupedProductCall, MultipliesEachRowByItsMatrix) {
  for (auto [rows, depth, columns, groups] :
       {std::array<int64_t, 4>{1, 8, 16, 3}, {7, 5, 9, 2}, {40, 16, 32, 5}, {300, 64, 70, 3}})
    for (bool transposed : {false, true})
      for (int threads : {1, 2}) {
        Case made = makeCase(rows, depth, columns, groups);
        made.g.transposed = transposed;
        made.g.groupType = transposed ? DataType::I32 : DataType::I64;
        made.check(threads);
      }
}

TEST(GroupedProductCall, TakesAsManyRowsOfOneGroupAsThereAre) {
  Case made = makeCase(1100, 8, 12, 2);
  std::fill(made.group.begin(), made.group.end(), 1);
  made.check(1);
}

TEST(GroupedProductCall, MultipliesByColumnsThatAreMade) {
  for (auto [rows, madeColumns] : {std::pair<int64_t, int64_t>{1, 6}, {40, 6}, {40, 24}, {1100, 8}})
    for (bool transposed : {false, true})
      for (int threads : {1, 2}) {
        ThreadCountScope scope(threads);
        Case made = makeCase(rows, 10, 24, 5);
        made.g.transposed = transposed;
        made.g.madeColumns = madeColumns;
        std::vector<std::atomic<int>> times(5 * size_t(24 / madeColumns));
        auto make = [&](int64_t group, int64_t part, void *columns) {
          ++times[size_t(group * (24 / madeColumns) + part)];
          auto *to = static_cast<float *>(columns);
          const float *matrix = made.rhs.data() + group * 240;
          for (int64_t column = 0; column < madeColumns; ++column)
            for (int64_t k = 0; k < 10; ++k) {
              int64_t from = part * madeColumns + column;
              to[transposed ? column * 10 + k : k * madeColumns + column] =
                  matrix[transposed ? from * 10 + k : k * 24 + from];
            }
        };
        auto call = GroupedProductCall::create(made.g);
        ASSERT_TRUE(call.isOk()) << call.status().message();
        std::vector<float> want = made.expected(), have(want.size(), 7.0f);
        auto scratch = room(call->scratchBytes());
        ASSERT_TRUE(
            call->run(made.lhs.data(), make, made.group.data(), have.data(), scratch.get()).isOk());
        for (size_t i = 0; i < want.size(); ++i)
          ASSERT_NEAR(have[i], want[i], 1e-3f) << i;
        for (int64_t group = 0; group < 5; ++group) {
          bool hasRows = std::count(made.group.begin(), made.group.end(), group) > 0;
          EXPECT_EQ(times[size_t(group * (24 / madeColumns))] > 0, hasRows) << group;
        }
      }
}

TEST(GroupedProductCall, SumsTheGradientOfEachMatrix) {
  for (auto [rows, groups] : {std::pair<int64_t, int64_t>{1, 2}, {40, 5}, {300, 3}, {4500, 2}}) {
    Case made = makeCase(rows, 10, 12, groups);
    made.g.isGradient = true;
    made.rhs = numbers(rows * 12, 2);
    made.check(2);
  }
}

TEST(GroupedProductCall, ReadsRowsWhereTheyLie) {
  // Each row of x twice, and results across: [2, 3] rows written as [3, 2].
  Case made = makeCase(6, 4, 5, 3), strided = made;
  strided.g.lhs = {{2, 3, 4}, {0, 4, 1}};
  strided.g.rows = {{2, 3, 5}, {5, 10, 1}};
  for (int64_t row = 3; row < 6; ++row)
    std::copy_n(made.lhs.begin() + (row - 3) * 4, 4, made.lhs.begin() + row * 4);
  std::vector<float> want = made.expected(), have(30, 7.0f);
  auto call = GroupedProductCall::create(strided.g);
  ASSERT_TRUE(call.isOk()) << call.status().message();
  auto scratch = room(call->scratchBytes());
  ASSERT_TRUE(
      call->run(made.lhs.data(), made.rhs.data(), made.group.data(), have.data(), scratch.get())
          .isOk());
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t n = 0; n < 5; ++n)
        EXPECT_NEAR(have[size_t(i * 5 + j * 10 + n)], want[size_t((i * 3 + j) * 5 + n)], 1e-4f);
}

TEST(GroupedProductCall, RefusesWhatTheLibraryLacks) {
  GroupedProductGeometry g = makeCase(2, 2, 2, 2).g;
  g.type = DataType::F16;
  EXPECT_EQ(GroupedProductCall::create(g).status().message(),
            "a grouped product of element type f16 is not a library call; expected f32 or bf16");
}

} // namespace
