// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "VaryExtents.h"

#include "Reported.h"

#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Status;

namespace {

/// Why an attempt failed.
struct Reason {
  Location loc;
  std::string text;
};

/// A copy of `module` in which what follows the extent is written down; or the first reason why
/// not.
FailureOr<OwningOpRef<ModuleOp>> mark(ModuleOp module, StringRef path, ImportOptions import,
                                      const VaryingExtent &extent, MLIRContext &context,
                                      std::optional<Reason> &reason) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (!reason && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      reason = Reason{diagnostic.getLocation(), diagnostic.str()};
    return success();
  });
  import.bindings[extent.name.str()] = extent.other;
  FailureOr<OwningOpRef<ModuleOp>> other = importOnnx(path, import, context);
  if (failed(other)) {
    if (reason)
      reason->text = ("'" + extent.name + "' cannot vary: where it is " + Twine(extent.other) +
                      ", the model is refused: " + reason->text)
                         .str();
    return failure();
  }
  OwningOpRef<ModuleOp> copy(module.clone());
  if (failed(markVarying(*copy, **other, extent)))
    return failure();
  return copy;
}

} // namespace

Status mlir::autopar::varyExtents(OwningOpRef<ModuleOp> &module, StringRef path,
                                  const ImportOptions &import, MLIRContext &context) {
  for (const auto &[name, range] : import.ranges) {
    int64_t most = import.bindings.at(name);
    // Where an extent is 1, what is repeated along it is not. What import folds it decides by size,
    // so that two models may differ in more than the extent; on its other side they do not.
    SmallVector<int64_t> others{most + range.step};
    if (most - range.step > 1)
      others.insert(others.begin(), most - range.step);
    std::optional<Reason> first;
    FailureOr<OwningOpRef<ModuleOp>> marked = failure();
    for (int64_t other : others) {
      if (succeeded(marked))
        break;
      std::optional<Reason> reason;
      marked = mark(*module, path, import, {name, range, most, other}, context, reason);
      if (!first)
        first = reason;
    }
    if (failed(marked)) {
      if (first)
        mlir::emitError(first->loc) << first->text;
      return reported();
    }
    module = std::move(*marked);
  }
  PassManager manager(&context);
  manager.addNestedPass<func::FuncOp>(createMaskPaddingPass());
  return failed(manager.run(*module)) ? reported() : Status::ok();
}
