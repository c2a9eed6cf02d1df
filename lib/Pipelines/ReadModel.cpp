// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ReadModel.h"

#include "Reported.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"
#include "autopar/Import/Onnx/OnnxImporter.h"
#include "autopar/Import/Profile/GraphImporter.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/VaryingExtents.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::StatusCode;

using Module = OwningOpRef<ModuleOp>;

static Result<Module> readText(const CompileOptions &options, MLIRContext &context) {
  if (StringRef(options.input).ends_with(".onnx"))
    return Status{StatusCode::Usage, "--start-at: expected what --stop-after or --emit-mlir wrote, "
                                     "a FILE.mlir, got " +
                                         options.input};
  ParserConfig config(&context);
  Module module = parseSourceFile<ModuleOp>(options.input, config);
  return module ? Result<Module>(std::move(module)) : reported();
}

static Result<Module> importAt(const ImportOptions &import, const CompileOptions &options,
                               MLIRContext &context) {
  FailureOr<Module> imported = importOnnx(options.input, import, context);
  return failed(imported) ? reported() : Result<Module>(std::move(*imported));
}

/// Writes into a module, imported at the most, what of it follows an extent that varies.
static Status markVarying(ModuleOp module, StringRef name, int64_t least, ImportOptions import,
                          const CompileOptions &options, MLIRContext &context) {
  int64_t most = import.bindings.at(name.str());
  // Where an extent is 1, what is repeated along it is not.
  VaryingExtent extent{name, least, most, most > 2 ? most - 1 : most + 1};
  import.bindings[name.str()] = extent.other;
  Result<Module> other = importAt(import, options, context);
  if (!other)
    return Status::badInput(options.input + ": '" + name.str() +
                            "' cannot vary, as the model is not one where it is " +
                            std::to_string(extent.other) + "; bind one extent");
  return failed(mlir::autopar::markVarying(module, **other, extent)) ? reported() : Status::ok();
}

/// Extents that vary: what stands behind their ends is kept out of what stands in front.
static Status letVary(ModuleOp module, const ImportOptions &import, const CompileOptions &options,
                      MLIRContext &context) {
  if (import.leastExtents.empty())
    return Status::ok();
  if (options.train)
    return {StatusCode::Usage, "--bind: '" + import.leastExtents.begin()->first +
                                   "' is a range, but a training step has one batch and length; "
                                   "compile a program for each (--beside)"};
  for (const auto &[name, least] : import.leastExtents)
    AUTOPAR_RETURN_IF_ERROR(markVarying(module, name, least, import, options, context));
  PassManager manager(&context);
  manager.addNestedPass<func::FuncOp>(createMaskPaddingPass());
  return failed(manager.run(module)) ? reported() : Status::ok();
}

static Result<Module> importModel(const CompileOptions &options, MLIRContext &context) {
  ImportOptions import;
  import.leastExtents = options.leastExtents;
  import.bindings = options.bindings;
  import.fixedInputs = options.fixedInputs;
  import.trainingMode = options.train && !options.train.inferenceMode;
  import.ownTraining = !options.train && !options.train.inferenceMode;
  import.inferenceMode = options.train.inferenceMode;
  import.needsValues = options.stopAfter == Phase::Emit;
  Result<Module> module = importAt(import, options, context);
  if (module)
    AUTOPAR_RETURN_IF_ERROR(letVary(**module, import, options, context));
  return module;
}

static Result<Module> importGraph(const CompileOptions &options,
                                  const ::autopar::ProfileDatabase &profile, MLIRContext &context) {
  Result<::autopar::OperatorGraph> graph = ::autopar::OperatorGraph::load(options.input, profile);
  if (!graph)
    return graph.status();
  FailureOr<Module> imported = importOperatorGraph(*graph, profile, options.input, context);
  return failed(imported) ? reported() : Result<Module>(std::move(*imported));
}

/// Outputs that are inputs of the next step.
static LogicalResult carryState(ModuleOp module, const CompileOptions &options) {
  if (options.carry.empty())
    return success();
  PassManager manager(module.getContext());
  CarryStatePassOptions carry;
  llvm::append_range(carry.carry, options.carry);
  manager.addPass(createCarryStatePass(carry));
  return manager.run(module);
}

static Status settleInputs(ModuleOp module, const CompileOptions &options,
                           CompileSettings &settings) {
  if (failed(carryState(module, options)))
    return reported();
  auto function = module.lookupSymbol<func::FuncOp>("main");
  if (function && function.getBody().hasOneBlock() && failed(verifyStep(function)))
    return reported();
  std::optional<int64_t> batch = function ? samplesOf(function) : std::nullopt;
  if (options.train && batch == 0)
    return Status::badInput(options.input +
                            ": a batch of no samples has no loss: bind an extent of at least 1");
  for (const auto &[name, extent] : options.bindings)
    if (options.train && extent == 0)
      return Status::badInput(options.input + ": '" + name +
                              "' is bound to 0, and what is empty has no loss: bind an extent of "
                              "at least 1");
  return settings.settleBatch(batch);
}

Result<Module> mlir::autopar::readModel(const CompileOptions &options, CompileSettings &settings,
                                        MLIRContext &context) {
  if (!llvm::sys::fs::exists(options.input))
    return Status::noInput(options.input + ": no such file");
  StringRef input = options.input;
  bool isText = options.startAt != Phase::Import || input.ends_with(".mlir");
  Result<Module> module = isText ? readText(options, context)
                          : input.ends_with(".json")
                              ? importGraph(options, *settings.profile, context)
                              : importModel(options, context);
  if (!module)
    return module.status();
  AUTOPAR_RETURN_IF_ERROR(settleInputs(**module, options, settings));
  return module;
}
