// SPDX-License-Identifier: Apache-2.0
// Matrix products, convolutions and layout changes of the artifact as calls: made ready before the
// first step from their geometry, run with scratch given by the caller. oneDNN computes them, but
// for the products that the room computes itself; its exceptions become Status.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <memory>
#include <string>

namespace autopar::cpumath {

/// A product for one geometry. Created under the thread count it will run with.
class MatmulCall {
public:
  static Result<MatmulCall> create(const artifact::MatmulGeometry &geometry);
  /// The same where b is packed: its pack() is what a Pack of the geometry does.
  static Result<MatmulCall> createPacking(artifact::MatmulGeometry geometry) {
    geometry.packedB = true;
    return create(geometry);
  }

  int64_t scratchBytes() const;
  int64_t packedBytes() const;
  /// In words the layout that pack() writes; empty where it cannot be told.
  std::string packedLayout() const;
  /// Addresses of the operands; bias and residual null when the geometry has none; scratch of
  /// scratchBytes(), 64-byte aligned.
  Status run(void *a, void *b, void *c, void *bias, void *residual, void *scratch) const;
  /// Plain b (strides of the geometry) to the packed layout.
  Status pack(void *plain, void *packed) const;

private:
  struct Prepared;
  std::shared_ptr<const Prepared> prepared;
};

/// A convolution, or a gradient of one, for one geometry.
class ConvolutionCall {
public:
  static Result<ConvolutionCall> create(const artifact::ConvolutionGeometry &geometry);
  /// The same where w is packed.
  static Result<ConvolutionCall> createPacking(artifact::ConvolutionGeometry geometry) {
    geometry.packedW = true;
    return create(geometry);
  }

  int64_t scratchBytes() const;
  int64_t packedBytes() const;
  std::string packedLayout() const;
  /// Whether the library has only code for this that follows the definition, a thousand times
  /// slower than what it has for others.
  bool isReference() const;
  Status run(void *x, void *w, void *y, void *bias, void *residual, void *scratch) const;
  Status pack(void *plain, void *packed) const;

private:
  struct Prepared;
  std::shared_ptr<const Prepared> prepared;
};

/// A change between activation layouts.
class ReorderCall {
public:
  static Result<ReorderCall> create(const artifact::Reorder &reorder);
  Status run(void *src, void *dst) const;

private:
  struct Prepared;
  std::shared_ptr<const Prepared> prepared;
};

} // namespace autopar::cpumath
