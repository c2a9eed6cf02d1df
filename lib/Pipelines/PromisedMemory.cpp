// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "PromisedMemory.h"

#include "mlir/IR/Diagnostics.h"

#include <limits>
#include <vector>

using namespace mlir;
using namespace mlir::autopar;

/// How often a search is told to promise less.
static constexpr int kMostRefusals = 3;

std::optional<PromisedMemory> PromisedMemory::less(int64_t limitBytes, int64_t needed) const {
  // A little more than is missing: buffers do not fit each other exactly.
  int64_t left = (bytes ? bytes : limitBytes) - (needed - limitBytes) - limitBytes / 256;
  if (refusals == kMostRefusals || needed <= limitBytes || left <= 0)
    return std::nullopt;
  return PromisedMemory{left, refusals + 1, needed};
}

void PromisedMemory::limitSearch(AutoShardOptions &options) const {
  if (bytes)
    options.memoryLimit = bytes;
}

LogicalResult mlir::autopar::refuseMemory(ModuleOp module, int64_t limitBytes,
                                          int64_t neededBytes) {
  return emitError(module.getLoc())
         << "no plan fits " << limitBytes
         << " bytes per device: the smallest program that was found needs " << neededBytes
         << ": raise the limit, use more ranks, or more micro-batches";
}

LogicalResult mlir::autopar::attemptToFit(ModuleOp module, int64_t limitBytes,
                                          FittingAttempt attempt) {
  std::vector<Diagnostic> errors;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (std::optional<PromisedMemory> promised = PromisedMemory(); promised;) {
    int64_t neededBytes = 0;
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
        return failure();
      errors.push_back(std::move(diagnostic));
      return success();
    });
    if (succeeded(attempt(*promised, neededBytes)))
      return success();
    if (neededBytes > 0)
      least = std::min(least, neededBytes);
    promised = promised->less(limitBytes, neededBytes);
  }
  if (least < std::numeric_limits<int64_t>::max())
    return refuseMemory(module, limitBytes, least);
  for (Diagnostic &error : errors)
    module.getContext()->getDiagEngine().emit(std::move(error));
  return failure();
}
