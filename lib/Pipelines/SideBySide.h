// SPDX-License-Identifier: Apache-2.0
// Searches of one context at the same time: each hears what it caused itself, and no more.
#pragma once

#include "autopar/Interfaces/RunSideBySide.h"
#include "autopar/Pipelines/Pipelines.h"
#include "llvm/Support/Threading.h"

namespace mlir::autopar {

/// Loads what the phases from the cut to planned memory need. A pass manager does so when it runs,
/// which must not be while others run: before the first call of runSideBySide().
void loadDialects(MLIRContext &context, const AutoShardOptions &options, const LowerOptions &lower);

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
