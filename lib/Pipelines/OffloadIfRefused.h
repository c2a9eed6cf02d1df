// SPDX-License-Identifier: Apache-2.0
// --offload auto: what finds no plan as it is is planned with state in host memory.
#pragma once

#include "autopar/Pipelines/Compile.h"
#include "mlir/Support/LLVM.h"

namespace mlir::autopar {

/// Compiles as `compile` does. Where `options` leave offload to the planner and planning refuses
/// the model as it is, once more with its state in host memory, which a remark then tells; where
/// that is refused too, both refusals are. Where nobody said anything about offload, a refusal for
/// memory says that there is it.
::autopar::Result<CompileResult>
offloadIfRefused(const CompileOptions &options, MLIRContext &context,
                 function_ref<::autopar::Result<CompileResult>(const CompileOptions &)> compile);

} // namespace mlir::autopar
