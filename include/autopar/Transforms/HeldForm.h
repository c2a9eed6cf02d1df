// SPDX-License-Identifier: Apache-2.0
// How another program of the model holds a weight, so that this one can hold it alike and both hold
// it once: docs/rationale/HeldOnce.md.
#pragma once

#include "mlir/IR/Value.h"

#include <optional>

namespace mlir::autopar {

/// On an argument, one of the names of HeldForm.
constexpr llvm::StringLiteral kHeldAttribute = "autopar.held";

/// Of products on CPUs: a weight is as it is in the model ("as_it_is"), has what products sum up
/// side by side ("along_rows"), or is packed as the library likes it ("packed").
enum class HeldForm { AsItIs, AlongRows, Packed };
StringRef nameOf(HeldForm form);

/// Of the parameter that a value shows; nothing where it shows none, or the attribute is not there.
std::optional<HeldForm> heldFormOf(Value weights);

} // namespace mlir::autopar
