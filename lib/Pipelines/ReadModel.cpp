// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ReadModel.h"

#include "Reported.h"
#include "VaryExtents.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"
#include "autopar/Import/Onnx/OnnxImporter.h"
#include "autopar/Import/Profile/GraphImporter.h"
#include "autopar/Transforms/Passes.h"
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

static Result<Module> importModel(const CompileOptions &options, MLIRContext &context) {
  ImportOptions import;
  import.ranges = options.ranges;
  import.bindings = options.bindings;
  import.fixedInputs = options.fixedInputs;
  import.trainingMode = options.train && !options.train.inferenceMode;
  import.ownTraining = !options.train && !options.train.inferenceMode;
  import.inferenceMode = options.train.inferenceMode;
  import.needsValues = options.stopAfter == Phase::Emit;
  if (options.train && !import.ranges.empty())
    return Status{StatusCode::Usage,
                  "--bind: '" + import.ranges.begin()->first +
                      "' is a range, but a training step has one batch and length; compile a "
                      "program for each (--beside)"};
  FailureOr<Module> imported = importOnnx(options.input, import, context);
  if (failed(imported))
    return reported();
  if (!import.ranges.empty())
    AUTOPAR_RETURN_IF_ERROR(varyExtents(*imported, options.input, import, context));
  return Result<Module>(std::move(*imported));
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
