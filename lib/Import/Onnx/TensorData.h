// SPDX-License-Identifier: Apache-2.0
// ONNX element types and tensor values as MLIR types and attributes.
#pragma once

#include "ModelFile.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include <optional>

namespace mlir::autopar {

/// The element type for an ONNX data type number; null for those that the dialect does not have
/// (strings, complex numbers, scales of 8 bits that are an exponent alone).
Type elementTypeOf(int dataType, MLIRContext *context);
/// Whether elements are integers of 2 or 4 bits, which a program does not have
/// (NarrowIntegers.cpp).
bool isNarrowInteger(Type element);
/// Whether a model stores several elements to a byte: those integers, and floats of 4 bits.
bool isPacked(Type element);
/// Bytes that a model takes for a tensor.
int64_t storedBytes(RankedTensorType type);
/// "FLOAT8E4M3FN" for 17, ...
StringRef dataTypeName(int dataType);

/// The tensor type of `shape`; nothing if an extent is negative or the size in bytes goes
/// beyond what any machine holds (2^50).
std::optional<RankedTensorType> checkedTensorType(ArrayRef<int64_t> shape, Type element);

/// The type of a tensor message; failure leaves a message in `error`.
FailureOr<RankedTensorType> tensorTypeOf(const autopar_onnx::TensorProto &tensor,
                                         MLIRContext *context, std::string &error);

/// The values of a tensor; failure leaves a message in `error`. Absent values and more than `limit`
/// elements are failures.
FailureOr<DenseElementsAttr> tensorValues(const autopar_onnx::TensorProto &tensor, ModelFile &file,
                                          MLIRContext *context, int64_t limit, std::string &error);

/// Whether the bytes hold one number everywhere, as weights do that were never trained: equal ones
/// need not be the same.
bool isOneNumber(StringRef bytes, size_t elementBytes);

} // namespace mlir::autopar
