// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "VaryExtents.h"

#include "Reported.h"

#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include <algorithm>
#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Status;

namespace {

/// Why an attempt failed.
struct Reason {
  Location loc;
  std::string text;
};

/// Keeps the first error while it lives, and says nothing.
class FirstError {
public:
  explicit FirstError(MLIRContext &context)
      : handler(&context, [this](Diagnostic &diagnostic) {
          if (!reason && diagnostic.getSeverity() == DiagnosticSeverity::Error)
            reason = Reason{diagnostic.getLocation(), diagnostic.str()};
          return success();
        }) {}

  std::optional<Reason> reason;

private:
  ScopedDiagnosticHandler handler;
};

/// A copy of `module` in which what follows the extent is written down; or the first reason why
/// not.
FailureOr<OwningOpRef<ModuleOp>> mark(ModuleOp module, StringRef path, ImportOptions import,
                                      const VaryingExtent &extent, MLIRContext &context,
                                      std::optional<Reason> &reason) {
  FirstError error(context);
  auto stop = [&] {
    reason = error.reason;
    return failure();
  };
  import.bindings[extent.name.str()] = extent.other;
  FailureOr<OwningOpRef<ModuleOp>> other = importOnnx(path, import, context);
  if (failed(other)) {
    if (error.reason)
      error.reason->text = ("'" + extent.name + "' cannot vary: where it is " +
                            Twine(extent.other) + ", the model is refused: " + error.reason->text)
                               .str();
    return stop();
  }
  OwningOpRef<ModuleOp> copy(module.clone());
  if (failed(markVarying(*copy, **other, extent)))
    return stop();
  return copy;
}

/// Where it is told whether what two extents of each range told holds in all of them: everywhere if
/// there are few, else at the least, in the middle and near the most.
std::vector<MissingSteps> pointsToVerify(const ImportOptions &import) {
  constexpr int64_t few = 8;
  int64_t all = 1;
  std::map<std::string, int64_t> steps;
  for (const auto &[name, range] : import.ranges) {
    steps[name] = (import.bindings.at(name) - range.least) / range.step;
    all = std::min(all * (steps[name] + 1), few + 1);
  }
  std::set<MissingSteps> points;
  for (int64_t number = 0; all <= few && number < all; ++number) {
    MissingSteps point;
    int64_t rest = number;
    for (const auto &[name, count] : steps) {
      point[name] = rest % (count + 1);
      rest /= count + 1;
    }
    points.insert(point);
  }
  auto together = [&](llvm::function_ref<int64_t(int64_t)> missing) {
    MissingSteps point;
    for (const auto &[name, count] : steps)
      point[name] = std::clamp<int64_t>(missing(count), 0, count);
    points.insert(point);
  };
  if (all > few) {
    together([](int64_t count) { return count; });
    together([](int64_t count) { return count - 1; });
    together([](int64_t count) { return count / 2; });
    for (int64_t near = 2; near <= few; ++near) // remainders of small numbers
      together([&](int64_t) { return near; });
    for (const auto &[name, count] : steps) {
      MissingSteps point;
      for (const auto &each : steps)
        point[each.first] = each.first == name ? count : 0;
      points.insert(point);
    }
  }
  return {points.begin(), points.end()};
}

/// Whether what is marked in `module` holds where so many steps are missing.
LogicalResult verify(ModuleOp module, StringRef path, ImportOptions import,
                     const MissingSteps &missing, MLIRContext &context) {
  std::string where;
  for (const auto &[name, steps] : missing) {
    int64_t extent = import.bindings.at(name) - steps * import.ranges.at(name).step;
    import.bindings[name] = extent;
    where += (where.empty() ? "" : ", ") + name + " is " + std::to_string(extent);
  }
  std::string reason;
  FailureOr<OwningOpRef<ModuleOp>> other = failure();
  {
    FirstError error(context);
    other = importOnnx(path, import, context);
    if (error.reason)
      reason = error.reason->text;
  }
  if (failed(other))
    return mlir::emitError(module.getLoc())
           << "extents cannot vary: where " << where << ", the model is refused: " << reason;
  return verifyVarying(module, **other, missing, where);
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
  OwningOpRef<ModuleOp> marked(module->clone());
  PassManager manager(&context);
  manager.addNestedPass<func::FuncOp>(createMaskPaddingPass());
  if (failed(manager.run(*module)))
    return reported();
  for (const MissingSteps &missing : pointsToVerify(import))
    if (failed(verify(*marked, path, import, missing, context)))
      return reported();
  return Status::ok();
}
