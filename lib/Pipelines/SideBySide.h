// SPDX-License-Identifier: Apache-2.0
// Searches of one context at the same time: each hears what it caused itself, and no more.
#pragma once

#include "autopar/Interfaces/RunSideBySide.h"
#include "autopar/Pipelines/Pipelines.h"
#include "llvm/Support/Threading.h"

#include <atomic>

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

/// Two threads, of which one may find work for both while the other is still at something else. Not
/// left to the pool: who waits there for parts of a task begins any other, and ends it first.
class Meeting {
public:
  /// Of who found work: whether the other one will come; else it has left.
  bool offer() {
    int state = kApart;
    return met.compare_exchange_strong(state, kOffered);
  }
  /// Of the other, who is through: whether there is work. It leaves if not.
  bool join() { return met.exchange(kLeft) == kOffered; }

private:
  static constexpr int kApart = 0, kOffered = 1, kLeft = 2;
  std::atomic<int> met = kApart;
};

} // namespace mlir::autopar
