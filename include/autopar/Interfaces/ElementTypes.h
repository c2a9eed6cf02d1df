// SPDX-License-Identifier: Apache-2.0
// MLIR's element types as those of artifacts and cost models.
#pragma once

#include "autopar/Base/DataType.h"
#include "mlir/IR/Types.h"

namespace mlir::autopar {

/// Those that programs have a number for, as text for errors.
constexpr llvm::StringLiteral kElementTypes =
    "i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32 or f64";
bool isElementType(Type type);
/// The number of a type that programs have one for; `index`, a scalar of foreign operations, counts
/// as i64.
::autopar::DataType dataTypeOf(Type element);

} // namespace mlir::autopar
