// SPDX-License-Identifier: Apache-2.0
// The exec dialect: include this to create or inspect programs.
#pragma once

#include "autopar/Interfaces/TensorLayout.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "autopar/Dialect/Exec/IR/ExecDialect.h.inc"
#include "autopar/Dialect/Exec/IR/ExecEnums.h.inc"
#define GET_TYPEDEF_CLASSES
#include "autopar/Dialect/Exec/IR/ExecTypes.h.inc"
#define GET_ATTRDEF_CLASSES
#include "autopar/Dialect/Exec/IR/ExecAttributes.h.inc"

#include "autopar/Dialect/Exec/IR/ExecInterfaces.h.inc"
#define GET_OP_CLASSES
#include "autopar/Dialect/Exec/IR/ExecOps.h.inc"

namespace mlir::exec {

/// The `exec.buffer` below any number of views, and the bytes from its start.
std::pair<BufferOp, int64_t> rootOf(Value buffer);
/// How many slots a buffer or view has, and by how many bytes one lies behind the other.
std::pair<int64_t, int64_t> slotsOf(Value buffer);
/// Bytes that a buffer or view spans.
int64_t bytesOf(Value buffer);
/// What a buffer or view holds.
RankedTensorType tensorTypeOf(Value buffer);
using ::mlir::autopar::tensorBytes;

} // namespace mlir::exec
