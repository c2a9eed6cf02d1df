// SPDX-License-Identifier: Apache-2.0
// Panels of b are packed by the first tile that reads them. Meanwhile what the next block of b
// needs is fetched, line by line, since one pass over weights is bound by memory otherwise. Large
// products are seven of halves instead of eight (Strassen, "Gaussian elimination is not optimal",
// 1969); the sums of halves are made where operands are packed and results added, as in Huang,
// Smith, Henry and van de Geijn, "Strassen's algorithm reloaded", SC 2016.
#include "DenseProduct.h"
#include "DenseTiles.h"
#include "autopar/CpuMath/OpenMP.h"

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

namespace autopar::cpumath {
namespace {

/// Terms summed before a tile goes back to memory: longer panels of b leave the caches sooner.
constexpr int64_t kBlockDepth = 512;
/// Columns of a block of b: with its panels of a and c it fits the second cache.
constexpr int64_t kBlockColumns = 2 * kTileColumns, kWideBlockColumns = 8 * kTileColumns;
/// A whole packed a that the second and third cache hold.
constexpr int64_t kWholeABytes = 8 << 20;
constexpr int64_t kRowsAtOnce = 256;
/// Quarters that are worth seven products instead of eight. A gradient of weights, whose a lies
/// across, stays whole: its rows may differ by orders of magnitude, and a small one would get the
/// rounding errors of a large one. Products of whole numbers are cut into shorter sums than these,
/// since quarters are larger (kMostTerms of ExpandIntegerProducts.cpp).
constexpr int64_t kLeastHalfRows = 128, kLeastHalf = 384;

int64_t roundUp(int64_t value, int64_t step) { return (value + step - 1) / step * step; }

/// A quarter of a matrix, 2 * (lower half) + (right half), or two of them joined.
struct Quarters {
  int first, second = 0;
  Joined how = Joined::One;
};
/// A quarter of c to which a term goes; the first to arrive brings bias and addend.
struct Result {
  int quarter;
  bool isFirst = false, subtracts = false;
};
/// A product of quarters; only its second result may be subtracted.
struct Term {
  Quarters a, b;
  Result results[2];
  int resultCount;
};
using Terms = std::span<const Term>;

/// Quarter 0 is all of the matrix.
constexpr Term kWhole[] = {{{0}, {0}, {{0, true}}, 1}};
constexpr Term kStrassen[] = {
    {{0, 3, Joined::Sum}, {0, 3, Joined::Sum}, {{0, true}, {3, true}}, 2},
    {{2, 3, Joined::Sum}, {0}, {{2, true}, {3, false, true}}, 2},
    {{0}, {1, 3, Joined::Difference}, {{1, true}, {3}}, 2},
    {{3}, {2, 0, Joined::Difference}, {{0}, {2}}, 2},
    {{0, 1, Joined::Sum}, {3}, {{1}, {0, false, true}}, 2},
    {{2, 0, Joined::Difference}, {0, 1, Joined::Sum}, {{3}}, 1},
    {{1, 3, Joined::Difference}, {2, 3, Joined::Sum}, {{0}}, 1},
};

/// How a product is computed: its terms, the extents of the quarters that they multiply, how those
/// are cut, and the scratch that each thread takes. The same for all threads.
struct Blocking {
  Blocking(const ProductShape &quarter, Terms terms)
      : terms(terms), quarter(quarter), packsWholeA(wholeA() * 4 <= kWholeABytes),
        rows(packsWholeA ? quarter.rows : std::min(quarter.rows, kRowsAtOnce)),
        columns(std::min(packsWholeA ? kBlockColumns : kWideBlockColumns,
                         roundUp(quarter.columns, kTileColumns))) {}

  Terms terms;
  ProductShape quarter;
  bool packsWholeA;
  int64_t rows, columns; ///< of a that is packed at once; of a block of b

  int64_t elementsOfB() const { return columns * kBlockDepth; }
  int64_t scratchElements() const {
    int64_t part = roundUp(rows, kTileRows) * std::min(quarter.depth, kBlockDepth);
    return roundUp(elementsOfB() + (packsWholeA ? wholeA() : part), kFloatsPerLine);
  }
  Summands ofA(const float *a, Quarters of) const {
    return summands(a, of, quarter.rows * quarter.aRowStride, quarter.depth * quarter.aDepthStride);
  }
  Summands ofB(const float *b, Quarters of) const {
    return summands(b, of, quarter.depth * quarter.bDepthStride,
                    quarter.columns * quarter.bColumnStride);
  }
  int64_t columnOf(int index) const { return index % 2 * quarter.columns; }
  int64_t placeInC(int index) const {
    return index / 2 * quarter.rows * quarter.cRowStride + columnOf(index);
  }

private:
  /// Elements of a, packed for all terms.
  int64_t wholeA() const {
    return int64_t(terms.size()) * roundUp(quarter.rows, kTileRows) * quarter.depth;
  }
  static Summands summands(const float *data, Quarters of, int64_t down, int64_t right) {
    auto at = [&](int index) { return data + index / 2 * down + index % 2 * right; };
    return {at(of.first), of.how == Joined::One ? nullptr : at(of.second)};
  }
};

/// Calls `run` with a constant for how two blocks are joined.
template <typename Run>
void dispatch(Joined how, Run &&run) {
  switch (how) {
  case Joined::One:
    return run(std::integral_constant<Joined, Joined::One>());
  case Joined::Sum:
    return run(std::integral_constant<Joined, Joined::Sum>());
  case Joined::Difference:
    return run(std::integral_constant<Joined, Joined::Difference>());
  }
}

/// One thread's part of a product: some rows and columns of every quarter.
template <bool IsTerm>
class Worker {
public:
  Worker(const ProductShape &part, const DenseProduct::Operands &operands, const Blocking &blocking,
         float *scratch)
      : p(part), at(operands), blocking(blocking), packedB(scratch),
        packedA(scratch + blocking.elementsOfB()) {}

  void run() {
    int64_t terms = int64_t(blocking.terms.size());
    bool whole = blocking.packsWholeA;
    if (whole)
      for (int64_t t = 0; t < terms; ++t)
        for (int64_t k = 0; k < p.depth; k += kBlockDepth)
          pack(t, 0, p.rows, k, packedAt(t, k));
    for (int64_t j = 0; j < p.columns; j += blocking.columns)
      for (int64_t k = 0; k < p.depth; k += kBlockDepth)
        for (int64_t t = 0; t < terms; ++t) {
          bool isLastTerm = t + 1 == terms, isLastDepth = k + kBlockDepth >= p.depth;
          if (!isLastTerm)
            fetchB(t + 1, j, k);
          else if (!isLastDepth)
            fetchB(0, j, k + kBlockDepth);
          else
            fetchB(0, j + blocking.columns, 0);
          if (whole)
            multiply(t, packedAt(t, k), 0, p.rows, j, k);
          else
            multiplyInParts(t, j, k);
        }
  }

private:
  const ProductShape &p;
  const DenseProduct::Operands &at;
  const Blocking &blocking;
  float *packedB, *packedA;
  Fetches next;

  int64_t depthAt(int64_t k) const { return std::min(kBlockDepth, p.depth - k); }
  /// Where a that is packed whole lies for a term and a block of depth.
  float *packedAt(int64_t t, int64_t k) const {
    return packedA + roundUp(p.rows, kTileRows) * (t * p.depth + k);
  }

  void pack(int64_t t, int64_t i, int64_t rows, int64_t k, float *to) const {
    const Quarters &quarters = blocking.terms[size_t(t)].a;
    Summands from = blocking.ofA(at.a, quarters).at(i * p.aRowStride + k * p.aDepthStride);
    dispatch(quarters.how, [&](auto how) {
      packRows<decltype(how)::value>(from, p.aRowStride, p.aDepthStride, rows, depthAt(k), to);
    });
  }

  /// What term `t` reads of b in the block at column j and depth k is fetched from now on.
  void fetchB(int64_t t, int64_t j, int64_t k) {
    next.first = {};
    if (IsTerm)
      next.second = {};
    if (j >= p.columns)
      return;
    Summands from = blocking.ofB(at.b, blocking.terms[size_t(t)].b)
                        .at(j * p.bColumnStride + k * p.bDepthStride);
    int64_t columns = std::min(blocking.columns, p.columns - j);
    auto walk = [&](const float *data) {
      return p.bColumnStride == 1 ? LineWalk(data, depthAt(k), p.bDepthStride, columns)
                                  : LineWalk(data, columns, p.bColumnStride, depthAt(k));
    };
    next.first = walk(from.first);
    if (from.second)
      next.second = walk(from.second);
  }
  LineWalk blockOfA(int64_t i, int64_t k) const {
    if (k >= p.depth)
      return {};
    int64_t rows = std::min(blocking.rows, p.rows - i);
    const float *from = at.a + i * p.aRowStride + k * p.aDepthStride;
    return p.aRowStride == 1 ? LineWalk(from, depthAt(k), p.aDepthStride, rows)
                             : LineWalk(from, rows, p.aRowStride, depthAt(k));
  }

  /// Where a tile at a row and column of a quarter goes.
  TileTarget target(const Result &result, int64_t row, int64_t column, bool isFirstBlock) const {
    int64_t place = blocking.placeInC(result.quarter) + row * p.cRowStride + column;
    bool isFirst = isFirstBlock && result.isFirst;
    const float *addend = isFirst ? at.addend : at.c;
    return {at.c + place,
            at.bias && isFirst ? at.bias + blocking.columnOf(result.quarter) + column : nullptr,
            addend ? addend + place : nullptr, result.subtracts};
  }

  void multiplyInParts(int64_t t, int64_t j, int64_t k) {
    for (int64_t i = 0; i < p.rows; i += blocking.rows) {
      int64_t rows = std::min(blocking.rows, p.rows - i);
      pack(t, i, rows, k, packedA);
      bool isLastRow = i + blocking.rows >= p.rows;
      if (!IsTerm)
        next.second = isLastRow ? blockOfA(0, k + kBlockDepth) : blockOfA(i + blocking.rows, k);
      multiply(t, packedA, i, rows, j, k);
    }
  }

  void multiply(int64_t t, const float *panels, int64_t firstRow, int64_t rows, int64_t j,
                int64_t k) {
    const Term &term = blocking.terms[size_t(t)];
    dispatch(term.b.how, [&](auto how) {
      multiplyAs<decltype(how)::value>(term, panels, firstRow, rows, j, k);
    });
  }

  template <Joined How>
  AUTOPAR_AVX512 void multiplyAs(const Term &term, const float *panels, int64_t firstRow,
                                 int64_t rows, int64_t j, int64_t k) {
    int64_t columns = std::min(blocking.columns, p.columns - j), depth = depthAt(k);
    Summands b = blocking.ofB(at.b, term.b);
    for (int64_t i = 0; i < rows; i += kTileRows)
      for (int64_t t = 0; t < columns; t += kTileColumns) {
        int64_t row = firstRow + i, column = j + t, here = std::min(kTileColumns, columns - t);
        TileStore store{p.cRowStride, std::min(kTileRows, rows - i), {}};
        for (int r = 0; r < term.resultCount; ++r)
          store.targets[r] = target(term.results[r], row, column, k == 0);
        const float *panelA = panels + i * depth;
        float *panelB = packedB + t * depth;
        Summands source = b.at(column * p.bColumnStride + k * p.bDepthStride);
        bool isFirst = row == 0, isFull = here == kTileColumns;
        if (isFirst && p.bColumnStride != 1)
          packColumns<How>(source, p.bColumnStride, here, depth, panelB);
        if (isFirst && p.bColumnStride == 1) {
          auto run = isFull ? tile<PanelB::Source, How, true, IsTerm>
                            : tile<PanelB::Source, How, false, IsTerm>;
          run(depth, panelA, source, p.bDepthStride, panelB, here, store, next);
        } else {
          auto run = isFull ? tile<PanelB::Packed, Joined::One, true, IsTerm>
                            : tile<PanelB::Packed, Joined::One, false, IsTerm>;
          run(depth, panelA, {panelB, nullptr}, 0, nullptr, here, store, next);
        }
      }
  }
};

/// A product shared out by columns or rows of its quarters, whichever are more.
struct SharedProduct {
  Blocking blocking;
  DenseProduct::Operands operands;
  float *scratch;

  void run(int64_t part, int64_t parts) const {
    ProductShape mine = blocking.quarter;
    DenseProduct::Operands at = operands;
    bool byColumns = mine.columns >= mine.rows;
    int64_t step = byColumns ? kTileColumns : kTileRows, all = byColumns ? mine.columns : mine.rows;
    int64_t tiles = (all + step - 1) / step;
    int64_t begin = std::min(all, tiles * part / parts * step),
            end = std::min(all, tiles * (part + 1) / parts * step);
    if (begin == end)
      return;
    (byColumns ? mine.columns : mine.rows) = end - begin;
    (byColumns ? at.b : at.a) += begin * (byColumns ? mine.bColumnStride : mine.aRowStride);
    int64_t place = begin * (byColumns ? 1 : mine.cRowStride);
    at.c += place;
    if (at.addend)
      at.addend += place;
    if (at.bias && byColumns)
      at.bias += begin;
    float *own = scratch + part * blocking.scratchElements();
    if (blocking.terms.size() == 1)
      Worker<false>(mine, at, blocking, own).run();
    else
      Worker<true>(mine, at, blocking, own).run();
  }
};

void runPart(void *data) {
  static_cast<SharedProduct *>(data)->run(omp_get_thread_num(), omp_get_num_threads());
}

/// What a product is computed in, one after the other: seven products of quarters and what odd
/// extents leave over, or all at once.
struct Piece {
  Blocking blocking;
  int64_t row = 0, column = 0, depth = 0; ///< where it begins
};

std::vector<Piece> pieces(const DenseProduct &p) {
  ProductShape quarter = p;
  quarter.rows = p.rows / 2 / kTileRows * kTileRows;
  quarter.columns = p.columns / 2 / kTileColumns * kTileColumns;
  quarter.depth = p.depth / 2 / kTileRows * kTileRows;
  bool gains = quarter.rows >= kLeastHalfRows && quarter.columns >= kLeastHalf &&
               quarter.depth >= kLeastHalf;
  if (p.aDepthStride != 1 || !gains)
    return {{Blocking(p, kWhole)}};
  int64_t rows = quarter.rows * 2, columns = quarter.columns * 2, depth = quarter.depth * 2;
  std::vector<Piece> result{{Blocking(quarter, kStrassen)}};
  auto add = [&](int64_t row, int64_t column, int64_t begin, int64_t rowCount,
                 int64_t columnCount) {
    ProductShape rest = p;
    rest.rows = rowCount;
    rest.columns = columnCount;
    rest.depth = p.depth - begin;
    if (rest.rows > 0 && rest.columns > 0 && rest.depth > 0)
      result.push_back({Blocking(rest, kWhole), row, column, begin});
  };
  add(0, 0, depth, rows, columns);
  add(0, columns, 0, rows, p.columns - columns);
  add(rows, 0, 0, p.rows - rows, p.columns);
  return result;
}

} // namespace

bool DenseProduct::isWorthwhile() const {
  static const bool hasAvx512 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return hasAvx512 && rows >= 64 && columns >= 2 * kTileColumns && depth >= 64;
}

int64_t DenseProduct::scratchBytes(int threads) const {
  int64_t elements = 0;
  for (const Piece &piece : pieces(*this))
    elements = std::max(elements, piece.blocking.scratchElements());
  return elements * 4 * threads;
}

void DenseProduct::run(const Operands &operands, void *scratch, int threads) const {
  for (const Piece &piece : pieces(*this)) {
    Operands at = operands;
    int64_t place = piece.row * cRowStride + piece.column;
    at.a += piece.row * aRowStride + piece.depth * aDepthStride;
    at.b += piece.depth * bDepthStride + piece.column * bColumnStride;
    at.c += place;
    if (at.bias)
      at.bias = piece.depth > 0 ? nullptr : at.bias + piece.column;
    if (piece.depth > 0)
      at.addend = at.c;
    else if (at.addend)
      at.addend += place;
    SharedProduct shared{piece.blocking, at, static_cast<float *>(scratch)};
    if (threads > 1)
      GOMP_parallel(runPart, &shared, unsigned(threads), 0);
    else
      shared.run(0, 1);
  }
}

} // namespace autopar::cpumath
