// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "MadeTables.h"

#include "Dominance.h"
#include "VectorClones.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace autopar::planner {
namespace {

/// What is known takes no more memory than this: graphs whose parts are all different know much
/// that nobody asks for again.
constexpr size_t kMostBytes = size_t(128) << 20;

enum class Asked : uint64_t { Pick, Sum, Least, HaveLegalPartners, OnlyPartners, Undominated };

/// Spells a question.
class Words {
public:
  explicit Words(Asked what) : words{static_cast<uint64_t>(what)} {}

  Words &add(const MatrixRef &matrix, bool isFirst = true) {
    words.push_back(reinterpret_cast<uintptr_t>(matrix.get()) | uint64_t(isFirst));
    about.push_back(matrix);
    return *this;
  }
  Words &add(const Side &side) { return add(side.matrix, side.isFirst); }
  Words &add(bool flag) {
    words.push_back(uint64_t(flag));
    return *this;
  }
  /// Lists follow their length.
  template <typename T>
  Words &add(const std::vector<T> &list) {
    size_t begin = words.size() + 1;
    words.push_back(list.size());
    words.resize(begin + (list.size() * sizeof(T) + 7) / 8, 0);
    if (!list.empty())
      std::memcpy(words.data() + begin, list.data(), list.size() * sizeof(T));
    return *this;
  }

  std::vector<uint64_t> words;
  std::vector<MatrixRef> about;
};

IndexList listOf(std::vector<int32_t> values) {
  return std::make_shared<const std::vector<int32_t>>(std::move(values));
}

/// Of the rows of a table with `stride` columns, each added to its start: the least of each of
/// `Columns` columns, where that is less than it was, and whose it is. They stay in registers.
template <int32_t Columns>
inline __attribute__((always_inline)) void
keepLeastOf(double *__restrict least, int32_t *__restrict best, const double *table,
            const double *start, int32_t rows, int32_t stride) {
  double lowest[Columns];
  int32_t by[Columns];
  std::copy_n(least, Columns, lowest);
  std::copy_n(best, Columns, by);
  for (int32_t k = 0; k < rows; ++k, table += stride)
    for (int32_t x = 0; x < Columns; ++x) {
      double cost = start[k] + table[x];
      bool less = cost < lowest[x];
      lowest[x] = less ? cost : lowest[x];
      by[x] = less ? k : by[x];
    }
  std::copy_n(lowest, Columns, least);
  std::copy_n(by, Columns, best);
}

/// The same for all columns.
AUTOPAR_VECTOR_CLONES
void keepLeast(double *__restrict least, int32_t *__restrict best, const double *table,
               const double *start, int32_t rows, int32_t count) {
  int32_t x = 0;
  for (; x + 32 <= count; x += 32)
    keepLeastOf<32>(least + x, best + x, table + x, start, rows, count);
  for (; x + 8 <= count; x += 8)
    keepLeastOf<8>(least + x, best + x, table + x, start, rows, count);
  for (; x < count; ++x)
    keepLeastOf<1>(least + x, best + x, table + x, start, rows, count);
}

} // namespace

size_t MadeTables::QuestionHash::operator()(const Question &question) const {
  uint64_t hash = question.size();
  for (uint64_t word : question) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15; // Fibonacci hashing (Knuth, volume 3, 6.4)
    hash ^= hash >> 32;
  }
  return hash;
}

template <typename Make>
MadeTables::Answer MadeTables::ask(Question question, std::vector<MatrixRef> about, Make make) {
  if (auto found = known.find(question); found != known.end())
    return found->second.answer;
  Answer made = make();
  bytes += question.size() * sizeof(uint64_t);
  bytes += made.matrix ? 2 * made.matrix->byRow.size() * sizeof(double) : 0;
  bytes += made.list ? made.list->size() * sizeof(int32_t) : 0;
  if (bytes > kMostBytes) {
    known.clear();
    bytes = 0;
  }
  known.emplace(std::move(question), Known{made, std::move(about)});
  return made;
}

MatrixRef MadeTables::pick(const Side &from, const std::vector<int32_t> &picked, bool isFirst) {
  Words words(Asked::Pick);
  words.add(from).add(isFirst).add(picked);
  auto make = [&]() -> Answer {
    size_t width = from.others();
    std::vector<double> values;
    values.reserve(picked.size() * width);
    for (int32_t own : picked)
      values.insert(values.end(), from.row(own), from.row(own) + width);
    auto owns = static_cast<int32_t>(picked.size()), others = static_cast<int32_t>(width);
    return {isFirst ? makeMatrix(owns, others, std::move(values))
                    : makeMatrix(others, owns, std::move(values), /*byRow=*/false),
            {}};
  };
  return ask(std::move(words.words), std::move(words.about), make).matrix;
}

MatrixRef MadeTables::sum(const MatrixRef &a, const MatrixRef &b) {
  Words words(Asked::Sum);
  words.add(a).add(b);
  auto make = [&]() -> Answer {
    std::vector<double> values = a->byRow;
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::min(values[i] + b->byRow[i], kForbidden);
    return {makeMatrix(a->rows, a->columns, std::move(values)), {}};
  };
  return ask(std::move(words.words), std::move(words.about), make).matrix;
}

MadeTables::Least MadeTables::least(const std::vector<double> &cost,
                                    const std::vector<Side> &sides) {
  Words words(Asked::Least);
  words.add(cost);
  for (const Side &side : sides)
    words.add(side);
  auto make = [&]() -> Answer {
    // Columns run over the last end; with one there is one row.
    auto rows = static_cast<int32_t>(sides.size() < 2 ? 1 : sides.front().others());
    auto columns = static_cast<int32_t>(sides.empty() ? 1 : sides.back().others());
    const std::vector<double> none(cost.size(), 0.0);
    const double *outer = sides.size() < 2 ? none.data() : sides.front().row(0);
    const double *inner = sides.empty() ? none.data() : sides.back().row(0);
    std::vector<double> least(static_cast<size_t>(rows) * columns, 2 * kForbidden);
    std::vector<int32_t> best(least.size(), 0);
    std::vector<double> start(cost.size());
    for (int32_t i = 0; i < rows; ++i) {
      for (size_t own = 0; own < start.size(); ++own)
        start[own] = cost[own] + outer[own * rows + i];
      size_t begin = static_cast<size_t>(i) * columns;
      keepLeast(least.data() + begin, best.data() + begin, inner, start.data(),
                static_cast<int32_t>(cost.size()), columns);
    }
    for (double &one : least)
      one = std::min(one, kForbidden);
    return {makeMatrix(rows, columns, std::move(least)), listOf(std::move(best))};
  };
  Answer answer = ask(std::move(words.words), std::move(words.about), make);
  return {std::move(answer.matrix), std::move(answer.list)};
}

IndexList MadeTables::haveLegalPartners(const Side &side) {
  Words words(Asked::HaveLegalPartners);
  words.add(side);
  auto make = [&]() -> Answer {
    std::vector<int32_t> legal;
    for (size_t own = 0; own < side.own(); ++own)
      legal.push_back(std::any_of(side.row(own), side.row(own) + side.others(),
                                  [](double cost) { return !isForbidden(cost); }));
    return {{}, listOf(std::move(legal))};
  };
  return ask(std::move(words.words), std::move(words.about), make).list;
}

IndexList MadeTables::onlyPartners(const Side &side) {
  Words words(Asked::OnlyPartners);
  words.add(side);
  auto make = [&]() -> Answer {
    std::vector<int32_t> only;
    for (size_t own = 0; own < side.own(); ++own) {
      const double *row = side.row(own), *end = row + side.others();
      auto isLegal = [](double cost) { return !isForbidden(cost); };
      const double *first = std::find_if(row, end, isLegal);
      if (first != end && std::find_if(first + 1, end, isLegal) != end)
        return {};
      only.push_back(first == end ? 0 : static_cast<int32_t>(first - row));
    }
    return {{}, listOf(std::move(only))};
  };
  return ask(std::move(words.words), std::move(words.about), make).list;
}

IndexList MadeTables::undominated(const std::vector<double> &cost, const NodeMemory &memory,
                                  const std::vector<Side> &sides) {
  Words words(Asked::Undominated);
  words.add(cost).add(memory.bytes);
  for (const Side &side : sides)
    words.add(side);
  auto make = [&]() -> Answer {
    std::vector<Dominance::Edge> edges;
    for (const Side &side : sides)
      edges.push_back({side.row(0), side.others(), {}});
    Dominance dominance(cost, memory, std::move(edges));
    std::vector<bool> gone(cost.size(), false);
    for (size_t loser = 0; loser < cost.size(); ++loser)
      for (size_t winner = 0; winner < cost.size(); ++winner)
        if (winner != loser && !gone[winner] && dominance.holds(winner, loser)) {
          gone[loser] = true;
          break;
        }
    std::vector<int32_t> kept;
    for (size_t own = 0; own < cost.size(); ++own)
      if (!gone[own])
        kept.push_back(static_cast<int32_t>(own));
    return {{}, listOf(std::move(kept))};
  };
  return ask(std::move(words.words), std::move(words.about), make).list;
}

} // namespace autopar::planner
