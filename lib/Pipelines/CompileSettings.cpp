// SPDX-License-Identifier: Apache-2.0
// See the header. What cannot go together is refused before anything is read of the model.
#include "CompileSettings.h"

#include "autopar/Conversion/KernelsToCpu.h"
#include "autopar/Conversion/KernelsToCuda.h"
#include "autopar/Import/Onnx/MultiDevice.h"
#include "autopar/Plan/ScheduleRounds.h"
#include "autopar/Transforms/LibraryAttention.h"
#include "autopar/Transforms/LibraryConvolution.h"
#include "autopar/Transforms/TrainingEpilogues.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/FileSystem.h"

#include <thread>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::StatusCode;

CompileSettings::CompileSettings(const CompileOptions &options)
    : train(options.train), options(options) {}

Status CompileSettings::read(MLIRContext &context) {
  AUTOPAR_RETURN_IF_ERROR(readProfile());
  AUTOPAR_RETURN_IF_ERROR(chooseCluster());
  AUTOPAR_RETURN_IF_ERROR(openBeside());
  AUTOPAR_RETURN_IF_ERROR(chooseTarget());
  AUTOPAR_RETURN_IF_ERROR(readPlan(context));
  bool trains = options.train || options.startAt > Phase::Train;
  if (options.constraints.word("recompute") == "full" && !trains)
    return {StatusCode::Usage, "recompute=full: expected --train, only training has a backward "
                               "pass"};
  return settleOffload();
}

/// What lies in host memory needs a host that is known.
Status CompileSettings::settleOffload() {
  std::string what = demands.word("offload");
  if (what.empty() || what == "none")
    return Status::ok();
  if (!options.train && options.startAt <= Phase::Train)
    return {StatusCode::Usage,
            "offload=" + what + ": expected --train, only training has a state or a backward pass"};
  if (what == "activations" && demands.word("recompute") == "full")
    return {StatusCode::Usage, "offload=activations: expected recompute=auto or none, with full "
                               "all is computed again and nothing waits"};
  if (!cluster)
    return Status::ok();
  AUTOPAR_RETURN_IF_ERROR(cluster->checkHostMemory());
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const ::autopar::DeviceType &type : cluster->deviceTypes)
    least = std::min(least, type.hostMemoryBytes);
  lower.hostMemoryLimit = least;
  return Status::ok();
}

int64_t CompileSettings::deviceCount() const { return cluster ? cluster->deviceCount() : 1; }

Status CompileSettings::readProfile() {
  if (options.profile.empty())
    return Status::ok();
  Result<::autopar::ProfileDatabase> loaded =
      ::autopar::ProfileDatabase::load(options.profile, options.profileFallback);
  if (!loaded)
    return loaded.status();
  profile = loaded.take();
  return Status::ok();
}

/// The cluster with what was measured on it.
Status CompileSettings::believeMeasurements() {
  if (!profile)
    return Status::ok();
  if (Status status = ::autopar::believeProfile(*cluster, *profile, options.profileFallback);
      !status.isOk())
    return status.at(options.profile);
  shard.cluster = cluster->toJson();
  return Status::ok();
}

/// As many as autopar-run takes.
static int64_t usualThreads(const CompileOptions &options) {
  int64_t cores = std::thread::hardware_concurrency();
  return options.cluster.empty() ? std::max<int64_t>(1, cores / std::max<int64_t>(1, options.ranks))
                                 : 1;
}

Status CompileSettings::chooseCluster() {
  shard.cluster = options.cluster;
  if (options.cluster.empty() && options.ranks > 1)
    shard.cluster = "presets:cpux" + std::to_string(options.ranks);
  // What one rank computes again is searched for too.
  bool mayRecompute = options.train && options.constraints.word("recompute") != "none" &&
                      (options.memoryLimit || options.constraints.has("recompute"));
  std::string offload = options.constraints.word("offload");
  bool mayOffload = options.train && (offload == "activations" || offload == "all");
  if (options.cluster.empty() && options.ranks <= 1 && (mayRecompute || mayOffload))
    shard.cluster = "presets:cpux1";
  shard.engine = options.engine;
  shard.seed = options.seed;
  shard.plan = options.plan;
  shard.emitPlan = options.emitPlan;
  shard.memoryLimit = options.memoryLimit;
  lower.threads = options.threads > 0 ? options.threads : usualThreads(options);
  lower.packWeights = options.packWeights;
  lower.bf16Products = ::autopar::multipliesBf16(options.targetCpu);
  lower.bf16Library = ::autopar::libraryHasBf16(options.targetCpu);
  lower.byteProducts = ::autopar::multipliesBytes(options.targetCpu);
  lower.memoryLimit = options.memoryLimit;
  if (shard.cluster.empty())
    return Status::ok();
  Result<::autopar::Cluster> loaded = ::autopar::Cluster::load(shard.cluster);
  if (!loaded)
    return loaded.status();
  cluster = loaded.take();
  AUTOPAR_RETURN_IF_ERROR(believeMeasurements());
  if (options.memoryLimit == 0)
    lower.memoryLimit = cluster->mostUsableBytes();
  return Status::ok();
}

/// Both programs are to fit together: what only the other one has is not for this one.
Status CompileSettings::openBeside() {
  if (options.beside.empty())
    return Status::ok();
  Result<ProgramBeside> opened = ProgramBeside::open(options.beside);
  if (!opened)
    return opened.status();
  beside = opened.take();
  MemoryBeside other = beside->memory();
  if (options.memoryLimit > 0)
    shard.memoryLimit = lower.memoryLimit = other.mostBeside(options.memoryLimit);
  if (!cluster)
    return Status::ok();
  for (::autopar::DeviceType &type : cluster->deviceTypes)
    type.reservedBytes =
        std::max<int64_t>(0, type.memoryBytes - other.mostBeside(type.usableBytes()));
  shard.cluster = cluster->toJson();
  if (options.memoryLimit == 0)
    lower.memoryLimit = cluster->mostUsableBytes();
  return Status::ok();
}

/// The first GPUs whose tensor cores multiply floats of 8 bits.
static constexpr int kLeastChipForBytes = 89;

/// Programs are for what the cluster's devices are, unless the caller says otherwise.
Status CompileSettings::chooseTarget() {
  std::optional<Target> wanted = targetFromName(options.target);
  if (!options.target.empty() && !wanted)
    return {StatusCode::Usage,
            "--target: expected " + targetNames() + ", got \"" + options.target + "\""};
  bool hasGpus = false, hasCpus = !cluster;
  int chip = INT_MAX;
  std::string oldest;
  for (int64_t device = 0; cluster && device < cluster->deviceCount(); ++device) {
    const ::autopar::DeviceType &type = cluster->typeOfDevice(device);
    hasGpus |= type.cudaChip != 0;
    hasCpus |= type.cudaChip == 0;
    if (type.cudaChip != 0 && type.cudaChip < chip) {
      chip = type.cudaChip;
      oldest = type.name;
    }
  }
  if (!::autopar::useRoundsFromName(options.rounds))
    return {StatusCode::Usage,
            "--rounds: expected auto, always or never, got \"" + options.rounds + "\""};
  lower.rounds = options.rounds;
  if (!attentionModeFromName(options.attention))
    return {StatusCode::Usage,
            "--attention: expected auto, fused or products, got \"" + options.attention + "\""};
  lower.attention = options.attention;
  if (!convolutionModeFromName(options.convolutions))
    return {StatusCode::Usage,
            "--convolutions: expected auto or kernels, got \"" + options.convolutions + "\""};
  lower.convolutions = options.convolutions;
  for (auto [flag, mode] : {std::pair{"--activation-gradients", &options.activationGradients},
                            std::pair{"--bias-gradients", &options.biasGradients}})
    if (!epilogueModeFromName(*mode))
      return {StatusCode::Usage,
              std::string(flag) + ": expected auto or kernels, got \"" + *mode + "\""};
  lower.activationGradients = options.activationGradients;
  lower.biasGradients = options.biasGradients;
  bool isLowered = options.stopAfter >= Phase::Lower;
  if (!wanted && hasGpus && hasCpus && isLowered)
    return Status::badInput("the cluster has GPUs and CPUs, and all ranks run one kind of "
                            "program: say --target cpu or --target cuda");
  lower.target = wanted.value_or(hasGpus && !hasCpus ? Target::Cuda : Target::Cpu);
  if (lower.target == Target::Cpu) {
    for (auto [flag, mode] : {std::pair{"--activation-gradients", options.activationGradients},
                              std::pair{"--bias-gradients", options.biasGradients}})
      if (mode != "auto")
        return {StatusCode::Usage, std::string(flag) +
                                       " is for GPUs, and the program is for CPUs; expected "
                                       "--target cuda or a cluster of GPUs, or leave it out"};
    return Status::ok();
  }
  if (!hasGpus)
    return Status::ok();
  if (chip < ::autopar::kPtxChip && isLowered)
    return Status::badInput("kernels need GPUs from sm_" + std::to_string(::autopar::kPtxChip) +
                            " on; the cluster's " + oldest + " is sm_" + std::to_string(chip));
  if (chip < kLeastChipForBytes && options.precision.compute == "fp8")
    return Status::badInput("--precision fp8: products of 8 bits need GPUs from sm_" +
                            std::to_string(kLeastChipForBytes) + " on; the cluster's " + oldest +
                            " is sm_" + std::to_string(chip) + ": expected --precision bf16");
  lower.chip = std::max(chip, ::autopar::kPtxChip);
  if (options.activationGradients == "auto" && lower.chip < kLeastChipForActivationGradients)
    lower.activationGradients = "kernels";
  return Status::ok();
}

/// The demand that a plan keeps.
static std::string offloadOf(const ::autopar::Plan &plan) {
  if (plan.offloadActivations.empty())
    return plan.offload.empty() ? "none" : "state";
  return plan.offload.empty() ? "activations" : "all";
}

/// Those that part something.
static std::vector<::autopar::MeshAxis> axesOf(std::vector<::autopar::MeshAxis> axes) {
  llvm::erase_if(axes, [](const ::autopar::MeshAxis &axis) { return axis.size == 1; });
  return axes;
}

/// A plan in degrees becomes constraints, once the batch is known; a full one says into how many
/// micro-batches the batch is split.
Status CompileSettings::readPlan(MLIRContext &context) {
  demands = options.constraints;
  if (options.useOnnxShardings) {
    if (!llvm::sys::fs::exists(options.input))
      return Status::noInput(options.input + ": no such file");
    size_t unread = 0;
    Result<::autopar::Constraints> own =
        readMultiDevice(options.input, deviceCount(), context, unread);
    if (!own)
      return own.status();
    AUTOPAR_RETURN_IF_ERROR(demands.demand(*own));
    if (unread)
      emitRemark(FileLineColLoc::get(&context, options.input, 0, 0))
          << unread << " shardings of values that are no parameters or inputs are left to the "
          << "search";
  }
  // A whole plan says by itself where parameters are.
  if (beside && options.plan.empty()) {
    Result<::autopar::Constraints> held = beside->meshes(deviceCount());
    if (!held)
      return held.status();
    AUTOPAR_RETURN_IF_ERROR(demands.demand(*held));
  }
  if (!options.plan.empty()) {
    Result<bool> isInDegrees = ::autopar::Degrees::isIn(options.plan);
    if (!isInDegrees)
      return isInDegrees.status();
    if (*isInDegrees)
      return readDegrees();
    Result<::autopar::Plan> plan = ::autopar::Plan::load(options.plan);
    if (!plan)
      return plan.status();
    if (cluster)
      AUTOPAR_RETURN_IF_ERROR(plan->verify(*cluster).at(options.plan));
    AUTOPAR_RETURN_IF_ERROR(checkDemandsOn(*plan));
    if (plan->microBatches > 1)
      AUTOPAR_RETURN_IF_ERROR(
          demands.demand(options.plan, "micro-batches", std::to_string(plan->microBatches)));
    bool offloads = !plan->offload.empty() || !plan->offloadActivations.empty();
    if (offloads || demands.has("offload"))
      AUTOPAR_RETURN_IF_ERROR(demands.demand(options.plan, "offload", offloadOf(*plan)));
    settleDemands();
    shard.expertParts = plan->expertParts;
    return Status::ok();
  }
  settleDemands();
  return Status::ok();
}

/// What is demanded beside a plan has to be what the plan has.
Status CompileSettings::checkDemandsOn(const ::autopar::Plan &plan) {
  auto check = [&](const char *key, const std::string &has) {
    return demands.has(key) ? demands.demand(options.plan, key, has) : Status::ok();
  };
  AUTOPAR_RETURN_IF_ERROR(check("micro-batches", std::to_string(plan.microBatches)));
  AUTOPAR_RETURN_IF_ERROR(check("schedule", plan.schedule));
  Result<std::vector<::autopar::Mesh>> meshes = plan.stageMeshes();
  if (!meshes || meshes->empty())
    return Status::ok(); // of no demand's form
  AUTOPAR_RETURN_IF_ERROR(check("stages", std::to_string(meshes->size())));
  AUTOPAR_RETURN_IF_ERROR(
      check("virtual-stages", std::to_string(plan.stages.size() / meshes->size())));
  std::string shapes;
  bool isAsDemanded = true;
  std::vector<std::vector<::autopar::MeshAxis>> wanted = demands.meshes();
  for (const auto &[i, mesh] : llvm::enumerate(*meshes)) {
    shapes += (shapes.empty() ? "" : "/") + ::autopar::shapeText(mesh.axes);
    isAsDemanded &= !wanted.empty() &&
                    axesOf(mesh.axes) == axesOf(wanted[std::min(size_t(i), wanted.size() - 1)]);
  }
  return isAsDemanded ? Status::ok() : check("mesh", shapes);
}

Status CompileSettings::readDegrees() {
  Result<::autopar::Degrees> read = ::autopar::Degrees::load(options.plan);
  if (!read)
    return read.status();
  AUTOPAR_RETURN_IF_ERROR(read->checkRanks(deviceCount()));
  if (options.startAt > Phase::SplitMicroBatches)
    return Status::badInput(options.plan + ": a plan in degrees says how the batch is split; "
                                           "start at split-micro-batches or before");
  shard.plan = "";
  degrees = read.take();
  return Status::ok();
}

/// What the demands mean for the passes.
void CompileSettings::settleDemands() {
  shard.microBatches = demands.number("micro-batches", 1);
  int64_t turns = demands.number("virtual-stages", 1);
  shard.stageMeshes = demands.number("stages", 1);
  shard.stages = shard.stageMeshes * turns;
  shard.expertParts = demands.expertParts();
  std::string recompute = demands.word("recompute");
  // An inference step has nothing to compute again.
  shard.recompute = !recompute.empty() ? recompute : options.train ? "auto" : "none";
  std::string offload = demands.word("offload");
  train.offload = offload == "state" || offload == "all" ? "state" : "none";
  // Where all is computed again nothing waits.
  shard.offloadActivations = (offload == "activations" || offload == "all") && recompute != "full";
  std::string schedule = demands.word("schedule");
  if (schedule.empty())
    schedule = turns > 1 ? "interleaved" : shard.stages == 0 ? "auto" : "1f1b";
  shard.schedule = schedule;
  std::string mesh;
  for (const std::vector<::autopar::MeshAxis> &axes : demands.meshes())
    mesh += (mesh.empty() ? "" : "/") + ::autopar::shapeText(axes);
  shard.mesh = mesh;
  ::autopar::Constraints ofSearch = demands;
  ofSearch.drop("offload"); // done before
  shard.constraints = ofSearch.toText();
}

Status CompileSettings::settleBeside(func::FuncOp function) {
  if (!beside)
    return Status::ok();
  beside->tellForms(function);
  if (!options.plan.empty())
    return Status::ok();
  AUTOPAR_RETURN_IF_ERROR(demands.demand(beside->shardings(function)));
  settleDemands();
  return Status::ok();
}

Status CompileSettings::settleBatch(std::optional<int64_t> samples) {
  if (!degrees)
    return Status::ok();
  if (!samples)
    return Status::badInput(options.plan + ": the model has no input with a batch dimension");
  Result<::autopar::Constraints> demanded = degrees->constraints(*samples);
  if (!demanded)
    return demanded.status();
  AUTOPAR_RETURN_IF_ERROR(demands.demand(*demanded));
  settleDemands();
  return Status::ok();
}
