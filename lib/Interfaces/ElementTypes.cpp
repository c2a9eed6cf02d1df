// SPDX-License-Identifier: Apache-2.0
// Element types by kind and width.
#include "autopar/Interfaces/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using ::autopar::DataType;

static std::optional<DataType> signlessOf(unsigned width) {
  switch (width) {
  case 1:
    return DataType::Bool;
  case 8:
    return DataType::I8;
  case 16:
    return DataType::I16;
  case 32:
    return DataType::I32;
  case 64:
    return DataType::I64;
  }
  return std::nullopt;
}

static std::optional<DataType> unsignedOf(unsigned width) {
  switch (width) {
  case 8:
    return DataType::U8;
  case 16:
    return DataType::U16;
  case 32:
    return DataType::U32;
  case 64:
    return DataType::U64;
  }
  return std::nullopt;
}

/// Nothing for a type that programs have no number for.
static std::optional<DataType> findDataType(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    if (integer.isSignless())
      return signlessOf(integer.getWidth());
    return integer.isUnsigned() ? unsignedOf(integer.getWidth()) : std::nullopt;
  }
  if (type.isF16())
    return DataType::F16;
  if (type.isBF16())
    return DataType::BF16;
  if (type.isF32())
    return DataType::F32;
  if (type.isF64())
    return DataType::F64;
  if (isa<Float8E4M3FNType>(type))
    return DataType::F8E4M3FN;
  if (isa<Float8E4M3FNUZType>(type))
    return DataType::F8E4M3FNUZ;
  if (isa<Float8E5M2Type>(type))
    return DataType::F8E5M2;
  if (isa<Float8E5M2FNUZType>(type))
    return DataType::F8E5M2FNUZ;
  return isa<Float4E2M1FNType>(type) ? std::optional(DataType::F4E2M1FN) : std::nullopt;
}

bool mlir::autopar::isElementType(Type type) { return findDataType(type).has_value(); }

bool mlir::autopar::isByteFloat(Type element) {
  std::optional<DataType> known = findDataType(element);
  return known && ::autopar::isByteFloat(*known);
}

DataType mlir::autopar::dataTypeOf(Type element) {
  std::optional<DataType> known =
      element.isIndex() ? std::optional(DataType::I64) : findDataType(element);
  assert(known && "expected an element type that a verifier has let through");
  return *known;
}
