// SPDX-License-Identifier: Apache-2.0
// What the two matrices of a low-rank adapter are called, as PEFT does: fc.lora_A.weight [rank, in]
// and fc.lora_B.weight [out, rank] beside fc.weight.
#pragma once

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::autopar {

/// What stands behind the name of the module that has the matrix.
constexpr llvm::StringLiteral kAdapterA = ".lora_A.weight", kAdapterB = ".lora_B.weight";

/// That module: the name of the matrix without the word `weight` and what follows it.
inline std::string adaptedModule(llvm::StringRef matrix) {
  return matrix.take_front(matrix.rfind(".weight")).str();
}

} // namespace mlir::autopar
