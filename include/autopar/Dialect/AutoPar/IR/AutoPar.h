// SPDX-License-Identifier: Apache-2.0
// The autopar dialect: include this to create or inspect its operations.
#pragma once

#include "autopar/Interfaces/CollectiveInterface.h"
#include "autopar/Interfaces/CostInterface.h"
#include "autopar/Interfaces/ShardingRuleInterface.h"
#include "autopar/Interfaces/ViewInterface.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "autopar/Dialect/AutoPar/IR/AutoParDialect.h.inc"
#include "autopar/Dialect/AutoPar/IR/AutoParEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "autopar/Dialect/AutoPar/IR/AutoParAttributes.h.inc"
#define GET_OP_CLASSES
#include "autopar/Dialect/AutoPar/IR/AutoParOps.h.inc"

namespace mlir::autopar {

/// The stable name of an operation (`autopar.id`); empty if it has none.
StringRef getOpId(Operation *op);
/// Names an operation.
void setOpId(Operation *op, const Twine &id);
/// The mask that mark_positive makes of a value of this type.
RankedTensorType maskTypeOf(RankedTensorType type);

} // namespace mlir::autopar
