// SPDX-License-Identifier: Apache-2.0
// The public entry: opens a model and imports it into a fresh module.
#include "autopar/Import/Onnx/OnnxImporter.h"

#include "GraphImporter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::autopar;

FailureOr<OwningOpRef<ModuleOp>>
mlir::autopar::importOnnx(StringRef path, const ImportOptions &options, MLIRContext &context) {
  context.loadDialect<AutoParDialect, func::FuncDialect>();
  Location location = FileLineColLoc::get(&context, path, 0, 0);
  ModelFile file;
  if (failed(file.open(path, location)))
    return failure();
  OwningOpRef<ModuleOp> module = ModuleOp::create(location);
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(module->getBody());
  auto function = func::FuncOp::create(builder, location, "main", builder.getFunctionType({}, {}));
  GraphImporter importer(file, options, *module, function);
  if (failed(importer.importModel()) || failed(verify(*module)))
    return failure();
  return module;
}

/// What is done with a part of "name=value,...".
using VisitPair = function_ref<LogicalResult(StringRef part, StringRef name, StringRef value)>;

static LogicalResult forEachPair(StringRef text, VisitPair visit) {
  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts) {
    auto [name, value] = part.split('=');
    if (failed(visit(part, name.trim(), value.trim())))
      return failure();
  }
  return success();
}

LogicalResult mlir::autopar::parseBindings(StringRef text, ImportOptions &options,
                                           std::string &error) {
  return forEachPair(text, [&](StringRef part, StringRef name, StringRef number) {
    int64_t extent = 0, least = 1, step = 1;
    bool isRange = number.contains("..");
    auto [first, rest] = number.split("..");
    auto [last, steps] = rest.split(':');
    if (name.empty() || (isRange ? last : number).getAsInteger(10, extent) ||
        (isRange &&
         (first.getAsInteger(10, least) || (rest.contains(':') && steps.getAsInteger(10, step)))))
      error = ("binding '" + part +
               "' should read name=extent, name=least..most or name=least..most:step, as in "
               "batch=8,seq=1..128,width=64..640:32")
                  .str();
    else if (isRange && (least < 1 || least > extent))
      error = ("binding '" + part +
               "': expected a range that begins at 1 or above and ends where "
               "it begins or above")
                  .str();
    else if (step < 1 || (extent - least) % step != 0)
      error = ("binding '" + part + "': expected a step of at least 1 that leads from " +
               Twine(least) + " to " + Twine(extent))
                  .str();
    else if (extent < 0)
      error =
          ("binding '" + part + "': expected an extent of at least 1, or 0 for empty inputs").str();
    else if (!options.bindings.try_emplace(name.str(), extent).second)
      error = ("'" + name + "' is bound twice").str();
    else if (isRange && least < extent)
      options.ranges[name.str()] = {least, step};
    return success(error.empty());
  });
}

LogicalResult mlir::autopar::parseFixedInputs(StringRef text, ImportOptions &options,
                                              std::string &error) {
  return forEachPair(text, [&](StringRef part, StringRef name, StringRef number) {
    if (name.empty() || number.empty())
      error = ("'" + part + "' should read input=number, as in sr=16000").str();
    else if (!options.fixedInputs.try_emplace(name.str(), number.str()).second)
      error = ("'" + name + "' is fixed twice").str();
    return success(error.empty());
  });
}
