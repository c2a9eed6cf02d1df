// SPDX-License-Identifier: Apache-2.0
// Resize and Upsample: separable interpolation, one dimension after the other, at positions known
// at compile time.
#include "Interpolation.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {
struct Resizing {
  std::string mode, coordinates, nearest;
  double cubicCoefficient = -0.75, outsideValue = 0;
  bool excludeOutside = false, antialias = false;
};

/// One dimension to resize.
struct Line {
  int64_t in, out;
  double scale, roiStart = 0, roiEnd = 1;
};
} // namespace

/// Where result position `x` lies in the source.
static double sourceOf(const Resizing &how, const Line &line, int64_t position) {
  // The unrounded extent counts: a scale of 0.6 makes 4 positions 2.4.
  auto x = static_cast<double>(position), in = static_cast<double>(line.in);
  double out = in * line.scale;
  if (how.coordinates == "asymmetric")
    return x / line.scale;
  if (how.coordinates == "align_corners")
    return out == 1 ? 0 : x * (in - 1) / (out - 1);
  if (how.coordinates == "pytorch_half_pixel")
    return line.out == 1 ? 0 : (x + 0.5) / line.scale - 0.5;
  if (how.coordinates == "tf_half_pixel_for_nn")
    return (x + 0.5) / line.scale;
  if (how.coordinates == "tf_crop_and_resize")
    return out == 1 ? 0.5 * (line.roiStart + line.roiEnd) * (in - 1)
                    : line.roiStart * (in - 1) +
                          x * (line.roiEnd - line.roiStart) * (in - 1) / (out - 1);
  double offset = 0;
  if (how.coordinates == "half_pixel_symmetric")
    offset = in / 2 * (1 - static_cast<double>(line.out) / out);
  return offset + (x + 0.5) / line.scale - 0.5;
}

static int64_t nearestOf(const Resizing &how, double x) {
  if (how.nearest == "floor")
    return static_cast<int64_t>(std::floor(x));
  if (how.nearest == "ceil")
    return static_cast<int64_t>(std::ceil(x));
  if (how.nearest == "round_prefer_ceil")
    return static_cast<int64_t>(std::floor(x + 0.5));
  return static_cast<int64_t>(std::ceil(x - 0.5));
}

/// Offsets from the floor of a position, and weights at those offsets.
static std::pair<int64_t, SmallVector<double>> weightsAt(const Resizing &how, double fraction,
                                                         double scale) {
  double shrink = how.antialias ? std::min(scale, 1.0) : 1.0;
  bool cubic = how.mode == "cubic";
  if (shrink == 1 && !cubic)
    return {0, {1 - fraction, fraction}};
  if (shrink == 1) {
    auto weights = cubicWeights(fraction, how.cubicCoefficient);
    return {-1, {weights.begin(), weights.end()}};
  }
  // The filter widened to cover what the shrinking leaves out.
  auto start = static_cast<int64_t>(std::floor((cubic ? -2 : -1) / shrink) + 1);
  int64_t count = 2 - 2 * start;
  double a = how.cubicCoefficient, sum = 0;
  SmallVector<double> weights;
  for (int64_t i = start; i < start + count; ++i) {
    double x = std::abs((static_cast<double>(i) - fraction) * shrink), weight;
    if (!cubic)
      weight = std::max(0.0, 1 - x);
    else if (x <= 1)
      weight = ((a + 2) * x - (a + 3)) * x * x + 1;
    else
      weight = x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
    weights.push_back(weight);
    sum += weight;
  }
  for (double &weight : weights)
    weight /= sum;
  return {start, weights};
}

static Taps tapsOf(const Resizing &how, const Line &line) {
  Taps taps;
  // All taps are the one position, and their weights are 1 together.
  if (line.in == 1) {
    taps.positions.assign(line.out, 0);
    return taps;
  }
  for (int64_t position = 0; position < line.out; ++position) {
    double x = sourceOf(how, line, position);
    if (how.mode == "nearest") {
      taps.positions.push_back(std::clamp<int64_t>(nearestOf(how, x), 0, line.in - 1));
      continue;
    }
    double floor = std::floor(x), sum = 0;
    auto [start, weights] = weightsAt(how, x - floor, line.scale);
    taps.perPosition = weights.size();
    for (auto [i, weight] : llvm::enumerate(weights)) {
      int64_t at = static_cast<int64_t>(floor) + start + static_cast<int64_t>(i);
      if (how.excludeOutside && (at < 0 || at >= line.in))
        weight = 0;
      taps.positions.push_back(std::clamp<int64_t>(at, 0, line.in - 1));
      sum += weight;
    }
    for (double weight : weights)
      taps.weights.push_back(how.excludeOutside && sum != 0 ? weight / sum : weight);
  }
  return taps;
}

static Value resizeLine(Node &node, Value x, int64_t dim, const Resizing &how, const Line &line) {
  TensorBuilder &b = node.b;
  Value y = interpolate(b, x, dim, tapsOf(how, line));
  if (how.coordinates != "tf_crop_and_resize")
    return y;
  SmallVector<int64_t> inside;
  for (int64_t position = 0; position < line.out; ++position) {
    double at = sourceOf(how, line, position);
    inside.push_back(at >= 0 && at <= static_cast<double>(line.in - 1));
  }
  if (llvm::all_of(inside, [](int64_t flag) { return flag != 0; }))
    return y;
  Value mask = b.broadcast(b.cast(b.integers(inside), b.opBuilder().getI1Type()),
                           TensorBuilder::shapeOf(y), {dim});
  return b.select(mask, y, b.splatLike(y, how.outsideValue));
}

static LogicalResult resize(Node &node, const Resizing &how, ArrayRef<int64_t> dims,
                            ArrayRef<Line> lines) {
  TensorBuilder &b = node.b;
  constexpr int64_t mostPositions = 1 << 22;
  Value x = node.input(0);
  Type element = TensorBuilder::elementOf(x);
  bool computes = how.mode != "nearest";
  if (computes && !isa<FloatType>(element))
    x = b.cast(x, b.opBuilder().getF32Type());
  for (auto [dim, line] : llvm::zip(dims, lines)) {
    if (line.in < 1 || line.out < 0 || line.in > mostPositions || line.out > mostPositions ||
        !(line.scale > 1e-6) || !(line.scale < 1e9))
      return node.error("cannot resize extent " + Twine(line.in) + " to " + Twine(line.out));
    // Widened filters take many neighbours for each position.
    double taps = how.antialias ? 4 / std::min(line.scale, 1.0) : 4;
    constexpr double mostTaps = 1 << 24;
    if (taps * static_cast<double>(line.out) > mostTaps ||
        (how.antialias && static_cast<double>(line.in) * static_cast<double>(line.out) > mostTaps))
      return node.error("cannot resize extent " + Twine(line.in) + " to " + Twine(line.out) +
                        ": too many weights");
    if (line.in == line.out && line.scale == 1 && how.coordinates != "tf_crop_and_resize")
      continue;
    x = resizeLine(node, x, dim, how, line);
  }
  return node.result(b.cast(x, element));
}

/// Extents from sizes under a policy that keeps the aspect ratio.
static LogicalResult applyPolicy(Node &node, MutableArrayRef<Line> lines) {
  std::string policy = node.string("keep_aspect_ratio_policy", "stretch");
  if (policy == "stretch" || lines.empty())
    return success();
  if (policy != "not_larger" && policy != "not_smaller")
    return node.error(
        "attribute 'keep_aspect_ratio_policy' must be stretch, not_larger or not_smaller, "
        "not '" +
        Twine(policy) + "'");
  double scale = lines[0].scale;
  for (const Line &line : lines)
    scale = policy == "not_larger" ? std::min(scale, line.scale) : std::max(scale, line.scale);
  for (Line &line : lines) {
    line.scale = scale;
    line.out =
        static_cast<int64_t>(std::min(std::floor(scale * static_cast<double>(line.in) + 0.5), 1e9));
  }
  return success();
}

/// Scales or sizes, by the inputs given, for the dimensions of attribute `axes`.
static LogicalResult readLines(Node &node, size_t scalesInput, size_t sizesInput,
                               SmallVector<int64_t> &dims, SmallVector<Line> &lines) {
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  auto rank = static_cast<int64_t>(shape.size());
  dims = node.integers("axes").value_or(llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  if (failed(node.axes(dims, rank)))
    return failure();
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim + rank : dim;
  SmallVector<double> scales;
  SmallVector<int64_t> sizes;
  if (node.hasInput(scalesInput) && node.inputType(scalesInput).getNumElements() > 0) {
    FailureOr<SmallVector<double>> given = node.constantFloats(scalesInput);
    if (failed(given))
      return failure();
    scales = *given;
  } else if (node.hasInput(sizesInput)) {
    FailureOr<SmallVector<int64_t>> given = node.constantIntegers(sizesInput);
    if (failed(given))
      return failure();
    sizes = *given;
  } else {
    return node.error("has neither scales nor sizes");
  }
  if (scales.size() != dims.size() && sizes.size() != dims.size())
    return node.error("needs one scale or size per dimension");
  for (auto [i, dim] : llvm::enumerate(dims)) {
    auto in = static_cast<double>(shape[dim]);
    if (!scales.empty() && !(scales[i] > 0 && scales[i] < 1e9))
      return node.error("scales must be positive");
    Line line{shape[dim], 0, 1};
    line.scale = scales.empty() ? static_cast<double>(sizes[i]) / in : scales[i];
    line.out = scales.empty() ? sizes[i]
                              : static_cast<int64_t>(std::min(std::floor(in * scales[i]), 1e15));
    lines.push_back(line);
  }
  return sizes.empty() ? success() : applyPolicy(node, lines);
}

static LogicalResult checkModes(Node &node, const Resizing &how) {
  if (!llvm::is_contained({"nearest", "linear", "cubic"}, how.mode))
    return node.error("attribute 'mode' must be nearest, linear or cubic, not '" + Twine(how.mode) +
                      "'");
  if (!llvm::is_contained({"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                           "align_corners", "asymmetric", "tf_half_pixel_for_nn",
                           "tf_crop_and_resize"},
                          how.coordinates))
    return node.error("attribute 'coordinate_transformation_mode' = '" + Twine(how.coordinates) +
                      "' is unknown");
  if (!llvm::is_contained({"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"},
                          how.nearest))
    return node.error("attribute 'nearest_mode' = '" + Twine(how.nearest) + "' is unknown");
  return success();
}

static LogicalResult importResize(Node &node) {
  Resizing how{node.string("mode", "nearest"),
               node.string("coordinate_transformation_mode", "half_pixel"),
               node.string("nearest_mode", "round_prefer_floor"),
               node.floating("cubic_coeff_a", -0.75),
               node.floating("extrapolation_value", 0),
               node.integer("exclude_outside", 0) != 0,
               node.integer("antialias", 0) != 0};
  SmallVector<int64_t> dims;
  SmallVector<Line> lines;
  if (failed(checkModes(node, how)) || failed(readLines(node, 2, 3, dims, lines)))
    return failure();
  if (how.coordinates == "tf_crop_and_resize") {
    if (!node.hasInput(1))
      return node.inputError(1, "is needed for tf_crop_and_resize");
    FailureOr<SmallVector<double>> roi = node.constantFloats(1);
    if (failed(roi) || roi->size() != 2 * dims.size())
      return failed(roi) ? failure()
                         : node.inputError(1, "must hold a start and an end per dimension");
    for (auto [i, line] : llvm::enumerate(lines))
      line.roiStart = (*roi)[i], line.roiEnd = (*roi)[dims.size() + i];
  }
  return resize(node, how, dims, lines);
}

/// Version 10 of Resize, and Upsample: no choice of coordinates.
static LogicalResult importUpsample(Node &node) {
  Resizing how{node.string("mode", "nearest"), "asymmetric", "floor"};
  if (how.mode == "bilinear")
    how.mode = "linear";
  SmallVector<int64_t> dims;
  SmallVector<Line> lines;
  if (failed(checkModes(node, how)))
    return failure();
  if (auto scales = node.floats("scales")) {
    ArrayRef<int64_t> shape = node.inputType(0).getShape();
    if (scales->size() != shape.size())
      return node.error("needs one scale per dimension");
    for (auto [dim, scale] : llvm::enumerate(*scales)) {
      if (!(scale > 0 && scale < 1e9))
        return node.error("scales must be positive");
      dims.push_back(static_cast<int64_t>(dim));
      lines.push_back({shape[dim],
                       static_cast<int64_t>(
                           std::min(std::floor(static_cast<double>(shape[dim]) * scale), 1e15)),
                       scale});
    }
  } else if (failed(readLines(node, 1, 1, dims, lines))) {
    return failure();
  }
  return resize(node, how, dims, lines);
}

void mlir::autopar::addResizeOperators(OperatorTable &table) {
  table.add("Resize", {10, 10}, {2, 2}, "mode", importUpsample);
  table.add("Resize", {11}, {1, 4},
            "antialias axes coordinate_transformation_mode cubic_coeff_a exclude_outside "
            "extrapolation_value keep_aspect_ratio_policy mode nearest_mode",
            importResize);
  table.add("Upsample", {7, 8}, {1, 1}, "mode scales", importUpsample);
  table.add("Upsample", {9}, {2, 2}, "mode", importUpsample);
}
