// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "PromisedMemory.h"

#include "autopar/Base/UnitsText.h"
#include "autopar/Plan/Constraints.h"

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

/// What of a plan in degrees may be split further; empty where that is nothing.
static std::string ofZero(const AutoShardOptions &options) {
  ::autopar::Result<::autopar::Constraints> demands =
      ::autopar::Constraints::parse("constraints", options.constraints);
  bool sharesSamples = demands && (demands->has("batch-axis") || demands->has("context-axis"));
  int64_t zero = sharesSamples && demands->has("zero") ? demands->number("zero", 0) : 3;
  return zero == 3 ? ""
                   : "; or split more over the ranks of data: \"zero\" is " + std::to_string(zero) +
                         ", 1 splits the optimizer's state, 2 gradients too, 3 parameters too";
}

LogicalResult mlir::autopar::refuseMemory(ModuleOp module, const AutoShardOptions &options,
                                          int64_t limitBytes, int64_t neededBytes,
                                          const std::string &what) {
  return emitError(module.getLoc())
         << "no plan fits " << ::autopar::exactBytesText(limitBytes)
         << " per device: the leanest that was found needs "
         << ::autopar::exactBytesText(neededBytes) << what
         << ": raise the limit, use more ranks, or more micro-batches" << ofZero(options);
}

LogicalResult mlir::autopar::attemptToFit(ModuleOp module, const AutoShardOptions &options,
                                          int64_t limitBytes, FittingAttempt attempt) {
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
    return refuseMemory(module, options, limitBytes, least);
  for (Diagnostic &error : errors)
    module.getContext()->getDiagEngine().emit(std::move(error));
  return failure();
}
