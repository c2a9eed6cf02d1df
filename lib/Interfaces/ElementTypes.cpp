// SPDX-License-Identifier: Apache-2.0
// Element types by kind and width.
#include "autopar/Interfaces/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using ::autopar::DataType;

DataType mlir::autopar::dataTypeOf(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return DataType::Bool;
    case 8:
      return isUnsigned ? DataType::U8 : DataType::I8;
    case 16:
      return isUnsigned ? DataType::U16 : DataType::I16;
    case 32:
      return isUnsigned ? DataType::U32 : DataType::I32;
    default:
      return isUnsigned ? DataType::U64 : DataType::I64;
    }
  }
  if (type.isF16())
    return DataType::F16;
  if (type.isBF16())
    return DataType::BF16;
  return type.isF64() ? DataType::F64 : DataType::F32;
}
