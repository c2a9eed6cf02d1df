// SPDX-License-Identifier: Apache-2.0
// Products that the runtime computes itself, one matrix or batches of them: those that DenseProduct
// or HalfProduct takes.
#pragma once

#include "DenseProduct.h"
#include "HalfProduct.h"
#include "autopar/Artifact/Program.h"

#include <optional>
#include <variant>
#include <vector>

namespace autopar::cpumath {

/// A product for one geometry. Created under the thread count it will run with.
class OwnProduct {
public:
  /// None: neither takes it, or not on this processor.
  static std::optional<OwnProduct> create(const artifact::MatmulGeometry &geometry);

  int64_t scratchBytes() const;
  /// Bias and residual null: none; scratch of scratchBytes(), 64-byte aligned.
  void run(void *a, void *b, void *c, void *bias, void *residual, void *scratch) const;

private:
  /// Where the matrices of a batch start, in bytes.
  struct Place {
    int64_t a, b, c;
  };
  struct SharedBatches;

  std::variant<DenseProduct, HalfProduct> product;
  std::vector<Place> batches;
  int threads = 1;

  static std::vector<Place> places(const artifact::MatmulGeometry &geometry);
};

} // namespace autopar::cpumath
