// SPDX-License-Identifier: Apache-2.0
// Chains and graphs of measured operations as modules of the autopar dialect: to be planned where
// there is no model file.
#pragma once

#include "autopar/Cost/OperatorGraph.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::autopar {

/// A function `@main` of `autopar.profiled` operations; arguments are what the graph is fed, then a
/// weight for each operation that has one, named `ID.weight`, without values. Results are the
/// values that no operation reads. `path` is where diagnostics say that operations come from.
FailureOr<OwningOpRef<ModuleOp>> importOperatorGraph(const ::autopar::OperatorGraph &graph,
                                                     const ::autopar::ProfileDatabase &database,
                                                     StringRef path, MLIRContext &context);

} // namespace mlir::autopar
