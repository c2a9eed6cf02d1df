// SPDX-License-Identifier: Apache-2.0
// Work on one module that several threads share.
#pragma once

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Threading.h"

namespace mlir::autopar {

/// Calls `task` for 0 to count - 1, at the same time where the context has threads. Diagnostics
/// that no task takes itself are emitted in the order of tasks when all are done.
inline void runSideBySide(MLIRContext &context, size_t count, function_ref<void(size_t)> task) {
  ParallelDiagnosticHandler handler(&context);
  parallelFor(&context, 0, count, [&](size_t i) {
    handler.setOrderIDForThread(i);
    task(i);
    handler.eraseOrderIDForThread();
  });
}

} // namespace mlir::autopar
