// SPDX-License-Identifier: Apache-2.0
#include "OwnProduct.h"

#include "autopar/CpuMath/OpenMP.h"

#include <utility>

namespace autopar::cpumath {

using artifact::MatmulGeometry;

namespace {

std::optional<ProductShape> productShape(const MatmulGeometry &g) {
  size_t row = g.c.dims.size() - 2, column = row + 1;
  ProductShape shape{g.c.dims[row],       g.c.dims[column], g.a.dims[column],    g.a.strides[row],
                     g.a.strides[column], g.b.strides[row], g.b.strides[column], g.c.strides[row]};
  bool hasUnitStrides = (shape.aRowStride == 1 || shape.aDepthStride == 1) &&
                        (shape.bDepthStride == 1 || shape.bColumnStride == 1) &&
                        g.c.strides[column] == 1;
  bool isPlain = !g.packedB && g.scale == 1.0f && g.epilogue == artifact::Epilogue::None;
  return hasUnitStrides && isPlain ? std::optional(shape) : std::nullopt;
}

bool isFloatOrHalf(DataType type) { return type == DataType::F32 || type == DataType::BF16; }

std::optional<std::variant<DenseProduct, HalfProduct>> productFor(const MatmulGeometry &g) {
  auto shape = productShape(g);
  if (!shape)
    return std::nullopt;
  // Small float32 matrices, as batches have them, the library multiplies as fast.
  if (g.c.dims.size() == 2 && g.aType == DataType::F32 && g.bType == DataType::F32 &&
      g.cType == DataType::F32 && (!g.hasBias || g.biasType == DataType::F32)) {
    DenseProduct product{*shape};
    if (product.isWorthwhile())
      return product;
  }
  if (g.aType == DataType::BF16 && isFloatOrHalf(g.bType) && isFloatOrHalf(g.cType) &&
      (!g.hasBias || isFloatOrHalf(g.biasType)) && !g.hasResidual) {
    HalfProduct product{*shape, g.cType == DataType::F32, g.biasType == DataType::F32,
                        g.bType == DataType::F32};
    if (product.isWorthwhile())
      return product;
  }
  return std::nullopt;
}

} // namespace

/// Batches shared out among threads, each of which computes whole matrices.
struct OwnProduct::SharedBatches {
  const OwnProduct &own;
  uint8_t *a, *b, *c;
  void *bias, *residual;
  uint8_t *scratch;

  void runOne(const Place &at, uint8_t *ownScratch, int threads) const {
    if (auto *dense = std::get_if<DenseProduct>(&own.product)) {
      auto floats = [](void *data) { return static_cast<float *>(data); };
      dense->run({floats(a + at.a), floats(b + at.b), floats(c + at.c), floats(bias),
                  residual ? floats(static_cast<uint8_t *>(residual) + at.c) : nullptr},
                 ownScratch, threads);
      return;
    }
    std::get<HalfProduct>(own.product)
        .run({a + at.a, b + at.b, c + at.c, bias}, ownScratch, threads);
  }

  static void runShare(void *data) {
    auto &self = *static_cast<SharedBatches *>(data);
    int64_t part = omp_get_thread_num(), parts = omp_get_num_threads();
    auto count = int64_t(self.own.batches.size());
    uint8_t *mine = self.scratch + self.own.scratchBytes() / self.own.threads * part;
    for (int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i)
      self.runOne(self.own.batches[size_t(i)], mine, 1);
  }
};

std::optional<OwnProduct> OwnProduct::create(const MatmulGeometry &geometry) {
  auto product = productFor(geometry);
  if (!product)
    return std::nullopt;
  OwnProduct own;
  own.product = *product;
  own.batches = places(geometry);
  own.threads = omp_get_max_threads();
  return own;
}

std::vector<OwnProduct::Place> OwnProduct::places(const MatmulGeometry &g) {
  std::vector<Place> result{{0, 0, 0}};
  for (size_t dim = 0; dim + 2 < g.c.dims.size(); ++dim) {
    auto stride = [&](const artifact::StridedShape &shape, DataType type) {
      return shape.dims[dim] == 1 ? 0 : shape.strides[dim] * byteSize(type);
    };
    std::vector<Place> inner;
    for (const Place &at : result)
      for (int64_t i = 0; i < g.c.dims[dim]; ++i)
        inner.push_back({at.a + i * stride(g.a, g.aType), at.b + i * stride(g.b, g.bType),
                         at.c + i * stride(g.c, g.cType)});
    result = std::move(inner);
  }
  return result;
}

int64_t OwnProduct::scratchBytes() const {
  return std::visit([&](const auto &p) { return p.scratchBytes(threads); }, product);
}

void OwnProduct::run(void *a, void *b, void *c, void *bias, void *residual, void *scratch) const {
  auto bytes = [](void *data) { return static_cast<uint8_t *>(data); };
  SharedBatches shared{*this, bytes(a), bytes(b), bytes(c), bias, residual, bytes(scratch)};
  if (batches.size() == 1)
    shared.runOne(batches[0], shared.scratch, threads);
  else if (threads > 1)
    GOMP_parallel(SharedBatches::runShare, &shared, unsigned(threads), 0);
  else
    for (const Place &at : batches)
      shared.runOne(at, shared.scratch, 1);
}

} // namespace autopar::cpumath
