// SPDX-License-Identifier: Apache-2.0
// The whole way from a model file to compiled.bin, phase by phase.
#include "autopar/Pipelines/Compile.h"

#include "ChooseStages.h"

#include "autopar/Artifact/Writer.h"
#include "autopar/Conversion/KernelsToCpu.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Import/Onnx/OnnxImporter.h"
#include "autopar/Target/ArtifactEmitter.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

#include <thread>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::StatusCode;

namespace {
/// Said by diagnostics already.
Status reported() { return Status::badInput(""); }

Status writeText(StringRef path, function_ref<void(llvm::raw_ostream &)> write) {
  if (path == "-") {
    write(llvm::outs());
    return Status::ok();
  }
  std::string temporary = (path + ".part").str();
  std::error_code error;
  llvm::ToolOutputFile file(temporary, error, llvm::sys::fs::OF_None);
  if (error)
    return {StatusCode::CannotCreate, path.str() + ": " + error.message()};
  write(file.os());
  file.os().close();
  if (file.os().has_error() || llvm::sys::fs::rename(temporary, path))
    return {StatusCode::IoError, path.str() + ": writing failed"};
  file.keep();
  return Status::ok();
}

/// One compilation under way.
class Compilation {
public:
  Compilation(const CompileOptions &options, MLIRContext &context)
      : options(options), context(context) {}

  Result<CompileResult> run() {
    AUTOPAR_RETURN_IF_ERROR(chooseCluster());
    size_t count = 0;
    for (const PhaseInfo &info : allPhases())
      count += runs(info.phase);
    size_t number = 0;
    for (const PhaseInfo &info : allPhases()) {
      if (info.phase == options.startAt && options.startAt != Phase::Import)
        AUTOPAR_RETURN_IF_ERROR(read());
      if (!runs(info.phase))
        continue;
      ++number;
      if (options.onPhase)
        options.onPhase(number, count, info);
      AUTOPAR_RETURN_IF_ERROR(runPhase(info.phase));
      AUTOPAR_RETURN_IF_ERROR(dump(info, number));
    }
    if (options.stopAfter != Phase::Emit && !options.output.empty())
      AUTOPAR_RETURN_IF_ERROR(
          writeText(options.output, [&](llvm::raw_ostream &out) { module->print(out); }));
    return result;
  }

private:
  bool shards() const { return !shardOptions.cluster.empty() || !options.plan.empty(); }

  /// Sharding phases are skipped on one rank.
  bool runs(Phase phase) const {
    if (phase < options.startAt || phase > options.stopAfter)
      return false;
    if (phase == Phase::Train && !options.train)
      return false;
    if (phase == Phase::SplitMicroBatches && options.microBatches == 1)
      return false;
    if (phase == Phase::CutStages && options.stages == 1 && options.plan.empty())
      return false;
    bool isSharding = phase >= Phase::CutStages && phase <= Phase::OptimizeCollectives;
    return !isSharding || shards();
  }

  Status chooseCluster() {
    shardOptions.cluster = options.cluster;
    if (options.cluster.empty() && options.ranks > 1)
      shardOptions.cluster = "presets:cpux" + std::to_string(options.ranks);
    shardOptions.engine = options.engine;
    shardOptions.mesh = options.mesh;
    shardOptions.seed = options.seed;
    shardOptions.plan = options.plan;
    shardOptions.emitPlan = options.emitPlan;
    shardOptions.memoryLimit = options.memoryLimit;
    shardOptions.microBatches = options.microBatches;
    shardOptions.stages = options.stages;
    shardOptions.stageMeshes = options.stageMeshes;
    shardOptions.schedule = options.schedule;
    lowerOptions.threads = options.threads;
    lowerOptions.packWeights = options.packWeights;
    lowerOptions.memoryLimit = options.memoryLimit;
    if (shardOptions.cluster.empty())
      return Status::ok();
    Result<::autopar::Cluster> cluster = ::autopar::Cluster::load(shardOptions.cluster);
    if (!cluster)
      return cluster.status();
    devices = cluster->deviceCount();
    if (options.memoryLimit == 0)
      lowerOptions.memoryLimit = cluster->typeOfDevice(0).usableBytes();
    return Status::ok();
  }

  Status read() {
    if (!llvm::sys::fs::exists(options.input))
      return Status::noInput(options.input + ": no such file");
    ParserConfig config(&context);
    module = parseSourceFile<ModuleOp>(options.input, config);
    return module ? Status::ok() : reported();
  }

  Status import() {
    if (StringRef(options.input).ends_with(".mlir"))
      return read();
    if (!llvm::sys::fs::exists(options.input))
      return Status::noInput(options.input + ": no such file");
    ImportOptions import;
    import.bindings = options.bindings;
    import.trainingMode = options.train && !options.train.inferenceMode;
    import.ownTraining = !options.train && !options.train.inferenceMode;
    FailureOr<OwningOpRef<ModuleOp>> imported = importOnnx(options.input, import, context);
    if (failed(imported))
      return reported();
    module = std::move(*imported);
    return Status::ok();
  }

  Status runPhase(Phase phase) {
    if (phase == Phase::Import)
      return import();
    if (phase == Phase::Emit)
      return emit();
    if (phase == Phase::CutStages && choosesStages())
      return choose();
    if (phase == Phase::Search && choosesStages())
      return Status::ok(); // done for every number of stages
    PassManager manager(&context);
    buildPhase(manager, phase, shardOptions, lowerOptions, options.train, options.precision);
    if (failed(manager.run(*module)))
      return reported();
    if (auto plan = (*module)->getAttrOfType<StringAttr>("autopar.plan"))
      result.plan = plan.str();
    return Status::ok();
  }

  bool choosesStages() const { return options.stages == 0 && options.plan.empty(); }

  Status choose() {
    auto onCandidate = [&](int64_t stages) {
      if (options.onDetail)
        options.onDetail(std::to_string(stages) + (stages == 1 ? " stage" : " stages"));
    };
    if (failed(chooseStages(module, shardOptions, devices, onCandidate)))
      return reported();
    result.plan = (*module)->getAttrOfType<StringAttr>("autopar.plan").str();
    return Status::ok();
  }

  Status dump(const PhaseInfo &info, size_t number) {
    if (options.emitMlir.empty() || info.phase == Phase::Emit)
      return Status::ok();
    if (std::error_code error = llvm::sys::fs::create_directories(options.emitMlir))
      return {StatusCode::CannotCreate, options.emitMlir + ": " + error.message()};
    SmallString<128> path(options.emitMlir);
    llvm::sys::path::append(
        path, llvm::formatv("{0}{1}-{2}.mlir", number < 10 ? "0" : "", number, info.name).str());
    return writeText(path, [&](llvm::raw_ostream &out) { module->print(out); });
  }

  Status emit() {
    EmitOptions emit;
    ::autopar::CpuTarget target{options.targetCpu, 0};
    FailureOr<::autopar::CpuTarget> resolved =
        ::autopar::resolveCpuTarget(target, module->getLoc());
    if (failed(resolved))
      return reported();
    // Artifacts name psABI levels; what lies beyond is used only where it was asked for by name.
    if (options.targetCpu == "native")
      resolved->level = StringRef(resolved->level).split('+').first.str();
    emit.target.features = resolved->level;
    if (auto kernels = module->lookupSymbol<ModuleOp>("kernels");
        kernels && !kernels.getBody()->empty()) {
      FailureOr<std::vector<char>> object = ::autopar::compileKernels(
          kernels, *resolved, std::max(1u, std::thread::hardware_concurrency()));
      if (failed(object))
        return {StatusCode::Internal, ""};
      emit.kernels = std::move(*object);
    }
    emit.plan = result.plan;
    emit.folder = llvm::sys::path::parent_path(options.output).str();
    if (emit.folder.empty())
      emit.folder = ".";
    Result<::autopar::artifact::Contents> contents = buildArtifact(*module, std::move(emit));
    if (!contents.isOk())
      return contents.status();
    result.ranks = contents->ranks.size();
    for (const ::autopar::artifact::RankClass &rankClass : contents->classes) {
      result.deviceBytes = std::max(result.deviceBytes, rankClass.program.arenaBytes[0]);
      result.kernels = std::max<int64_t>(result.kernels, rankClass.program.kernels.size());
    }
    AUTOPAR_RETURN_IF_ERROR(::autopar::artifact::writeArtifact(*contents, options.output));
    uint64_t size = 0;
    if (!llvm::sys::fs::file_size(options.output, size))
      result.artifactBytes = size;
    return Status::ok();
  }

  const CompileOptions &options;
  MLIRContext &context;
  AutoShardOptions shardOptions;
  LowerOptions lowerOptions;
  OwningOpRef<ModuleOp> module;
  int64_t devices = 1; ///< of the cluster
  CompileResult result;
};
} // namespace

Result<CompileResult> mlir::autopar::compileModel(const CompileOptions &options,
                                                  MLIRContext &context) {
  return Compilation(options, context).run();
}
