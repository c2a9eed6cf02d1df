// SPDX-License-Identifier: Apache-2.0
// Adapters: small matrices beside those of a model, which are trained in their place.
#pragma once

#include "autopar/Training/CallSyntax.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::autopar {

/// Of a parameter that is a part of an adapter, a unit attribute.
constexpr llvm::StringLiteral kAdapterAttribute = "autopar.adapter";

/// Low-rank adapters (Hu et al., "LoRA: Low-rank adaptation of large language models", 2021):
///
///   lora(rank=8, alpha=8)    x W becomes x W + alpha / rank (x A^T) B^T
///
/// for x [.., in], W [in, out], A [rank, in] and B [out, rank], the shapes that PEFT stores.
struct LowRank {
  int64_t rank = 8;
  double alpha = 8;

  /// BadInput points at what is wrong.
  static ::autopar::Result<LowRank> parse(const std::string &text);
};

} // namespace mlir::autopar
