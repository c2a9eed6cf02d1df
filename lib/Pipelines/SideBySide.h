// SPDX-License-Identifier: Apache-2.0
// Searches of one context at the same time: each hears what it caused itself, and no more.
#pragma once

#include "autopar/Pipelines/Pipelines.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Threading.h"

namespace mlir::autopar {

/// Loads what the phases from the cut to planned memory need. A pass manager does so when it runs,
/// which must not be while others run: before the first call of runSideBySide().
void loadDialects(MLIRContext &context, const AutoShardOptions &options, const LowerOptions &lower);

/// Calls `task` for 0 to count - 1, at the same time where the context has threads. Diagnostics
/// that no task takes itself are emitted in the order of tasks when all are done.
void runSideBySide(MLIRContext &context, size_t count, function_ref<void(size_t)> task);

/// Takes what is diagnosed in this thread, and by the passes that it runs: what their threads say
/// is emitted in the one that waits for them. `handle` answers failure for what it leaves to
/// others, as handlers of the engine do.
class OwnDiagnostics : public ScopedDiagnosticHandler {
public:
  template <typename Handle>
  OwnDiagnostics(MLIRContext *context, Handle handle) : ScopedDiagnosticHandler(context) {
    setHandler([thread = llvm::get_threadid(), handle](Diagnostic &diagnostic) -> LogicalResult {
      return llvm::get_threadid() == thread ? LogicalResult(handle(diagnostic)) : failure();
    });
  }
};

} // namespace mlir::autopar
