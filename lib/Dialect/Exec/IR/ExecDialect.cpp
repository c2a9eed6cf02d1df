// SPDX-License-Identifier: Apache-2.0
// Registration of the exec dialect, its type and its attributes.
#include "autopar/Dialect/Exec/IR/Exec.h"

#include "autopar/Interfaces/ElementTypes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::exec;

#include "autopar/Dialect/Exec/IR/ExecDialect.cpp.inc"
#include "autopar/Dialect/Exec/IR/ExecEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "autopar/Dialect/Exec/IR/ExecTypes.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "autopar/Dialect/Exec/IR/ExecAttributes.cpp.inc"

void ExecDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "autopar/Dialect/Exec/IR/ExecTypes.cpp.inc"
      >();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "autopar/Dialect/Exec/IR/ExecOps.cpp.inc"
      >();
}

void ExecDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "autopar/Dialect/Exec/IR/ExecAttributes.cpp.inc"
      >();
}

LogicalResult StridedAttr::verify(function_ref<InFlightDiagnostic()> emitError, Type elementType,
                                  ArrayRef<int64_t> dims, ArrayRef<int64_t> strides) {
  if (dims.size() != strides.size() || dims.size() < 2)
    return emitError() << "expected one stride per size and at least two sizes, got " << dims.size()
                       << " sizes and " << strides.size() << " strides";
  if (!mlir::autopar::isElementType(elementType))
    return emitError() << "expected elements of " << mlir::autopar::kElementTypes << ", got "
                       << elementType;
  return success();
}
