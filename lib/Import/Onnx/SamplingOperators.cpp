// SPDX-License-Identifier: Apache-2.0
// Sampling of images at positions computed at run time: GridSample, DeformConv, RoiAlign,
// AffineGrid, and onnxruntime's CropAndResize.
#include "Convolutions.h"
#include "Interpolation.h"
#include "NumberArithmetic.h"
#include "TensorData.h"
#include "WindowGeometry.h"

#include <array>
#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

//===-- grid sample --------------------------------------------------------------------------===//

namespace {
struct GridSampling {
  std::string mode, padding;
  bool alignCorners;
};

/// One neighbour along one dimension: its position, its weight, and whether it lies inside.
struct Neighbour {
  Value position, weight, inside;
};
} // namespace

/// Folds positions back and forth into [low, high].
static Value reflect(TensorBuilder &b, Value x, double low, double high) {
  double range = high - low;
  if (range <= 0)
    return b.splatLike(x, 0);
  Value distance = b.unary(UnaryKind::Abs, scaled(b, x, 1, -low));
  Value turns = b.unary(UnaryKind::Floor, scaled(b, distance, 1 / (2 * range), 0));
  Value rest = b.sub(distance, scaled(b, turns, 2 * range, 0));
  Value folded = b.minimum(rest, b.sub(b.splatLike(rest, 2 * range), rest));
  return scaled(b, folded, 1, low);
}

/// Brings positions inside as the padding mode says.
static Value padPosition(TensorBuilder &b, const GridSampling &how, Value x, int64_t extent) {
  auto last = static_cast<double>(extent - 1);
  if (how.padding == "border")
    return clamp(b, x, 0, last);
  if (how.padding == "reflection")
    return how.alignCorners ? reflect(b, x, 0, last) : reflect(b, x, -0.5, last + 0.5);
  return x;
}

/// Those that make up the value at positions `x` of an image's dimension.
static SmallVector<Neighbour> neighbours(TensorBuilder &b, const GridSampling &how, Value x,
                                         int64_t extent) {
  auto last = static_cast<double>(extent - 1);
  auto neighbour = [&](Value position, Value weight) {
    Value at = padPosition(b, how, position, extent);
    Value inside;
    if (how.padding == "zeros")
      inside = b.binary(
          BinaryKind::And,
          b.compare(ComparePredicate::Ge, at, b.scalar(TensorBuilder::elementOf(at), 0.0)),
          b.compare(ComparePredicate::Le, at, b.scalar(TensorBuilder::elementOf(at), last)));
    return Neighbour{b.cast(clamp(b, at, 0, last), b.opBuilder().getI64Type()), weight, inside};
  };
  if (how.mode == "nearest")
    return {neighbour(b.unary(UnaryKind::Round, padPosition(b, how, x, extent)), Value())};
  if (how.mode == "linear")
    x = padPosition(b, how, x, extent);
  Value floor = b.unary(UnaryKind::Floor, x), t = b.sub(x, floor);
  if (how.mode == "linear")
    return {neighbour(floor, b.sub(b.splatLike(t, 1), t)), neighbour(scaled(b, floor, 1, 1), t)};
  constexpr double a = -0.75;
  auto near = [&](Value d) {
    return scaled(b, b.mul(b.mul(d, d), scaled(b, d, a + 2, -(a + 3))), 1, 1);
  };
  auto far = [&](Value d) {
    return scaled(b, b.mul(scaled(b, b.mul(scaled(b, d, a, -5 * a), d), 1, 8 * a), d), 1, -4 * a);
  };
  Value back = b.sub(b.splatLike(t, 1), t);
  return {neighbour(scaled(b, floor, 1, -1), far(scaled(b, t, 1, 1))), neighbour(floor, near(t)),
          neighbour(scaled(b, floor, 1, 1), near(back)),
          neighbour(scaled(b, floor, 1, 2), far(scaled(b, back, 1, 1)))};
}

/// image [n, spatial..., c] at positions [n, points...] per spatial dimension: [n, points..., c].
static Value sampleAt(TensorBuilder &b, Value image, ArrayRef<Value> positions) {
  SmallVector<Value> columns;
  int64_t last = TensorBuilder::rankOf(positions.front());
  for (Value position : positions)
    columns.push_back(b.unsqueeze(position, {last}));
  auto dims = llvm::to_vector(llvm::seq<int64_t>(1, 1 + static_cast<int64_t>(positions.size())));
  return b.gather(image, b.concat(columns, last), dims, 1);
}

/// An image [n, spatial..., c] between its pixels: [n, points..., c].
static Value sampleBetween(TensorBuilder &b, Value image, ArrayRef<SmallVector<Neighbour>> perDim) {
  Type element = TensorBuilder::elementOf(image);
  Value sum;
  SmallVector<size_t> choice(perDim.size(), 0);
  for (bool more = true; more;) {
    SmallVector<Value> positions;
    Value weight, inside;
    for (auto [neighbours, chosen] : llvm::zip(perDim, choice)) {
      const Neighbour &at = neighbours[chosen];
      positions.push_back(at.position);
      if (at.weight)
        weight = weight ? b.mul(weight, at.weight) : at.weight;
      if (at.inside)
        inside = inside ? b.binary(BinaryKind::And, inside, at.inside) : at.inside;
    }
    Value taken = sampleAt(b, image, positions);
    auto perPixel = [&](Value value) { return b.unsqueeze(value, {TensorBuilder::rankOf(value)}); };
    if (inside)
      taken = b.select(perPixel(inside), taken, b.splatLike(taken, 0));
    if (weight)
      taken = b.mul(taken, b.cast(perPixel(weight), element));
    sum = sum ? b.add(sum, taken) : taken;
    more = false;
    for (size_t i = perDim.size(); i-- > 0 && !more;) {
      more = ++choice[i] < perDim[i].size();
      choice[i] = more ? choice[i] : 0;
    }
  }
  return sum;
}

static LogicalResult importGridSample(Node &node) {
  TensorBuilder &b = node.b;
  GridSampling how{node.string("mode", "linear"), node.string("padding_mode", "zeros"),
                   node.integer("align_corners", 0) != 0};
  how.mode = how.mode == "bilinear" ? "linear" : how.mode == "bicubic" ? "cubic" : how.mode;
  if (!llvm::is_contained({"nearest", "linear", "cubic"}, how.mode) ||
      !llvm::is_contained({"zeros", "border", "reflection"}, how.padding))
    return node.error("mode '" + Twine(how.mode) + "' or padding_mode '" + how.padding +
                      "' is unknown");
  ArrayRef<int64_t> image = node.inputType(0).getShape(), grid = node.inputType(1).getShape();
  auto spatial = static_cast<int64_t>(image.size()) - 2;
  if (spatial < 1 || spatial > 3 || grid.size() != image.size() || grid.back() != spatial ||
      grid[0] != image[0] || !TensorBuilder::isFloat(node.input(1)))
    return node.error("grid " + printShape(grid) + " does not fit image " + printShape(image));
  std::vector<SmallVector<Neighbour>> perDim;
  for (int64_t i = 0; i < spatial; ++i) { // coordinates name the last dimension first
    Value coordinate =
        b.squeeze(b.sliceDim(node.input(1), spatial + 1, spatial - 1 - i, 1), {spatial + 1});
    auto extent = static_cast<double>(image[i + 2]), half = (extent - 1) / 2;
    Value position = scaled(b, coordinate, how.alignCorners ? half : extent / 2, half);
    perDim.push_back(neighbours(b, how, position, image[i + 2]));
  }
  SmallVector<int64_t> channelsBack{0, spatial + 1};
  for (int64_t i = 0; i < spatial; ++i)
    channelsBack.push_back(i + 1);
  Value sampled = sampleBetween(b, channelsToEnd(b, node.input(0)), perDim);
  return node.result(b.transpose(sampled, channelsBack));
}

//===-- deformable convolution ---------------------------------------------------------------===//

/// A convolution whose filter elements read at positions of their own: what they read, times the
/// filter. Groups of channels that share positions are images of their own while it is read.
static LogicalResult importDeformConv(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> image = node.inputType(0).getShape(), filter = node.inputType(1).getShape(),
                    offset = node.inputType(2).getShape();
  auto spatial = static_cast<int64_t>(image.size()) - 2;
  int64_t groups = node.integer("group", 1), shared = node.integer("offset_group", 1);
  if (spatial < 1 || spatial > 3 || filter.size() != image.size() || groups < 1 || shared < 1 ||
      groups > image[1] || shared > image[1] || filter[1] * groups != image[1] ||
      filter[0] % groups || image[1] % shared)
    return node.error("filter " + printShape(filter) + " in " + Twine(groups) + " and " +
                      Twine(shared) + " groups does not fit image " + printShape(image));
  Shape kernel(filter.drop_front(2));
  if (auto given = node.integers("kernel_shape"); given && *given != kernel)
    return node.error("attribute 'kernel_shape' differs from the filter " + printShape(filter));
  FailureOr<WindowGeometry> window = readWindow(node, image.drop_front(2), kernel);
  if (failed(window) || failed(checkFits(node, *window, image.drop_front(2))))
    return failure();
  int64_t elements = llvm::product_of(kernel);
  if (!checkedTensorType({image[0], shared, elements, spatial}, node.inputType(0).getElementType()))
    return node.error("filter " + printShape(filter) + " is too large");
  int64_t images = image[0] * shared;
  Shape places{images}, expected{image[0], shared * elements * spatial}; // of filter and result
  llvm::append_range(places, kernel);
  for (int64_t i = 0; i < spatial; ++i) {
    int64_t padded = image[i + 2] + window->padBegin[i] + window->padEnd[i];
    places.push_back((padded - window->extent(i)) / window->strides[i] + 1);
    expected.push_back(places.back());
  }
  if (offset != ArrayRef<int64_t>(expected))
    return node.inputError(2, "must be of shape " + printShape(expected));
  expected[1] = shared * elements;
  if (node.hasInput(4) && node.inputType(4).getShape() != ArrayRef<int64_t>(expected))
    return node.inputError(4, "must be of shape " + printShape(expected));

  Type element = node.inputType(0).getElementType(),
       exact = element.isF64() ? element : Type(b.opBuilder().getF32Type());
  Shape perDimension(places);
  perDimension.insert(perDimension.begin() + 1 + spatial, spatial);
  Value moved = b.cast(b.reshape(node.input(2), perDimension), exact);
  std::vector<SmallVector<Neighbour>> perDim;
  for (int64_t i = 0; i < spatial; ++i) {
    auto step = static_cast<double>(window->strides[i]), start = -double(window->padBegin[i]);
    Value base = b.add(scaled(b, b.iota(places, exact, 1 + i), double(window->dilations[i]), start),
                       scaled(b, b.iota(places, exact, 1 + spatial + i), step, 0));
    Value position = b.add(base, b.squeeze(b.sliceDim(moved, 1 + spatial, i, 1), {1 + spatial}));
    perDim.push_back(neighbours(b, {"linear", "zeros", true}, position, image[i + 2]));
  }
  int64_t points = llvm::product_of(ArrayRef<int64_t>(places).take_back(spatial));
  Shape split{images, image[1] / shared};
  llvm::append_range(split, image.drop_front(2));
  Value read = sampleBetween(b, channelsToEnd(b, b.reshape(node.input(0), split)), perDim);
  if (node.hasInput(4))
    read = b.mul(read, b.unsqueeze(b.reshape(node.input(4), places), {1 + 2 * spatial}));
  // [images, elements, points, channels] -> [n, groups, channels * elements, points]
  read = b.transpose(b.reshape(read, {images, elements, points, split[1]}), {0, 3, 1, 2});
  read = b.reshape(read, {image[0], groups, filter[1] * elements, points});
  Value weights = b.reshape(node.input(1), {groups, filter[0] / groups, filter[1] * elements});
  Value product = b.transpose(b.dot(weights, read, {0}, {1}, {2}, {2}), {2, 0, 1, 3});
  Shape result{image[0], filter[0]};
  llvm::append_range(result, ArrayRef<int64_t>(places).take_back(spatial));
  product = b.reshape(product, result);
  return node.result(node.hasInput(3) ? addChannelBias(b, product, node.input(3)) : product);
}

//===-- regions ------------------------------------------------------------------------------===//

namespace {
/// Positions of samples along one dimension of all regions: [regions, bins, samples].
struct RegionLine {
  Value low, high;             ///< i64
  Value lowWeight, highWeight; ///< f32
  Value inside;
};
} // namespace

static RegionLine regionLine(TensorBuilder &b, Value start, Value binSize, int64_t bins,
                             int64_t samples, int64_t extent) {
  Type element = TensorBuilder::elementOf(start), i64 = b.opBuilder().getI64Type();
  Shape shape{TensorBuilder::shapeOf(start)[0], bins, samples};
  Value bin = b.iota(shape, element, 1), sample = scaled(b, b.iota(shape, element, 2), 1, 0.5);
  Value steps = b.add(bin, scaled(b, sample, 1.0 / static_cast<double>(samples), 0));
  Value x = b.add(b.broadcast(start, shape, {0}), b.mul(steps, b.broadcast(binSize, shape, {0})));
  auto last = static_cast<double>(extent - 1);
  Value inside =
      b.binary(BinaryKind::And, b.compare(ComparePredicate::Ge, x, b.scalar(element, -1.0)),
               b.compare(ComparePredicate::Le, x, b.scalar(element, static_cast<double>(extent))));
  x = clamp(b, x, 0, last);
  Value low = b.unary(UnaryKind::Floor, x), t = b.sub(x, low);
  Value high = b.binary(BinaryKind::Min, scaled(b, low, 1, 1), last);
  return {b.cast(low, i64), b.cast(high, i64), b.sub(b.splatLike(t, 1), t), t, inside};
}

static LogicalResult importRoiAlign(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> image = node.inputType(0).getShape(), rois = node.inputType(1).getShape();
  int64_t height = node.integer("output_height", 1), width = node.integer("output_width", 1),
          samples = node.integer("sampling_ratio", 0);
  std::string mode = node.string("mode", "avg"),
              coordinates = node.string("coordinate_transformation_mode",
                                        node.version < 16 ? "output_half_pixel" : "half_pixel");
  if (samples < 1 || samples > 64)
    return node.error("needs sampling_ratio from 1 to 64: with 0 the number of samples depends on "
                      "run-time values");
  if (image.size() != 4 || rois.size() != 2 || rois[1] != 4 || height < 1 || width < 1 ||
      height > (1 << 16) || width > (1 << 16) || (mode != "avg" && mode != "max") ||
      node.inputType(2).getShape() != rois.take_front(1))
    return node.error(
        "needs an image [n, c, h, w], regions [k, 4] and k batch indices, mode avg or max");
  bool half = coordinates == "half_pixel";
  double scale = node.floating("spatial_scale", 1), offset = half ? -0.5 : 0;
  auto corner = [&](int64_t i) {
    return scaled(b, b.squeeze(b.sliceDim(node.input(1), 1, i, 1), {1}), scale, offset);
  };
  auto line = [&](Value start, Value end, int64_t bins, int64_t extent) {
    Value size = b.sub(end, start);
    if (!half)
      size = b.binary(BinaryKind::Max, size, 1.0);
    return regionLine(b, start, scaled(b, size, 1.0 / static_cast<double>(bins), 0), bins, samples,
                      extent);
  };
  RegionLine y = line(corner(1), corner(3), height, image[2]),
             x = line(corner(0), corner(2), width, image[3]);
  Shape points{rois[0], height, samples, width, samples};
  Value batch = b.broadcast(b.cast(node.input(2), b.opBuilder().getI64Type()), points, {0});
  auto rows = [&](Value v) { return b.broadcast(v, points, {0, 1, 2}); };
  auto columns = [&](Value v) { return b.broadcast(v, points, {0, 3, 4}); };
  Value pixels = b.transpose(node.input(0), {0, 2, 3, 1}),
        inside = b.binary(BinaryKind::And, rows(y.inside), columns(x.inside)), result;
  Type element = TensorBuilder::elementOf(pixels);
  for (int corner = 0; corner < 4; ++corner) {
    bool top = corner < 2, left = corner % 2 == 0;
    Value positions =
        b.concat({b.unsqueeze(batch, {5}), b.unsqueeze(rows(top ? y.low : y.high), {5}),
                  b.unsqueeze(columns(left ? x.low : x.high), {5})},
                 5);
    Value weight =
        b.mul(rows(top ? y.lowWeight : y.highWeight), columns(left ? x.lowWeight : x.highWeight));
    Value term =
        b.mul(b.gather(pixels, positions, {0, 1, 2}, 0), b.cast(b.unsqueeze(weight, {5}), element));
    result = !result ? term : mode == "avg" ? b.add(result, term) : b.maximum(result, term);
  }
  result = b.select(b.unsqueeze(inside, {5}), result, b.splatLike(result, 0));
  result = b.reduce(mode == "avg" ? ReduceKind::Sum : ReduceKind::Max, result, {2, 4});
  if (mode == "avg")
    result = b.binary(BinaryKind::Div, result, static_cast<double>(samples * samples));
  return node.result(b.transpose(result, {0, 3, 1, 2}));
}

/// Positions in [0, extent - 1] of the bins of all regions, whose ends are given as shares of it.
static Value cropLine(TensorBuilder &b, Value start, Value end, int64_t bins, int64_t extent) {
  Type element = TensorBuilder::elementOf(start);
  auto last = static_cast<double>(extent - 1);
  Shape shape{TensorBuilder::shapeOf(start)[0], bins};
  auto each = [&](Value v) { return b.broadcast(v, shape, {0}); };
  if (bins == 1)
    return each(scaled(b, scaled(b, b.add(start, end), 0.5, 0), last, 0));
  Value step = b.binary(BinaryKind::Div, scaled(b, b.sub(end, start), last, 0),
                        static_cast<double>(bins - 1));
  Value bin = b.iota(shape, element, 1);
  Value x = b.add(each(scaled(b, start, last, 0)), b.mul(bin, each(step)));
  Value isLast = b.compare(ComparePredicate::Eq, bin, b.splat(shape, element, bins - 1.0));
  return b.select(isLast, each(scaled(b, end, last, 0)), x); // however the steps were rounded
}

/// Regions of images, stretched to one size with corners on corners.
static LogicalResult importCropAndResize(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> image = node.inputType(0).getShape(), rois = node.inputType(1).getShape();
  FailureOr<SmallVector<int64_t>> size = node.constantIntegers(3);
  if (failed(size))
    return failure();
  std::string mode = node.string("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest")
    return node.error("attribute 'mode' must be bilinear or nearest, not '" + mode + "'");
  if (image.size() != 4 || rois.size() != 2 || rois[1] != 4 || size->size() != 2 ||
      llvm::any_of(*size, [](int64_t n) { return n < 1 || n > (1 << 16); }) ||
      node.inputType(2).getShape() != rois.take_front(1))
    return node.error("needs an image [n, c, h, w], regions [k, 4], k batch indices and a height "
                      "and a width of 1 to 65536");
  auto corner = [&](int64_t i) { return b.squeeze(b.sliceDim(node.input(1), 1, i, 1), {1}); };
  Shape points{rois[0], (*size)[0], (*size)[1]};
  Type i64 = b.opBuilder().getI64Type(), element = node.inputType(0).getElementType();
  Value pixels = b.transpose(node.input(0), {0, 2, 3, 1}), inside;
  Value batch = b.broadcast(b.cast(node.input(2), i64), points, {0});
  std::array<Value, 2> low, high, part; // of rows and columns
  for (int64_t dim : {0, 1}) {
    auto last = static_cast<double>(image[2 + dim] - 1);
    Value x = cropLine(b, corner(dim), corner(2 + dim), (*size)[dim], image[2 + dim]);
    Value isIn = b.binary(BinaryKind::And, b.compare(ComparePredicate::Ge, x, b.splatLike(x, 0)),
                          b.compare(ComparePredicate::Le, x, b.splatLike(x, last)));
    x = clamp(b, x, 0, last);
    Value floor = b.unary(UnaryKind::Floor, x), ceil = b.unary(UnaryKind::Ceil, x),
          t = b.sub(x, floor);
    if (mode == "nearest") // of both the upper one
      floor = b.select(b.compare(ComparePredicate::Ge, t, b.splatLike(t, 0.5)), ceil, floor);
    auto spread = [&](Value v) { return b.broadcast(v, points, {0, 1 + dim}); };
    low[dim] = spread(b.cast(floor, i64)), high[dim] = spread(b.cast(ceil, i64));
    part[dim] = b.unsqueeze(spread(b.cast(t, element)), {3});
    inside = dim ? b.binary(BinaryKind::And, inside, spread(isIn)) : spread(isIn);
  }
  auto at = [&](Value row, Value column) {
    SmallVector<Value> places;
    for (Value place : {batch, row, column})
      places.push_back(b.unsqueeze(place, {3}));
    return b.gather(pixels, b.concat(places, 3), {0, 1, 2}, 0);
  };
  auto between = [&](Value a, Value c, Value t) { return b.add(a, b.mul(b.sub(c, a), t)); };
  Value y = at(low[0], low[1]);
  if (mode == "bilinear") {
    y = between(y, at(low[0], high[1]), part[1]);
    Value below = between(at(high[0], low[1]), at(high[0], high[1]), part[1]);
    y = between(y, below, part[0]);
  }
  y = b.select(b.unsqueeze(inside, {3}), y,
               b.splatLike(y, node.floating("extrapolation_value", 0)));
  return node.result(b.transpose(y, {0, 3, 1, 2}));
}

/// Grids for GridSample from affine matrices: a constant grid of positions times each matrix.
static LogicalResult importAffineGrid(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> size = node.constantIntegers(1);
  if (failed(size))
    return failure();
  auto spatial = static_cast<int64_t>(size->size()) - 2;
  RankedTensorType theta = node.inputType(0);
  if ((spatial != 2 && spatial != 3) ||
      theta.getShape() != ArrayRef<int64_t>{(*size)[0], spatial, spatial + 1} ||
      llvm::any_of(*size, [](int64_t v) { return v < 1; }))
    return node.error("needs matrices [n, 2, 3] or [n, 3, 4] and a size to match");
  Shape points(ArrayRef<int64_t>(*size).drop_front(2));
  Type element = theta.getElementType();
  bool align = node.integer("align_corners", 0) != 0;
  SmallVector<Value> coordinates;
  for (int64_t i = spatial; i-- > 0;) { // the last dimension is x
    auto extent = static_cast<double>(points[i]);
    double step = align ? (points[i] > 1 ? 2 / (extent - 1) : 0) : 2 / extent;
    double first = align ? (points[i] > 1 ? -1 : 0) : -1 + 1 / extent;
    coordinates.push_back(
        b.unsqueeze(scaled(b, b.iota(points, element, i), step, first), {spatial}));
  }
  Shape ones(points);
  ones.push_back(1);
  coordinates.push_back(b.splat(ones, element, 1));
  Value base = b.concat(coordinates, spatial);
  // [n, spatial, spatial + 1] x [points..., spatial + 1] -> [n, spatial, points...]
  Value grid = b.dot(node.input(0), base, {}, {}, {2}, {spatial});
  SmallVector<int64_t> permutation{0};
  for (int64_t i = 0; i < spatial; ++i)
    permutation.push_back(i + 2);
  permutation.push_back(1);
  return node.result(b.transpose(grid, permutation));
}

void mlir::autopar::addSamplingOperators(OperatorTable &table) {
  table.add("GridSample", {16}, {2, 2}, "align_corners mode padding_mode", importGridSample);
  table.inDomain("com.microsoft");
  table.add("GridSample", {1}, {2, 2}, "align_corners mode padding_mode", importGridSample);
  table.add("CropAndResize", {1}, {4, 4}, "extrapolation_value mode", importCropAndResize);
  table.inDomain("");
  table.add(
      "RoiAlign", {10}, {3, 3},
      "coordinate_transformation_mode mode output_height output_width sampling_ratio spatial_scale",
      importRoiAlign);
  table.add("AffineGrid", {20}, {2, 2}, "align_corners", importAffineGrid);
  table.refuse("MaxRoiPool", "its bins depend on run-time values; RoiAlign is supported");
  table.add("DeformConv", {19}, {3, 5}, "dilations group kernel_shape offset_group pads strides",
            importDeformConv);
}
