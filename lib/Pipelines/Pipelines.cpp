// SPDX-License-Identifier: Apache-2.0
// The order of things: which passes make up which phase.
#include "autopar/Pipelines/Pipelines.h"

#include "DemandedOptions.h"
#include "SearchPlan.h"

#include "autopar/Artifact/CudaScratch.h"
#include "autopar/Conversion/Passes.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"
#include "autopar/Plan/Constraints.h"
#include "autopar/Training/Passes.h"
#include "autopar/Transforms/LibraryConvolution.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::autopar;

ArrayRef<PhaseInfo> mlir::autopar::allPhases() {
  static const PhaseInfo phases[] = {
      {Phase::Import, "import", "read the model into whole tensors of static shape"},
      {Phase::Prepare, "prepare", "fold constants and raise what exporters decomposed"},
      {Phase::Train, "train", "add loss, derivatives and the optimizer's update"},
      {Phase::SplitMicroBatches, "split-micro-batches", "compute the batch in parts, by time"},
      {Phase::CutStages, "cut-stages", "put operations on pipeline stages"},
      {Phase::Search, "search", "choose a mesh and a sharding for every operation by cost"},
      {Phase::Annotate, "annotate", "write the plan onto the operations"},
      {Phase::InsertReshards, "insert-reshards",
       "make every disagreement between shardings an operation"},
      {Phase::Partition, "partition", "rewrite to the local shapes of one rank, with collectives"},
      {Phase::OptimizeCollectives, "optimize-collectives",
       "replace collectives by cheaper equal ones"},
      {Phase::FormGroups, "form-groups",
       "gather operations that become one kernel or library call"},
      {Phase::Schedule, "schedule",
       "write out recomputation, micro-batches and stages in the order of the schedule"},
      {Phase::Lower, "lower", "choose library calls, generate kernels, lay out the program"},
      {Phase::PlanMemory, "plan-memory", "give every buffer its place and order the queues"},
      {Phase::Emit, "emit", "compile the kernels and write the artifact"},
  };
  return phases;
}

std::optional<Phase> mlir::autopar::phaseFromName(StringRef name) {
  for (const PhaseInfo &info : allPhases())
    if (info.name == name)
      return info.phase;
  return std::nullopt;
}

SearchPassOptions mlir::autopar::searchOptions(const AutoShardOptions &options) {
  SearchPassOptions search;
  search.cluster = options.cluster;
  search.engine = options.engine;
  search.meshShape = options.mesh;
  // What else is demanded is done by then.
  auto demands = ::autopar::Constraints::parse("constraints", options.constraints);
  search.constraints = options.constraints;
  if (demands)
    search.constraints = demands->ofShardings().toText();
  search.memoryLimit = options.memoryLimit;
  search.seed = options.seed;
  search.planFile = options.emitPlan;
  return search;
}

/// Functions have one block: what is done to blocks finds nothing.
static std::unique_ptr<Pass> createCanonicalize() {
  return createCanonicalizerPass(
      GreedyRewriteConfig().setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled));
}

static void addSearch(OpPassManager &manager, const AutoShardOptions &options,
                      const SearchPassOptions &search) {
  manager.addNestedPass<func::FuncOp>(createHoldAcrossPhasesPass());
  if (options.plan.empty()) // else annotate reads the plan file
    manager.addPass(createSearchPass(search));
}

/// As far as nothing runs attention whole.
static void addExpandAttention(OpPassManager &manager, const LowerOptions &lower) {
  ExpandAttentionPassOptions options;
  options.mode = lower.attention;
  options.target = lower.target;
  options.chip = lower.chip;
  manager.addNestedPass<func::FuncOp>(createExpandAttentionPass(options));
}

static void addNarrowEpilogues(OpPassManager &manager, const LowerOptions &lower) {
  NarrowEpiloguesPassOptions options;
  options.activations = lower.activationGradients;
  manager.addNestedPass<func::FuncOp>(createNarrowEpiloguesPass(options));
}

/// As far as no library takes them with a product.
static void addExpandGradients(OpPassManager &manager, const LowerOptions &lower) {
  ExpandGradientsPassOptions options;
  options.activations = lower.activationGradients;
  options.target = lower.target;
  manager.addNestedPass<func::FuncOp>(createExpandGradientsPass(options));
}

/// As far as no library computes them.
static void addExpandConvolutionGradients(OpPassManager &manager, const LowerOptions &lower) {
  ExpandConvolutionGradientsPassOptions options;
  options.mode = lower.convolutions;
  options.target = lower.target;
  manager.addNestedPass<func::FuncOp>(createExpandConvolutionGradientsPass(options));
}

/// Whole tensors of the forward function. What is done to parameters here is done before there are
/// derivatives and updates of them.
static void addPrepare(OpPassManager &manager, const AutoShardOptions &shard,
                       const TrainOptions &train, const PrecisionOptions &precision,
                       const LowerOptions &lower) {
  if (!train.adapters.empty()) {
    AddAdaptersPassOptions add;
    add.adapters = train.adapters;
    llvm::append_range(add.adapt, train.adapt);
    add.drawn = static_cast<bool>(train);
    manager.addPass(createAddAdaptersPass(add));
  }
  if (train) {
    ChooseTrainablePassOptions choose;
    llvm::append_range(choose.freeze, train.freeze);
    llvm::append_range(choose.trainOnly, train.trainOnly);
    llvm::append_range(choose.noDecay, train.noDecay);
    manager.addPass(createChooseTrainablePass(choose));
  }
  manager.addNestedPass<func::FuncOp>(createLimitInputsPass());
  manager.addPass(createCanonicalize());
  manager.addNestedPass<func::FuncOp>(createRaiseCompositesPass());
  // A scale that is trained has a gradient of its own and stays where it is.
  if (!train) {
    manager.addNestedPass<func::FuncOp>(createFoldScalesPass());
    // Whose scales stay.
    manager.addNestedPass<func::FuncOp>(createRaiseIntegerProductsPass({lower.target}));
    manager.addNestedPass<func::FuncOp>(createGatherFirstPass());
  }
  manager.addPass(createUnflattenRowsPass());
  manager.addPass(createSplitFusedProjectionsPass());
  manager.addPass(createFoldParametersPass());
  manager.addPass(createCanonicalize());
  manager.addPass(createCSEPass());
  manager.addNestedPass<func::FuncOp>(createBatchSlicedProductsPass());
  manager.addNestedPass<func::FuncOp>(createPartExpertsPass({shard.expertParts}));
  RaiseAttentionPassOptions attention;
  attention.mode = lower.attention;
  attention.target = lower.target;
  attention.chip = lower.chip;
  attention.precision = precision.compute;
  manager.addNestedPass<func::FuncOp>(createRaiseAttentionPass(attention));
  if (precision.compute != "f32") {
    MixedPrecisionPassOptions narrow;
    narrow.precision = precision.compute;
    narrow.inference = !train;
    manager.addPass(createMixedPrecisionPass(narrow));
    manager.addPass(createCanonicalize());
    if (precision.compute == "fp8") {
      ScaleProductsPassOptions scale;
      llvm::append_range(scale.keep, precision.keepBf16);
      manager.addPass(createScaleProductsPass(scale));
    }
  }
  addExpandAttention(manager, lower); // what the model itself has whole
}

static void addTrain(OpPassManager &manager, const TrainOptions &train,
                     const PrecisionOptions &precision, const LowerOptions &lower) {
  if (!train)
    return;
  BuildTrainingStepPassOptions options;
  options.loss = train.loss;
  options.metrics = train.metrics;
  options.optimizer = train.optimizer;
  options.schedule = train.schedule;
  options.clipNorm = train.clipNorm;
  llvm::append_range(options.lrScale, train.rateScales);
  options.gradientType = precision.gradient;
  options.lossScale = precision.lossScale;
  manager.addPass(createBuildTrainingStepPass(options));
  addExpandConvolutionGradients(manager, lower);
  manager.addPass(createCanonicalize());
  manager.addNestedPass<func::FuncOp>(createRaiseCompositesPass());
  manager.addPass(createCanonicalize());
  manager.addPass(createCSEPass());
  if (lower.target == Target::Cuda) {
    PriceInProductsPassOptions price;
    price.activations = lower.activationGradients;
    price.biases = lower.biasGradients;
    manager.addNestedPass<func::FuncOp>(createPriceInProductsPass(price));
  }
  if (train.offload == "state")
    manager.addNestedPass<func::FuncOp>(createOffloadStatePass());
}

static void addSplitMicroBatches(OpPassManager &manager, const AutoShardOptions &shard) {
  SplitMicroBatchesPassOptions options;
  options.count = shard.microBatches;
  manager.addPass(createSplitMicroBatchesPass(options));
  manager.addPass(createCanonicalize());
  manager.addPass(createCSEPass());
}

static void addCutStages(OpPassManager &manager, const AutoShardOptions &shard) {
  CutStagesPassOptions options;
  options.stages = shard.stages;
  options.meshes = shard.stageMeshes;
  options.meshShape = shard.mesh;
  options.memoryLimit = shard.memoryLimit;
  options.recomputes = shard.recompute != "none";
  options.schedule = shard.schedule;
  options.cluster = shard.cluster;
  options.planFile = shard.plan;
  options.constraints = shard.constraints;
  manager.addPass(createCutStagesPass(options));
}

static void addAnnotate(OpPassManager &manager, const AutoShardOptions &shard) {
  AnnotatePassOptions options;
  options.planFile = shard.plan;
  manager.addPass(createAnnotatePass(options));
}

static void addPartition(OpPassManager &manager) {
  manager.addNestedPass<func::FuncOp>(createPartitionPass());
  manager.addPass(createCanonicalize());
  manager.addPass(createCSEPass());
}

static void addOptimizeCollectives(OpPassManager &manager, const AutoShardOptions &shard,
                                   const LowerOptions &lower) {
  manager.addNestedPass<func::FuncOp>(
      createBalanceAttentionPass({shard.cluster, lower.target, lower.chip}));
  manager.addNestedPass<func::FuncOp>(createOptimizeCollectivesPass());
}

/// What the target's library and kernels are good at, and then what becomes one of them.
static void addFormGroups(OpPassManager &manager, const LowerOptions &lower) {
  bool isForCuda = lower.target == Target::Cuda;
  manager.addNestedPass<func::FuncOp>(createStackProductsPass());
  ExpandGroupedProductsPassOptions grouped;
  grouped.target = lower.target;
  manager.addNestedPass<func::FuncOp>(createExpandGroupedProductsPass(grouped));
  if (isForCuda) {
    manager.addNestedPass<func::FuncOp>(createTileGroupedProductsPass());
    addNarrowEpilogues(manager, lower);
    // Its library reads weights in memory well.
    manager.addNestedPass<func::FuncOp>(createReduceFewRowsPass({/*rows=*/0, /*rowsOfMade=*/8}));
    manager.addNestedPass<func::FuncOp>(createJoinProductsPass());
  }
  manager.addNestedPass<func::FuncOp>(createExpandScaledProductsPass());
  if (!isForCuda) {
    if (lower.byteProducts)
      manager.addNestedPass<func::FuncOp>(createMultiplyBytesPass());
    RoundInBlocksPassOptions rounding;
    rounding.instructions = lower.byteProducts ? ByteDots::Vnni : ByteDots::Avx2;
    manager.addNestedPass<func::FuncOp>(createRoundInBlocksPass(rounding));
    manager.addNestedPass<func::FuncOp>(createTurnColumnsPass());
    manager.addNestedPass<func::FuncOp>(createReduceFewRowsPass());
    manager.addNestedPass<func::FuncOp>(createExpandIntegerProductsPass({lower.bf16Products}));
  }
  addExpandGradients(manager, lower);
  addExpandAttention(manager, lower); // a shard may be what no library takes
  manager.addNestedPass<func::FuncOp>(createSplitAttentionSinksPass());
  manager.addNestedPass<func::FuncOp>(createFoldRepeatedHeadsPass());
  addExpandConvolutionGradients(manager, lower);
  if (isForCuda) {
    ReduceFewRowsPassOptions ofBatch;
    ofBatch.rows = ofBatch.rowsOfMade = 0;
    ofBatch.rowsOfBatch = 8;
    manager.addNestedPass<func::FuncOp>(createReduceFewRowsPass(ofBatch));
    manager.addNestedPass<func::FuncOp>(createBoundAttentionBiasPass());
  }
  manager.addNestedPass<func::FuncOp>(createExpandAccumulatorsPass());
  if (isForCuda) {
    manager.addNestedPass<func::FuncOp>(createAlignProductsPass());
    manager.addNestedPass<func::FuncOp>(createComputePaddedPass());
    SplitReductionsPassOptions split;
    split.biases = lower.biasGradients;
    manager.addNestedPass<func::FuncOp>(createSplitReductionsPass(split));
  } else {
    manager.addNestedPass<func::FuncOp>(createFillChannelBlocksPass({channelBlock()}));
    manager.addNestedPass<func::FuncOp>(
        createWidenProductsPass({lower.bf16Products, lower.bf16Library}));
  }
  manager.addPass(createExpandUpdatesPass()); // behind what changes who makes a gradient
  FormFusionGroupsPassOptions groups;
  groups.target = lower.target;
  groups.activations = lower.activationGradients;
  manager.addNestedPass<func::FuncOp>(createFormFusionGroupsPass(groups));
}

void mlir::autopar::addOrder(OpPassManager &manager, const AutoShardOptions &shard,
                             const LowerOptions &lower) {
  manager.addNestedPass<func::FuncOp>(createInsertRecomputePass({lower.target}));
  OverlapPartsPassOptions overlap;
  overlap.cluster = shard.cluster;
  overlap.target = lower.target;
  overlap.memoryLimit = shard.memoryLimit;
  manager.addPass(createOverlapPartsPass(overlap));
  manager.addPass(createGatherAheadPass({shard.cluster, lower.target, shard.memoryLimit}));
  manager.addPass(createWaitBehindPass({shard.cluster, lower.target, shard.memoryLimit}));
  manager.addPass(createInterleaveUpdatesPass({shard.cluster, lower.target, shard.memoryLimit}));
  EvaluateStepPassOptions evaluate;
  evaluate.cluster = shard.cluster;
  evaluate.target = lower.target;
  evaluate.memoryLimit = shard.memoryLimit;
  manager.addPass(createEvaluateStepPass(evaluate));
}

void mlir::autopar::addWriteOut(OpPassManager &manager, const AutoShardOptions &shard,
                                const LowerOptions &lower) {
  manager.addPass(createSchedulePass({lower.rounds, shard.cluster, lower.target}));
}

static void addSchedule(OpPassManager &manager, const AutoShardOptions &shard,
                        const LowerOptions &lower) {
  addOrder(manager, shard, lower);
  addWriteOut(manager, shard, lower);
}

static void addLower(OpPassManager &manager, const LowerOptions &lower) {
  if (lower.target == Target::Cpu) {
    manager.addNestedPass<func::FuncOp>(createRoundInProductsPass());
    manager.addNestedPass<func::FuncOp>(createReduceWhileCachedPass());
  }
  AutoParToExecPassOptions options;
  options.threads = lower.threads;
  options.packWeights = lower.packWeights;
  options.target = lower.target;
  options.convolutions = lower.convolutions;
  manager.addPass(createAutoParToExecPass(options));
  manager.addNestedPass<exec::ProgramOp>(exec::createStageHostBuffersPass());
  if (lower.target == Target::Cuda)
    manager.addPass(createJoinLaunchesPass());
}

static void addPlanMemory(OpPassManager &manager, const LowerOptions &lower) {
  exec::PlanMemoryPassOptions options;
  options.limit = lower.memoryLimit;
  options.hostLimit = lower.hostMemoryLimit;
  options.refuse = lower.refuse;
  if (lower.target == Target::Cuda) { // whose ranks communicate beside what they compute
    options.alignment = ::autopar::artifact::kCudaScratchAlignment;
    manager.addNestedPass<exec::ProgramOp>(exec::createOrderPartsLatePass());
    manager.addNestedPass<exec::ProgramOp>(exec::createFillWaitsPass({lower.memoryLimit}));
  }
  manager.addNestedPass<exec::ProgramOp>(exec::createMarkInstructionsPass());
  manager.addNestedPass<exec::ProgramOp>(exec::createPlanMemoryPass(options));
  manager.addNestedPass<exec::ProgramOp>(exec::createOrderQueuesPass());
}

void mlir::autopar::buildPhase(OpPassManager &manager, Phase phase, const AutoShardOptions &shard,
                               const LowerOptions &lower, const TrainOptions &train,
                               const PrecisionOptions &precision) {
  switch (phase) {
  case Phase::Import:
  case Phase::Emit:
    return;
  case Phase::Prepare:
    return addPrepare(manager, shard, train, precision, lower);
  case Phase::Train:
    return addTrain(manager, train, precision, lower);
  case Phase::SplitMicroBatches:
    return addSplitMicroBatches(manager, shard);
  case Phase::CutStages:
    return addCutStages(manager, shard);
  case Phase::Search:
    return addSearch(manager, shard, searchOptions(shard));
  case Phase::Annotate:
    return addAnnotate(manager, shard);
  case Phase::InsertReshards:
    return manager.addNestedPass<func::FuncOp>(createInsertReshardsPass());
  case Phase::Partition:
    return addPartition(manager);
  case Phase::OptimizeCollectives:
    return addOptimizeCollectives(manager, shard, lower);
  case Phase::FormGroups:
    return addFormGroups(manager, lower);
  case Phase::Schedule:
    return addSchedule(manager, shard, lower);
  case Phase::Lower:
    return addLower(manager, lower);
  case Phase::PlanMemory:
    return addPlanMemory(manager, lower);
  }
}

/// Whether a phase gives the program a new form. What one in between breaks is found behind the
/// next.
static bool givesNewForm(Phase phase) {
  return phase == Phase::Train || phase == Phase::Partition || phase == Phase::FormGroups ||
         phase == Phase::Lower;
}

LogicalResult mlir::autopar::runPhase(ModuleOp module, Phase phase, const AutoShardOptions &shard,
                                      const LowerOptions &lower, const TrainOptions &train,
                                      const PrecisionOptions &precision) {
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  // Of a tool that registers them; else there are none, which is all that can fail.
  (void)applyPassManagerCLOptions(manager);
  applyDefaultTimingPassManagerCLOptions(manager);
  buildPhase(manager, phase, shard, lower, train, precision);
  if (failed(manager.run(module)))
    return failure();
  return givesNewForm(phase) ? verify(module) : success();
}

void mlir::autopar::buildAutoShardPipeline(OpPassManager &manager, const AutoShardOptions &given) {
  AutoShardOptions options;
  options.copyOptionValuesFrom(given);
  std::string rest = takeDemands(given, options);
  for (Phase phase : {Phase::Prepare, Phase::SplitMicroBatches, Phase::CutStages})
    buildPhase(manager, phase, options, LowerOptions());
  SearchPassOptions search = searchOptions(options);
  search.constraints = rest;
  addSearch(manager, options, search);
  for (Phase phase : {Phase::Annotate, Phase::InsertReshards})
    buildPhase(manager, phase, options, LowerOptions());
}

void mlir::autopar::buildPartitionPipeline(OpPassManager &manager) {
  for (Phase phase : {Phase::Partition, Phase::OptimizeCollectives})
    buildPhase(manager, phase, AutoShardOptions(), LowerOptions());
}

void mlir::autopar::buildLowerPipeline(OpPassManager &manager, const LowerOptions &options) {
  for (Phase phase : {Phase::FormGroups, Phase::Schedule, Phase::Lower, Phase::PlanMemory})
    buildPhase(manager, phase, AutoShardOptions(), options);
}
