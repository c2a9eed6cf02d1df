// SPDX-License-Identifier: Apache-2.0
// What a compilation starts from: a model, a graph of measured operations, or MLIR text.
#pragma once

#include "CompileSettings.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::autopar {

/// The module of `options.input`, verified, with the outputs carried over that the options say.
/// `settings` learn how many samples a step takes. A Status without a message: diagnostics of the
/// context have said why.
::autopar::Result<OwningOpRef<ModuleOp>> readModel(const CompileOptions &options,
                                                   CompileSettings &settings, MLIRContext &context);

} // namespace mlir::autopar
