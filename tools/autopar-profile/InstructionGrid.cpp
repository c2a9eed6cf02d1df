// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "InstructionGrid.h"

#include "ProbeKernels.h"
#include "autopar/Artifact/Layout.h"
#include "autopar/CpuMath/PackedSize.h"

#include <algorithm>
#include <cmath>

namespace autopar::tools {
namespace {

using artifact::ConvolutionGeometry;
using artifact::ConvolutionKind;
using artifact::Layout;
using artifact::MatmulGeometry;
using artifact::StridedShape;

//===-- products ----------------------------------------------------------------------===//

/// Products of more FLOPs are left out.
constexpr double kMostFlops = 3e9;

StridedShape matrices(int64_t count, int64_t rows, int64_t columns, bool isTransposed) {
  StridedShape shape{{rows, columns}, {columns, 1}};
  if (isTransposed)
    shape.strides = {1, rows};
  if (count > 1) {
    shape.dims.insert(shape.dims.begin(), count);
    shape.strides.insert(shape.strides.begin(), rows * columns);
  }
  return shape;
}

struct ProductKind {
  bool isTransposedA = false, isTransposedB = false, isPacked = false, isFused = false;
  DataType a = DataType::F32, b = DataType::F32, c = DataType::F32;
};

std::optional<artifact::Payload> makeProduct(ProbeMemory &memory, const Point &at,
                                             const ProductKind &kind) {
  int64_t count = at[0], m = at[1], n = at[2], k = at[3];
  artifact::Matmul product;
  MatmulGeometry &g = product.geometry;
  g.aType = kind.a;
  g.bType = kind.b;
  g.cType = kind.c;
  g.a = matrices(count, m, k, kind.isTransposedA);
  g.b = matrices(count, k, n, kind.isTransposedB);
  g.c = matrices(count, m, n, false);
  g.packedB = kind.isPacked;
  if (kind.isFused)
    g.scale = 0.5f;
  int64_t bBytes = count * k * n * byteSize(kind.b);
  if (kind.isPacked) {
    auto packed = cpumath::packedBytes(g);
    if (!packed)
      return std::nullopt;
    bBytes = *packed;
  }
  double flops = 2.0 * double(count) * double(m) * double(n) * double(k);
  int64_t aBytes = count * m * k * byteSize(kind.a), cBytes = count * m * n * byteSize(kind.c);
  if (flops > kMostFlops || std::max({aBytes, bBytes, cBytes}) > kArea)
    return std::nullopt;
  product.a = memory.recent(aBytes, kind.a);
  product.b = memory.fresh(bBytes, kind.b);
  product.c = memory.result(cBytes, kind.c);
  return product;
}

Grid productGrid(const Machine &machine, const ProductKind &kind) {
  double factor = machine.quick ? 8 : 4;
  return {{{"matrices", {1}, 1},
           {"rows", steps(machine.quick ? 4 : 8, 2048, factor), 64},
           {"columns", steps(machine.quick ? 8 : 16, 4096, factor), 64},
           {"depth", steps(machine.quick ? 8 : 16, 4096, factor), 64}},
          [kind](ProbeMemory &memory, const Point &at) { return makeProduct(memory, at, kind); }};
}

Grid batchedGrid(const Machine &machine, const ProductKind &kind) {
  double factor = machine.quick ? 8 : 4;
  return {{{"matrices", {2, 16, 128}, 1024},
           {"rows", steps(8, 512, factor), 64},
           {"columns", steps(8, 512, factor), 64},
           {"depth", steps(8, 512, factor), 64}},
          [kind](ProbeMemory &memory, const Point &at) { return makeProduct(memory, at, kind); }};
}

//===-- convolutions ------------------------------------------------------------------===//

/// As the compiler lays out channels for this machine.
const Layout kBlocked = __builtin_cpu_supports("avx512f") ? Layout::Blocked16 : Layout::Blocked8;

struct ConvolutionForm {
  int64_t window = 1, stride = 1;
  int64_t channels = 0; ///< 0: what the depth says
  Layout x = kBlocked;
  artifact::ConvolutionAlgorithm algorithm = artifact::ConvolutionAlgorithm::Direct;
  ConvolutionKind kind = ConvolutionKind::Forward;
};

std::optional<artifact::Payload> makeConvolution(ProbeMemory &memory, const Point &at,
                                                 ConvolutionForm kind) {
  int64_t images = at[0], side = std::llround(std::sqrt(double(at[1]))), depth = at[2];
  // Windows of their own size are those of a stem (few channels, overlapping) and of patches.
  if (kind.channels > 0) {
    kind.window = std::llround(std::sqrt(double(depth / kind.channels)));
    kind.stride = kind.window > 8 ? kind.window : 2;
  }
  int64_t input = kind.channels > 0 ? kind.channels : depth / (kind.window * kind.window);
  int64_t pad = kind.stride == kind.window ? 0 : kind.window / 2;
  int64_t from = (side - 1) * kind.stride + kind.window - 2 * pad;
  artifact::Convolution call;
  ConvolutionGeometry &g = call.geometry;
  g.x = {images, input, from, from};
  g.w = {at[3], input, kind.window, kind.window};
  g.y = {images, at[3], side, side};
  g.strides = {kind.stride, kind.stride};
  g.padsBegin = g.padsEnd = {pad, pad};
  g.dilations = {1, 1};
  g.xLayout = kind.x;
  g.yLayout = kBlocked;
  g.algorithm = kind.algorithm;
  g.kind = kind.kind;
  bool ofFilter = kind.kind == ConvolutionKind::FilterGradient;
  if (kind.kind == ConvolutionKind::InputGradient) {
    std::swap(g.x, g.y);
    std::swap(g.xLayout, g.yLayout);
  } else if (ofFilter) {
    std::swap(g.w, g.y);
  }
  g.packedW = !ofFilter;
  double flops = 2.0 * double(images) * double(at[1]) * double(depth) * double(at[3]);
  auto bytesIn = [](const std::vector<int64_t> &dims, Layout layout) {
    return artifact::layoutBytes(dims, DataType::F32, layout).value_or(kArea + 1);
  };
  int64_t xBytes = bytesIn(g.x, g.xLayout),
          yBytes = bytesIn(g.y, ofFilter ? Layout::Plain : g.yLayout);
  auto wBytes = ofFilter ? Result<int64_t>(bytesIn(g.w, g.yLayout)) : cpumath::packedBytes(g);
  if (!wBytes || flops > kMostFlops || std::max({xBytes, yBytes, *wBytes}) > kArea)
    return std::nullopt;
  // What the library is slow at on blocks the compiler lays out in rows.
  if (auto fast = cpumath::isFast(g); !fast || !*fast)
    return std::nullopt;
  call.x = memory.recent(xBytes, DataType::F32);
  call.w = memory.fresh(*wBytes, DataType::F32);
  call.y = memory.result(yBytes, DataType::F32);
  return call;
}

Grid convolutionGrid(const Machine &machine, const ConvolutionForm &kind) {
  std::vector<double> pixels = {49, 196, 784, 3136}, channels = {32, 128, 512, 2048};
  if (machine.quick) {
    pixels = {49, 784};
    channels = {32, 512};
  }
  std::vector<double> depths;
  for (double channel : channels)
    depths.push_back(channel * double(kind.window * kind.window));
  if (kind.channels > 0)
    depths = {3 * 49, 3 * 256};
  return {
      {{"images", {1, 4}, 1024},
       {"pixels", pixels, 64},
       {"depth", depths, 16},
       {"filters", channels, 16}},
      [kind](ProbeMemory &memory, const Point &at) { return makeConvolution(memory, at, kind); }};
}

//===-- attention ---------------------------------------------------------------------===//

/// Under a causal mask the columns are those that a row sees in the middle. Fewer than in a
/// triangle are those of attention without a mask.
std::optional<artifact::Payload> makeAttention(ProbeMemory &memory, const Point &at,
                                               bool isGradient, bool isCausal) {
  int64_t heads = at[0], rows = at[1], columns = at[2], size = at[3] / 2;
  double scores = double(heads) * double(rows) * double(columns);
  isCausal &= 2 * columns > rows;
  if (isCausal)
    columns += (rows - 1) / 2;
  int64_t rowBytes = heads * rows * size * 4, columnBytes = heads * columns * size * 4;
  if (scores * double(size) * 4 > kMostFlops || std::max(rowBytes, columnBytes) > kArea)
    return std::nullopt;
  auto dense = [&](int64_t length) {
    return StridedShape{{1, heads, length, size}, {heads * length * size, length * size, size, 1}};
  };
  StridedShape ofRows = dense(rows), ofColumns = dense(columns);
  artifact::Attention call;
  call.geometry.operands = {ofRows, ofColumns, ofColumns, ofRows};
  call.geometry.causal = isCausal;
  call.geometry.scale = 0.125f;
  auto read = [&](int64_t bytes) { call.inputs.push_back(memory.fresh(bytes, DataType::F32)); };
  auto write = [&](int64_t bytes) { call.outputs.push_back(memory.result(bytes, DataType::F32)); };
  for (int64_t bytes : {rowBytes, columnBytes, columnBytes})
    read(bytes);
  if (!isGradient) {
    write(rowBytes);
    write(heads * rows * 4);
  } else {
    for (const StridedShape &shape : {ofRows, ofRows, ofColumns, ofColumns})
      call.geometry.operands.push_back(shape);
    for (int64_t bytes : {rowBytes, heads * rows * 4, rowBytes})
      read(bytes);
    for (int64_t bytes : {rowBytes, columnBytes, columnBytes})
      write(bytes);
  }
  return call;
}

Grid attentionGrid(const Machine &machine, bool isGradient, bool isCausal) {
  double factor = machine.quick ? 16 : 4;
  return {{{"heads", {1, 8, 64}, 1024},
           {"rows", steps(16, 1024, factor), 64},
           {"columns", steps(16, 1024, factor), 64},
           {"sizes", {32, 128, 256}, 8}},
          [=](ProbeMemory &memory, const Point &at) {
            return makeAttention(memory, at, isGradient, isCausal);
          }};
}

//===-- movement of memory ------------------------------------------------------------===//

/// Caches end somewhere in between.
MeasuredExtent bytesExtent() { return {"bytes", steps(4096, double(int64_t{64} << 20), 8), 1024}; }

Grid copyGrid() {
  return {{bytesExtent()}, [](ProbeMemory &memory, const Point &at) -> artifact::Payload {
            int64_t bytes = at[0] / 2;
            int32_t from = memory.recent(bytes, DataType::U8);
            return artifact::Copy{from, 0, memory.result(bytes, DataType::U8), 0, bytes};
          }};
}

Grid reorderGrid(Layout from, Layout to) {
  return {{bytesExtent()}, [from, to](ProbeMemory &memory, const Point &at) -> artifact::Payload {
            // Half is read: images of 16 x 16 pixels of 32 channels fill it, the smallest of 8.
            int64_t side = at[0] < 65536 ? 4 : 16;
            int64_t images = std::max<int64_t>(1, at[0] / 8 / (32 * side * side));
            std::vector<int64_t> dims{images, 32, side, side};
            int64_t bytes = images * 32 * side * side * 4;
            int32_t source = memory.recent(bytes, DataType::F32);
            return artifact::Reorder{
                source, memory.result(bytes, DataType::F32), DataType::F32, dims, from, to};
          }};
}

Grid packGrid() {
  return {{bytesExtent()},
          [](ProbeMemory &memory, const Point &at) -> std::optional<artifact::Payload> {
            MatmulGeometry g;
            int64_t side = std::llround(std::sqrt(double(at[0] / 8)));
            g.a = matrices(1, 64, side, false);
            g.b = matrices(1, side, side, false);
            g.c = matrices(1, 64, side, false);
            g.packedB = true;
            auto packed = cpumath::packedBytes(g);
            if (!packed)
              return std::nullopt;
            int32_t from = memory.fresh(side * side * 4, DataType::F32);
            return artifact::Pack{from, memory.result(*packed, DataType::F32), g};
          }};
}

/// Kernels of whole rows: `operands` that are read and one result.
Grid kernelGrid(const char *kind, ProbeKernel kernel, int operands) {
  return {{bytesExtent()},
          [=](ProbeMemory &memory, const Point &at) -> artifact::Payload {
            int64_t rowBytes = kRowFloats * 4;
            int64_t rows = std::max<int64_t>(1, at[0] / (rowBytes * (operands + 1)));
            artifact::Launch launch;
            launch.kernel = kernel;
            launch.extent = rows;
            launch.args.push_back(memory.recent(rows * rowBytes, DataType::F32));
            for (int i = 1; i < operands; ++i)
              launch.args.push_back(memory.fresh(rows * rowBytes, DataType::F32));
            launch.args.push_back(memory.result(rows * rowBytes, DataType::F32));
            return launch;
          },
          std::string("kernel/") + kind};
}

} // namespace

std::vector<Grid> gridsOf(const Machine &machine) {
  constexpr bool kTransposed = true;
  std::vector<Grid> grids;
  for (bool isPacked : {true, false})
    grids.push_back(productGrid(machine, {.isPacked = isPacked}));
  grids.push_back(productGrid(machine, {.isTransposedB = kTransposed}));
  grids.push_back(productGrid(machine, {.isTransposedA = kTransposed}));
  grids.push_back(productGrid(machine, {.isFused = true}));
  grids.push_back(productGrid(machine, {.isTransposedB = kTransposed, .isFused = true}));
  grids.push_back(batchedGrid(machine, {}));
  grids.push_back(batchedGrid(machine, {.isTransposedB = kTransposed}));
  grids.push_back(batchedGrid(machine, {.isTransposedA = kTransposed}));
  grids.push_back(convolutionGrid(machine, {}));
  grids.push_back(convolutionGrid(machine, {.stride = 2}));
  grids.push_back(convolutionGrid(machine, {.window = 3}));
  grids.push_back(convolutionGrid(machine, {.window = 3, .stride = 2}));
  grids.push_back(convolutionGrid(
      machine, {.window = 3, .algorithm = artifact::ConvolutionAlgorithm::Winograd}));
  grids.push_back(
      convolutionGrid(machine, {.window = 7, .stride = 2, .channels = 3, .x = Layout::Plain}));
  for (ConvolutionKind kind : {ConvolutionKind::InputGradient, ConvolutionKind::FilterGradient})
    for (int64_t window : {1, 3})
      for (int64_t stride : {1, 2})
        grids.push_back(
            convolutionGrid(machine, {.window = window, .stride = stride, .kind = kind}));
  grids.push_back(convolutionGrid(machine, {.window = 7,
                                            .stride = 2,
                                            .channels = 3,
                                            .x = Layout::Plain,
                                            .kind = ConvolutionKind::FilterGradient}));
  for (bool isGradient : {false, true})
    for (bool isCausal : {false, true})
      grids.push_back(attentionGrid(machine, isGradient, isCausal));
  grids.push_back(copyGrid());
  grids.push_back(packGrid());
  for (auto [from, to] : {std::pair{Layout::Plain, kBlocked}, std::pair{kBlocked, Layout::Plain}})
    grids.push_back(reorderGrid(from, to));
  grids.push_back(kernelGrid("map", AddRows, 2));
  grids.push_back(kernelGrid("rows", NormalizeRows, 1));
  return grids;
}

} // namespace autopar::tools
