// SPDX-License-Identifier: Apache-2.0
// The whole way from a model file to compiled.bin, phase by phase.
#include "autopar/Pipelines/Compile.h"

#include "BalanceStages.h"
#include "ChoosePipeline.h"
#include "CompileKernels.h"
#include "CompileSettings.h"
#include "DemandedOptions.h"
#include "ForbidChoices.h"
#include "OffloadByCost.h"
#include "PlanFiles.h"
#include "ReadModel.h"
#include "Reported.h"
#include "SearchPlan.h"

#include "autopar/Artifact/Writer.h"
#include "autopar/Base/OutputFile.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Target/ArtifactEmitter.h"
#include "autopar/Transforms/DescribePlan.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/OverlapParts.h"
#include "autopar/Transforms/PlannedOffload.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::StatusCode;

namespace {
Status writeText(StringRef path, function_ref<void(llvm::raw_ostream &)> write) {
  if (path == "-") {
    write(llvm::outs());
    return Status::ok();
  }
  std::string text;
  llvm::raw_string_ostream out(text);
  write(out);
  return ::autopar::writeWholeFile(path.str(), text);
}

/// One compilation under way.
class Compilation : public PlannedStep {
public:
  Compilation(const CompileOptions &options, MLIRContext &context, bool isOneOfTwo)
      : options(options), context(context), settings(options), isOneOfTwo(isOneOfTwo) {}

  /// The phases until memory is planned.
  Status plan() {
    AUTOPAR_RETURN_IF_ERROR(settings.read(context));
    for (const PhaseInfo &info : allPhases())
      count += runs(info.phase);
    for (const PhaseInfo &info : allPhases().drop_back())
      AUTOPAR_RETURN_IF_ERROR(enter(info));
    return Status::ok();
  }

  Result<CompileResult> finish() override {
    if (isOneOfTwo && isDescribed)
      AUTOPAR_RETURN_IF_ERROR(publish());
    AUTOPAR_RETURN_IF_ERROR(enter(allPhases().back()));
    tellPlan();
    if (options.stopAfter != Phase::Emit && !options.output.empty()) {
      if (failed(verify(*module)))
        return reported();
      AUTOPAR_RETURN_IF_ERROR(
          writeText(options.output, [&](llvm::raw_ostream &out) { module->print(out); }));
    }
    return result;
  }

  bool paysForMemory() const override { return found.paysForMemory; }
  const ::autopar::PlanBelief &believed() const override { return found.plan->believed; }
  void reject(::autopar::PlanAlternative other) override {
    found.plan->believed.alternatives.push_back(std::move(other));
    isTold = false;
  }

private:
  bool shards() const { return !shardOptions.cluster.empty() || !shardOptions.plan.empty(); }

  /// Sharding phases are skipped on one rank.
  bool runs(Phase phase) const {
    if (phase < options.startAt || phase > options.stopAfter)
      return false;
    if (phase == Phase::Train && !options.train)
      return false;
    if (phase == Phase::SplitMicroBatches && shardOptions.microBatches <= 1 && !settings.degrees)
      return false;
    if (phase == Phase::CutStages && shardOptions.stages == 1 && shardOptions.plan.empty() &&
        !choosesPipeline() && !settings.degrees)
      return false;
    bool isSharding = phase >= Phase::CutStages && phase <= Phase::OptimizeCollectives;
    return !isSharding || shards();
  }

  Status read() {
    Result<OwningOpRef<ModuleOp>> model = readModel(options, settings, context);
    if (!model)
      return model.status();
    module = model.take();
    if (auto function = module->lookupSymbol<func::FuncOp>("main"))
      files.countSamples(function);
    return Status::ok();
  }

  Status enter(const PhaseInfo &info) {
    if (info.phase == options.startAt && options.startAt != Phase::Import)
      AUTOPAR_RETURN_IF_ERROR(read());
    if (info.phase == Phase::CutStages && options.startAt <= info.phase &&
        options.stopAfter >= info.phase) {
      AUTOPAR_RETURN_IF_ERROR(checkDemandedStages(
          *module, options.constraints, shardOptions.stages != 1 || !shardOptions.plan.empty()));
      if (auto function = module->lookupSymbol<func::FuncOp>("main"))
        AUTOPAR_RETURN_IF_ERROR(settings.settleBeside(function));
    }
    if (!runs(info.phase))
      return Status::ok();
    ++number;
    if (options.onPhase)
      options.onPhase(number, count, info);
    AUTOPAR_RETURN_IF_ERROR(runPhase(info.phase));
    if (isDescribed && !isOneOfTwo && info.phase == std::min(options.stopAfter, Phase::PlanMemory))
      AUTOPAR_RETURN_IF_ERROR(publish());
    return dump(info);
  }

  Status runPhase(Phase phase) {
    if (phase == Phase::Import)
      return read();
    if (phase == Phase::Emit)
      return failed(verify(*module)) ? reported() : emit();
    if (phase == Phase::CutStages && choosesPipeline())
      return choose();
    if (phase == Phase::CutStages && fitsCut())
      return cut();
    if (phase == Phase::Search && (choosesPipeline() || fitsCut()))
      return takeFound(); // searched for what was tried
    if (isLowered && phase < Phase::PlanMemory)
      return phase == Phase::Schedule ? takeStepTime() : Status::ok();
    if (isLowered && phase == Phase::PlanMemory)
      return takePlannedBytes();
    if (phase == Phase::Search) {
      auto search = mustFit() ? searchFitting : searchPlan;
      if (failed(search(*module, shardOptions, lowerOptions, found)))
        return reported();
      return takeFound();
    }
    if (phase == Phase::Annotate && found.plan)
      return failed(annotatePlan(*module, *found.plan)) ? reported() : Status::ok();
    if (failed(mlir::autopar::runPhase(*module, phase, shardOptions, lowerOptions, settings.train,
                                       options.precision)))
      return reported();
    if (auto plan = (*module)->getAttrOfType<StringAttr>("autopar.plan"))
      result.plan = plan.str();
    if (phase == Phase::PlanMemory)
      return takePlannedBytes();
    return phase == Phase::Schedule ? takeStepTime() : Status::ok();
  }

  /// What the programs need is no longer believed but known.
  Status takePlannedBytes() {
    if (isDescribed) {
      std::vector<int64_t> bytes;
      found.details.hostBytes.clear();
      for (auto program : module->getOps<exec::ProgramOp>()) {
        bytes.push_back((*program.getArena())[0]);
        found.details.hostBytes.push_back((*program.getArena())[1]);
      }
      found.plan->believed.peakBytes = std::move(bytes);
      isTold = false;
    }
    return cluster && options.memoryLimit == 0 ? checkDevices(*module, *cluster) : Status::ok();
  }

  /// Takes the plan apart, found or given: its times and memory, its report, what else was
  /// possible.
  Status describe() {
    bool isGiven = !found.plan;
    if (isGiven) {
      Result<::autopar::Plan> given = ::autopar::Plan::load(shardOptions.plan);
      auto function = module->lookupSymbol<func::FuncOp>("main");
      if (!given || !function || shardOptions.cluster.empty())
        return given.status(); // without a cluster nothing has a price
      found.plan = given.take();
      if (failed(offloadAsPlanned(function, *found.plan)))
        return reported();
      Result<::autopar::PlanDetails> priced = describePlan(function, *found.plan, *cluster);
      if (!priced)
        return cannotDescribe(priced.status().at(shardOptions.plan));
      found.details = priced.take();
      if (failed(
              priceRecomputation(*module, shardOptions, lowerOptions, found.details, *found.plan)))
        return reported();
    }
    ::autopar::Plan *plan = &*found.plan;
    ::autopar::PlanDetails *details = &found.details;
    plan->believed.memoryLimit = lowerOptions.memoryLimit;
    if (isGiven) { // what its file says of times may be of another plan
      plan->believed.stepUs = details->believed.stepUs + plan->believed.recomputeUs;
      plan->believed.kernelsUs = 0;
      plan->believed.inParts = 0;
    }
    plan->believed.time = details->believed.time;
    plan->believed.axes = details->believed.axes;
    plan->believed.state = details->believed.state;
    if (plan->believed.recomputeUs > 0)
      plan->believed.time.push_back({"recompute", {}, plan->believed.recomputeUs, 0});
    if (plan->recompute.empty() && !found.isJudged)
      plan->believed.peakBytes = details->believed.peakBytes;
    // Parts are those of a step that keeps everything.
    if (plan->recompute.empty())
      plan->believed.memory = details->believed.memory;
    if (files.tellAlternatives())
      AUTOPAR_RETURN_IF_ERROR(
          files.writeAlternatives(forbidChoices(*module, shardOptions, *cluster, *plan, *details,
                                                [&](const std::string &what) { tell(what); })));
    if (options.stopAfter < Phase::Schedule &&
        failed(believeKernels(*module, shardOptions, lowerOptions, found)))
      return reported();
    isDescribed = true;
    isTold = isGiven;
    if (isGiven)
      result.plan = plan->toJson();
    return Status::ok();
  }

  /// In the module and to who asked for the compilation, where something is new. The text of a deep
  /// model's plan is long: not before somebody may read it.
  void tellPlan() {
    if (std::exchange(isTold, true))
      return;
    result.plan = found.plan->toJson();
    (*module)->setAttr("autopar.plan", StringAttr::get(&context, result.plan));
  }

  /// What a step takes by the kernels that the plan became.
  Status takeStepTime() {
    auto us = (*module)->getAttrOfType<FloatAttr>(kStepTimeAttribute);
    if (!us || !isDescribed)
      return Status::ok();
    (*module)->removeAttr(kStepTimeAttribute);
    (*module)->removeAttr(kMeshTimesAttribute);
    found.plan->believed.kernelsUs = us.getValueAsDouble();
    if (auto count = (*module)->removeAttr(kInPartsAttribute))
      found.plan->believed.inParts = cast<IntegerAttr>(count).getInt();
    isTold = false;
    return Status::ok();
  }

  /// Everything that is asked for about the plan, once all of it is known.
  Status publish() {
    tellPlan();
    return files.write(*found.plan, result.plan, found.details);
  }

  /// A plan of somebody else's may be run all the same.
  Status cannotDescribe(const Status &why) {
    if (files.areWanted())
      return why;
    emitRemark(module->getLoc()) << why.message();
    return Status::ok();
  }

  /// What is being tried.
  void tell(const std::string &what) {
    if (options.onDetail)
      options.onDetail(what);
  }

  /// Whether a plan is lowered to know that it fits.
  bool mustFit() const {
    return options.stopAfter >= Phase::PlanMemory && shardOptions.plan.empty();
  }

  /// What is to be known of the plan that was found. Where it was lowered to know that it fits,
  /// what came of it takes the module's place, unless somebody wants to see how.
  Status takeFound() {
    if (isOneOfTwo && mustFit() &&
        failed(keepOnDevices(*module, shardOptions, lowerOptions, found)))
      return reported();
    if (found.plan && options.stopAfter < Phase::PlanMemory &&
        failed(believePeak(*module, shardOptions, lowerOptions, found)))
      return reported();
    if (isOneOfTwo && found.plan && failed(weighPlan(*module, shardOptions, found)))
      return reported();
    AUTOPAR_RETURN_IF_ERROR(describe());
    found.modules = {};
    isLowered = found.lowered && options.emitMlir.empty();
    if (isLowered) {
      if (auto plan = (*module)->getAttr("autopar.plan"))
        (*found.lowered)->setAttr("autopar.plan", plan);
      module = std::move(found.lowered);
    }
    return Status::ok();
  }

  /// Whether micro-batches, stages or their schedule are left to cost.
  bool choosesPipeline() const {
    return shardOptions.plan.empty() &&
           (shardOptions.stages == 0 || shardOptions.microBatches == 0 ||
            shardOptions.schedule == "auto");
  }

  /// Whether stages are cut as memory needs it, which the search knows.
  bool fitsCut() const {
    return shardOptions.plan.empty() && !settings.degrees && shardOptions.stages > 1 &&
           options.stopAfter > Phase::CutStages;
  }

  Status cut() {
    FailureOr<CutPlan> cut = cutDemanded(*module, shardOptions, lowerOptions, mustFit());
    if (failed(cut))
      return reported();
    module = std::move(cut->module);
    found = std::move(cut->found);
    return Status::ok();
  }

  Status choose() {
    Result<PipelineChoices> choices =
        pipelineChoices(*module, shardOptions, cluster->deviceCount());
    if (!choices)
      return choices.status();
    if (failed(choosePipeline(module, *choices, shardOptions, lowerOptions, *cluster, mustFit(),
                              found, [&](const std::string &name) { tell(name); })))
      return reported();
    return Status::ok();
  }

  Status dump(const PhaseInfo &info) {
    if (options.emitMlir.empty() || info.phase == Phase::Emit)
      return Status::ok();
    tellPlan();
    if (std::error_code error = llvm::sys::fs::create_directories(options.emitMlir))
      return {StatusCode::CannotCreate, options.emitMlir + ": " + error.message()};
    SmallString<128> path(options.emitMlir);
    llvm::sys::path::append(
        path, llvm::formatv("{0}{1}-{2}.mlir", number < 10 ? "0" : "", number, info.name).str());
    return writeText(path, [&](llvm::raw_ostream &out) { module->print(out); });
  }

  Status emit() {
    tellPlan();
    EmitOptions emit;
    AUTOPAR_RETURN_IF_ERROR(compileKernels(*module, options.targetCpu, options.optimizesKernels,
                                           settings.lower.chip, emit));
    emit.plan = result.plan;
    emit.folder = llvm::sys::path::parent_path(options.output).str();
    if (emit.folder.empty())
      emit.folder = ".";
    if (options.copyWeights)
      emit.weights = options.output + ".weights";
    Result<::autopar::artifact::Contents> contents = buildArtifact(*module, std::move(emit));
    if (!contents.isOk())
      return contents.status();
    result.ranks = contents->ranks.size();
    for (const ::autopar::artifact::RankClass &rankClass : contents->classes) {
      result.deviceBytes = std::max(result.deviceBytes, rankClass.program.arenaBytes[0]);
      result.hostBytes = std::max(result.hostBytes, rankClass.program.arenaBytes[1]);
      result.kernels = std::max<int64_t>(result.kernels, rankClass.program.kernels.size());
    }
    AUTOPAR_RETURN_IF_ERROR(::autopar::artifact::writeArtifact(*contents, options.output));
    uint64_t size = 0;
    if (!llvm::sys::fs::file_size(options.output, size))
      result.artifactBytes = size;
    return settings.beside ? tellShared() : Status::ok();
  }

  Status tellShared() {
    Result<::autopar::artifact::Reader> own = ::autopar::artifact::Reader::open(options.output);
    if (!own)
      return own.status();
    result.sharedBytes = settings.beside->bytesInCommon(*own);
    if (result.sharedBytes == 0)
      emitWarning(module->getLoc())
          << "--beside " << options.beside
          << ": nothing is held together with it: expected a program of the same model, of the "
             "same options but for extents";
    return Status::ok();
  }

  const CompileOptions &options;
  MLIRContext &context;
  CompileSettings settings;
  PlanFiles files{options};
  const AutoShardOptions &shardOptions = settings.shard;
  const LowerOptions &lowerOptions = settings.lower;
  const std::optional<::autopar::Cluster> &cluster = settings.cluster;
  OwningOpRef<ModuleOp> module;
  SearchHandoff found; ///< the plan, from the search on
  bool isDescribed = false;
  bool isTold = true;           ///< what the module says of the plan is all that is known of it
  bool isLowered = false;       ///< the search left programs with their memory planned
  bool isOneOfTwo;              ///< nobody is told of a plan before finish()
  size_t count = 0, number = 0; ///< of phases: that run, and that have run
  CompileResult result;
};
} // namespace

Result<CompileResult> mlir::autopar::compileModel(const CompileOptions &options,
                                                  MLIRContext &context) {
  return offloadByCost(
      options, context,
      [&](const CompileOptions &own, bool isOneOfTwo) -> Result<std::unique_ptr<PlannedStep>> {
        auto compilation = std::make_unique<Compilation>(own, context, isOneOfTwo);
        AUTOPAR_RETURN_IF_ERROR(compilation->plan());
        return std::unique_ptr<PlannedStep>(std::move(compilation));
      });
}
