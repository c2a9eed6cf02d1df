// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolutions and layout changes, through oneDNN but for the products that
// OwnProduct.h takes: descriptors from artifact
// geometry, primitives created before the first step, scratch given by the caller, exceptions
// turned into Status.
#pragma once

#include "OwnProduct.h"
#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <optional>

namespace autopar::runtime {

/// A product for one geometry. Created under the thread count it will run with.
class MatmulCall {
public:
  static Result<MatmulCall> create(const artifact::MatmulGeometry &geometry);

  int64_t scratchBytes() const { return scratch; }
  int64_t packedBytes() const { return packed; }
  /// Addresses of the operands; bias and residual null when the geometry has none; scratch of
  /// scratchBytes(), 64-byte aligned.
  Status run(void *a, void *b, void *c, void *bias, void *residual, void *scratch) const;
  /// Plain b (strides of the geometry) to the packed layout.
  Status pack(void *plain, void *packed) const;

private:
  Status createInLibrary(const artifact::MatmulGeometry &geometry);
  Status runInLibrary(void *a, void *b, void *c, void *bias, void *residual, void *scratch) const;

  std::optional<OwnProduct> own; ///< then no primitive is used
  dnnl::matmul::primitive_desc descriptor;
  dnnl::primitive primitive;
  dnnl::reorder residualToC, packing, rounding;
  dnnl::memory::desc a, b, c, bias, plainB, givenB, scratchpad;
  int64_t scratch = 0, packed = 0, denseBytes = 0, roundedBytes = 0;
  bool hasBias = false, hasResidual = false, isDense = false, isEmpty = false;
};

/// A convolution for one geometry.
class ConvolutionCall {
public:
  static Result<ConvolutionCall> create(const artifact::ConvolutionGeometry &geometry);

  int64_t scratchBytes() const { return scratch; }
  int64_t packedBytes() const { return packed; }
  Status run(void *x, void *w, void *y, void *bias, void *residual, void *scratch) const;
  Status pack(void *plain, void *packed) const;

private:
  dnnl::convolution_forward::primitive_desc descriptor;
  dnnl::primitive primitive;
  dnnl::reorder packing;
  dnnl::memory::desc x, w, y, bias, plainW, scratchpad;
  int64_t scratch = 0, packed = 0, yBytes = 0;
  bool hasBias = false, hasResidual = false, isEmpty = false;
};

/// A change between activation layouts.
class ReorderCall {
public:
  static Result<ReorderCall> create(const artifact::Reorder &reorder);
  Status run(void *src, void *dst) const;

private:
  dnnl::reorder primitive;
  dnnl::memory::desc from, to;
};

} // namespace autopar::runtime
