// SPDX-License-Identifier: Apache-2.0
// MLIR's element types as those of artifacts and cost models.
#pragma once

#include "autopar/Base/DataType.h"
#include "mlir/IR/Types.h"

namespace mlir::autopar {

/// Those that programs have a number for, as text for errors.
constexpr llvm::StringLiteral kElementTypes =
    "i1, i8, i16, i32, i64, ui8, ui16, ui32, ui64, f16, bf16, f32, f64, f8E4M3FN, f8E4M3FNUZ, "
    "f8E5M2, f8E5M2FNUZ or f4E2M1FN";
bool isElementType(Type type);
/// Whether elements are floats of 8 bits or less: a byte each, which every operation reads as f32
/// and rounds what it stores.
bool isByteFloat(Type element);
/// The number of a type that programs have one for; `index`, a scalar of foreign operations, counts
/// as i64.
::autopar::DataType dataTypeOf(Type element);

} // namespace mlir::autopar
