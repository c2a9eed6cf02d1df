// SPDX-License-Identifier: Apache-2.0
// Few taps become gathers and weighted sums, many a product with a matrix.
#include "Interpolation.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

std::array<double, 4> mlir::autopar::cubicWeights(double t, double a) {
  auto near = [&](double x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [&](double x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// The whole factor by which every element is repeated; 0 if positions do anything else.
static int64_t repetition(ArrayRef<int64_t> positions, int64_t extent) {
  auto count = static_cast<int64_t>(positions.size());
  if (extent == 0 || count % extent)
    return 0;
  int64_t factor = count / extent;
  for (auto [i, position] : llvm::enumerate(positions))
    if (position != static_cast<int64_t>(i) / factor)
      return 0;
  return factor;
}

static Value pick(TensorBuilder &b, Value x, int64_t dim, ArrayRef<int64_t> positions) {
  Shape shape(TensorBuilder::shapeOf(x));
  int64_t factor = repetition(positions, shape[dim]);
  if (factor == 1)
    return x;
  if (factor == 0)
    return b.take(x, positions, dim);
  Shape wide(shape), merged(shape);
  wide.insert(wide.begin() + dim + 1, factor);
  merged[dim] *= factor;
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    dims.push_back(i <= dim ? i : i + 1);
  return b.reshape(b.broadcast(x, wide, dims), merged);
}

/// x times [result, source] along `dim`.
static Value byMatrix(TensorBuilder &b, Value x, int64_t dim, const Taps &taps, int64_t count) {
  int64_t extent = TensorBuilder::shapeOf(x)[dim], rank = TensorBuilder::rankOf(x);
  std::vector<double> matrix(count * extent, 0.0);
  for (int64_t i = 0; i < count; ++i)
    for (size_t k = 0; k < taps.perPosition; ++k)
      matrix[i * extent + taps.positions[i * taps.perPosition + k]] +=
          taps.weights[i * taps.perPosition + k];
  Value product =
      b.dot(x, b.floats(matrix, {count, extent}, TensorBuilder::elementOf(x)), {}, {}, {dim}, {1});
  SmallVector<int64_t> permutation; // the new dimension came last
  for (int64_t i = 0; i < rank; ++i)
    permutation.push_back(i < dim ? i : i == dim ? rank - 1 : i - 1);
  return b.transpose(product, permutation);
}

Value mlir::autopar::interpolate(TensorBuilder &b, Value x, int64_t dim, const Taps &taps) {
  if (taps.weights.empty())
    return pick(b, x, dim, taps.positions);
  auto count = static_cast<int64_t>(taps.positions.size() / taps.perPosition);
  if (taps.perPosition > 4)
    return byMatrix(b, x, dim, taps, count);
  Value sum;
  for (size_t k = 0; k < taps.perPosition; ++k) {
    SmallVector<int64_t> positions;
    SmallVector<double> weights;
    for (int64_t i = 0; i < count; ++i) {
      positions.push_back(taps.positions[i * taps.perPosition + k]);
      weights.push_back(taps.weights[i * taps.perPosition + k]);
    }
    if (llvm::all_of(weights, [](double weight) { return weight == 0; }))
      continue;
    Value taken = pick(b, x, dim, positions);
    Value factor = b.broadcast(b.floats(weights, {count}, TensorBuilder::elementOf(x)),
                               TensorBuilder::shapeOf(taken), {dim});
    Value term = b.mul(taken, factor);
    sum = sum ? b.add(sum, term) : term;
  }
  if (sum)
    return sum;
  Shape shape(TensorBuilder::shapeOf(x));
  shape[dim] = count;
  return b.splat(shape, TensorBuilder::elementOf(x), 0);
}
