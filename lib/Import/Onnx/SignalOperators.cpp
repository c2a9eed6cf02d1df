// SPDX-License-Identifier: Apache-2.0
// Fourier transforms as products with constant matrices of cosines and sines, and the mel filter
// bank.
#include "Node.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t mostMatrix = 1 << 24;

namespace {
/// A transform of `length` samples to `bins` results.
struct Transform {
  int64_t samples, length, bins;
  bool inverse;
  /// Inverse of the first half of a spectrum, whose other half is its mirror image.
  bool fromHalf = false;
};
} // namespace

/// cos or sin (2 pi n k / length) as [samples, bins]; weighted for an inverse.
static Value angles(TensorBuilder &b, const Transform &transform, bool sine, Type element) {
  std::vector<double> values;
  double scale = transform.inverse ? 1.0 / static_cast<double>(transform.length) : 1.0;
  for (int64_t n = 0; n < transform.samples; ++n)
    for (int64_t k = 0; k < transform.bins; ++k) {
      double angle = 2 * M_PI * static_cast<double>(n * k % transform.length) /
                     static_cast<double>(transform.length);
      bool mirrored = transform.fromHalf && n > 0 && 2 * n != transform.length;
      values.push_back((sine ? std::sin(angle) : std::cos(angle)) * scale * (mirrored ? 2 : 1));
    }
  return b.floats(values, {transform.samples, transform.bins}, element);
}

/// Transforms dimension `axis` of [.., 1 or 2]; the result is [.., 2], or [.., 1] from half a
/// spectrum.
static FailureOr<Value> transformAlong(Node &node, Value x, int64_t axis,
                                       const Transform &transform) {
  TensorBuilder &b = node.b;
  if (transform.length < 1 || transform.bins < 1 ||
      transform.samples > mostMatrix / std::max<int64_t>(transform.bins, 1))
    return node.error("a transform of " + Twine(transform.length) +
                      " samples is empty or too long");
  int64_t last = TensorBuilder::rankOf(x) - 1;
  Type element = TensorBuilder::elementOf(x);
  Value cosines = angles(b, transform, false, element), sines = angles(b, transform, true, element);
  auto part = [&](int64_t i) { return b.squeeze(b.sliceDim(x, last, i, 1), {last}); };
  auto product = [&](Value signal, Value matrix) {
    Value y = b.dot(signal, matrix, {}, {}, {axis}, {0});
    SmallVector<int64_t> permutation;
    for (int64_t i = 0; i < last; ++i)
      permutation.push_back(i < axis ? i : i == axis ? last - 1 : i - 1);
    return b.transpose(y, permutation);
  };
  // (re + i im)(cos -+ i sin)
  Value re = product(part(0), cosines), im = product(part(0), sines);
  im = transform.inverse ? im : b.unary(UnaryKind::Neg, im);
  if (TensorBuilder::shapeOf(x)[last] == 2) {
    Value fromImaginary = product(part(1), sines);
    re = transform.inverse ? b.sub(re, fromImaginary) : b.add(re, fromImaginary);
    im = b.add(im, product(part(1), cosines));
  }
  if (transform.fromHalf)
    return b.unsqueeze(re, {last});
  return b.concat({b.unsqueeze(re, {last}), b.unsqueeze(im, {last})}, last);
}

static FailureOr<int64_t> scalarInput(Node &node, size_t i) {
  FailureOr<SmallVector<int64_t>> given = node.constantIntegers(i);
  if (failed(given) || given->size() != 1)
    return failed(given) ? failure() : node.inputError(i, "must be a scalar");
  return given->front();
}

static LogicalResult importDft(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  int64_t rank = input.getRank(), given = node.integer("axis", node.version < 20 ? 1 : -2);
  if (rank < 2 || input.getShape().back() < 1 || input.getShape().back() > 2 ||
      !TensorBuilder::isFloat(node.input(0)))
    return node.inputError(0, "must be floats [..., 1] or [..., 2]");
  if (node.version >= 20 && node.hasInput(2)) {
    FailureOr<int64_t> axis = scalarInput(node, 2);
    if (failed(axis))
      return failure();
    given = *axis;
  }
  FailureOr<int64_t> axis = node.axis(given, rank);
  if (failed(axis) || *axis == rank - 1)
    return failed(axis) ? failure() : node.error("the last dimension cannot be transformed");
  bool inverse = node.integer("inverse", 0) != 0, half = node.integer("onesided", 0) != 0;
  int64_t extent = input.getDimSize(*axis), length = inverse && half ? 2 * (extent - 1) : extent;
  if (node.hasInput(1)) {
    FailureOr<int64_t> wanted = scalarInput(node, 1);
    if (failed(wanted))
      return failure();
    length = *wanted;
  }
  if (length < 1 || length > mostMatrix)
    return node.error("a transform of " + Twine(length) + " samples is empty or too long");
  int64_t used = inverse && half ? length / 2 + 1 : length;
  Value x = node.input(0);
  if (used < extent)
    x = b.sliceDim(x, *axis, 0, used);
  Transform transform{std::min(used, extent), length, half && !inverse ? length / 2 + 1 : length,
                      inverse, inverse && half};
  FailureOr<Value> y = transformAlong(node, x, *axis, transform);
  return failed(y) ? failure() : node.result(*y);
}

static LogicalResult importStft(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  if (input.getRank() < 2 || input.getRank() > 3 || !TensorBuilder::isFloat(node.input(0)))
    return node.inputError(0, "must be floats [batch, samples, 1 or 2]");
  Value signal = input.getRank() == 2 ? b.unsqueeze(node.input(0), {2}) : node.input(0);
  int64_t samples = input.getDimSize(1), length = samples;
  FailureOr<int64_t> step = scalarInput(node, 1);
  if (failed(step))
    return failure();
  if (node.hasInput(2))
    length = node.inputType(2).getNumElements();
  if (node.hasInput(3)) {
    FailureOr<int64_t> given = scalarInput(node, 3);
    if (failed(given))
      return failure();
    length = *given;
  }
  if (*step < 1 || length < 1 || length > samples)
    return node.error("frame step " + Twine(*step) + " and length " + Twine(length) +
                      " do not fit " + Twine(samples) + " samples");
  int64_t frames = (samples - length) / *step + 1, batch = input.getDimSize(0),
          parts = TensorBuilder::shapeOf(signal)[2];
  if (frames > mostMatrix / length)
    return node.error("has too many frames");
  SmallVector<int64_t> positions;
  for (int64_t frame = 0; frame < frames; ++frame)
    for (int64_t i = 0; i < length; ++i)
      positions.push_back(frame * *step + i);
  Value framed = b.reshape(b.take(signal, positions, 1), {batch, frames, length, parts});
  if (node.hasInput(2)) {
    Value window = node.input(2);
    if (node.inputType(2).getRank() != 1 || node.inputType(2).getDimSize(0) != length)
      return node.inputError(2, "must hold " + Twine(length) + " numbers");
    framed = b.mul(framed, b.broadcast(window, TensorBuilder::shapeOf(framed), {2}));
  }
  bool half = node.integer("onesided", 1) != 0;
  FailureOr<Value> y =
      transformAlong(node, framed, 2, {length, length, half ? length / 2 + 1 : length, false});
  return failed(y) ? failure() : node.result(*y);
}

/// Triangular filters, evenly spaced on the mel scale 2595 log10(1 + hertz / 700).
static LogicalResult importMelWeightMatrix(Node &node) {
  FailureOr<int64_t> filters = scalarInput(node, 0), length = scalarInput(node, 1),
                     rate = scalarInput(node, 2);
  FailureOr<SmallVector<double>> low = node.constantFloats(3), high = node.constantFloats(4);
  FailureOr<Type> element = node.elementType("output_datatype", node.b.opBuilder().getF32Type());
  if (failed(filters) || failed(length) || failed(rate) || failed(low) || failed(high) ||
      failed(element))
    return failure();
  if (*filters < 1 || *length < 1 || *rate < 1 || *length > mostMatrix ||
      *filters > mostMatrix / *length || low->size() != 1 || high->size() != 1 ||
      !isa<FloatType>(*element))
    return node.error("sizes must be positive, and not too large, edges scalars");
  int64_t bins = *length / 2 + 1;
  auto toMel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  double first = toMel(low->front()),
         step = (toMel(high->front()) - first) / static_cast<double>(*filters + 2);
  SmallVector<int64_t> edges;
  for (int64_t i = 0; i < *filters + 2; ++i) {
    double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + first) / 2595) - 1);
    double bin = std::floor(static_cast<double>(*length + 1) * hertz / static_cast<double>(*rate));
    if (!(bin >= 0 && bin < static_cast<double>(bins)))
      return node.error("an edge lies outside the spectrum");
    edges.push_back(static_cast<int64_t>(bin));
  }
  std::vector<double> weights(bins * *filters, 0.0);
  for (int64_t i = 0; i < *filters; ++i) {
    int64_t lower = edges[i], center = edges[i + 1], upper = edges[i + 2];
    if (center == lower)
      weights[center * *filters + i] = 1;
    for (int64_t j = lower; center != lower && j <= center; ++j)
      weights[j * *filters + i] =
          static_cast<double>(j - lower) / static_cast<double>(center - lower);
    for (int64_t j = center; upper > center && j < upper; ++j)
      weights[j * *filters + i] =
          static_cast<double>(upper - j) / static_cast<double>(upper - center);
  }
  Value matrix = node.b.floats(weights, {bins, *filters}, node.b.opBuilder().getF32Type());
  return node.result(node.b.cast(matrix, *element));
}

void mlir::autopar::addSignalOperators(OperatorTable &table) {
  table.add("DFT", {17, 19}, {1, 2}, "axis inverse onesided", importDft);
  table.add("DFT", {20}, {1, 3}, "inverse onesided", importDft);
  table.add("STFT", {17}, {2, 4}, "onesided", importStft);
  table.add("MelWeightMatrix", {17}, {5, 5}, "output_datatype", importMelWeightMatrix);
}
