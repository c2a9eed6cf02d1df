// SPDX-License-Identifier: Apache-2.0
// The order of things: the phases of a compilation by name, and the pipelines that other compilers
// may add to their own pass managers.
#pragma once

#include "autopar/Transforms/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::autopar {

/// The phases of a compilation, in order.
enum class Phase {
  Import,
  Prepare,
  Train,
  SplitMicroBatches,
  CutStages,
  Search,
  Annotate,
  InsertReshards,
  Partition,
  OptimizeCollectives,
  FormGroups,
  Schedule,
  Lower,
  PlanMemory,
  Emit,
};

struct PhaseInfo {
  Phase phase;
  StringRef name;     ///< as in --stop-after=NAME
  StringRef sentence; ///< what the phase does
};

/// All phases in order.
ArrayRef<PhaseInfo> allPhases();
/// Nothing for an unknown name.
std::optional<Phase> phaseFromName(StringRef name);

/// Options of `--auto-shard`.
struct AutoShardOptions : PassPipelineOptions<AutoShardOptions> {
  Option<std::string> cluster{
      *this, "cluster",
      llvm::cl::desc("cluster file, or presets:NAME; default: autopar.cluster in the module"),
      llvm::cl::init("")};
  Option<std::string> engine{*this, "engine",
                             llvm::cl::desc("search engine, or random for a seeded legal plan"),
                             llvm::cl::init("auto")};
  Option<std::string> mesh{*this, "mesh", llvm::cl::desc("only this mesh, e.g. data=4,tensor=2"),
                           llvm::cl::init("")};
  Option<std::string> constraints{
      *this, "constraints",
      llvm::cl::desc("what must hold (autopar/Plan/Constraints.h); of mesh, stages, micro-batches, "
                     "schedule and recomputation the same as these options"),
      llvm::cl::init("")};
  Option<int64_t> memoryLimit{*this, "memory-limit",
                              llvm::cl::desc("bytes per device; 0 takes the cluster's"),
                              llvm::cl::init(0)};
  Option<uint64_t> seed{*this, "seed", llvm::cl::desc("seed of engines that draw"),
                        llvm::cl::init(1)};
  Option<std::string> plan{*this, "plan",
                           llvm::cl::desc("replay this plan file instead of searching"),
                           llvm::cl::init("")};
  Option<int64_t> microBatches{
      *this, "micro-batches",
      llvm::cl::desc("compute the batch in this many parts, one after the other"),
      llvm::cl::init(1)};
  Option<int64_t> expertParts{
      *this, "expert-parts",
      llvm::cl::desc("write mixtures without capacity in so many parts by expert, to be split "
                     "over as many ranks"),
      llvm::cl::init(1)};
  Option<int64_t> stages{*this, "stages", llvm::cl::desc("pipeline stages"), llvm::cl::init(1)};
  Option<int64_t> stageMeshes{
      *this, "stage-meshes",
      llvm::cl::desc("meshes that the stages take turns on; 0: one for each stage"),
      llvm::cl::init(0)};
  Option<std::string> schedule{
      *this, "schedule",
      llvm::cl::desc("gpipe, 1f1b, eager-1f1b, interleaved, zero-bubble, interleaved-zero-bubble, "
                     "overlapped-1f1b or overlapped-interleaved"),
      llvm::cl::init("1f1b")};
  Option<std::string> recompute{
      *this, "recompute",
      llvm::cl::desc("none, auto (what pays under the memory limit) or full (every layer)"),
      llvm::cl::init("auto")};
  Option<bool> offloadActivations{
      *this, "offload-activations",
      llvm::cl::desc("what would be computed again may wait in host memory instead"),
      llvm::cl::init(false)};
  Option<std::string> emitPlan{
      *this, "emit-plan", llvm::cl::desc("write the plan to this file too"), llvm::cl::init("")};
};

/// Options of `--autopar-compile-local`.
struct LowerOptions : PassPipelineOptions<LowerOptions> {
  Option<int64_t> threads{*this, "threads", llvm::cl::desc("threads per rank"), llvm::cl::init(1)};
  Option<bool> packWeights{*this, "pack-weights", llvm::cl::desc("pack weights at load"),
                           llvm::cl::init(true)};
  Option<bool> bf16Products{*this, "bf16-products",
                            llvm::cl::desc("whether the CPU multiplies bf16 faster than f32"),
                            llvm::cl::init(false)};
  Option<bool> bf16Library{*this, "bf16-library",
                           llvm::cl::desc("whether the CPU's library has products of bf16"),
                           llvm::cl::init(true)};
  Option<bool> byteProducts{*this, "byte-products",
                            llvm::cl::desc("whether the CPU's library multiplies bytes exactly"),
                            llvm::cl::init(false)};
  Option<Target> target{*this, "target", llvm::cl::desc("who runs the program: cpu or cuda"),
                        llvm::cl::init(Target::Cpu)};
  Option<int64_t> chip{
      *this, "chip",
      llvm::cl::desc("compute capability x 10 of the oldest GPU that runs the program"),
      llvm::cl::init(80)};
  Option<int64_t> memoryLimit{*this, "memory-limit", llvm::cl::desc("bytes per rank; 0 = any"),
                              llvm::cl::init(0)};
  Option<int64_t> hostMemoryLimit{*this, "host-memory-limit",
                                  llvm::cl::desc("bytes of host memory per rank; 0 = any"),
                                  llvm::cl::init(0)};
  Option<bool> refuse{*this, "refuse",
                      llvm::cl::desc("whether a program over the memory limit is an error"),
                      llvm::cl::init(true)};
  Option<std::string> rounds{
      *this, "rounds",
      llvm::cl::desc("what micro-batches repeat is written once: auto, always or never"),
      llvm::cl::init("auto")};
  Option<std::string> attention{
      *this, "attention",
      llvm::cl::desc("auto (one call where the target has one), fused or products"),
      llvm::cl::init("auto")};
  Option<std::string> convolutions{
      *this, "convolutions",
      llvm::cl::desc("on GPUs: auto (calls where the library has them) or kernels"),
      llvm::cl::init("auto")};
  Option<std::string> activationGradients{
      *this, "activation-gradients",
      llvm::cl::desc("on GPUs: auto (they and what they need by the products before them, where "
                     "the library can) or kernels"),
      llvm::cl::init("auto")};
  Option<std::string> biasGradients{
      *this, "bias-gradients",
      llvm::cl::desc("on GPUs: auto (by the products of weights' gradients, where the library can) "
                     "or kernels"),
      llvm::cl::init("auto")};
};

/// What is computed in narrower floats than the model says.
struct PrecisionOptions {
  std::string compute = "f32";       ///< f32, bf16, fp16 or fp8
  std::string gradient = "f32";      ///< what gradients are summed in: f32, or as `compute`
  std::vector<std::string> keepBf16; ///< with fp8: patterns of parameters multiplied in bf16
  std::string lossScale; ///< dynamic(initial=65536, interval=2000): autopar/Training/LossScaling.h
};

/// What training adds to a compilation; nothing is trained while `loss` is empty.
struct TrainOptions {
  std::string loss;      ///< softmax_cross_entropy(logits, labels): autopar/Training/Losses.h
  std::string metrics;   ///< accuracy(logits, labels): autopar/Training/Metrics.h
  std::string optimizer; ///< adamw(lr=3e-4): autopar/Training/Optimizers.h
  std::string schedule;  ///< cosine(warmup=100, steps=2000): autopar/Training/LearningRates.h
  double clipNorm = 0;   ///< largest norm of all gradients together; 0: any
  std::vector<std::string> freeze, trainOnly, noDecay; ///< patterns of parameter names
  std::vector<std::string> rateScales;                 ///< "pattern=factor" of the learning rate
  std::string offload =
      "none";           ///< what lies in host memory: none, or state (that of the optimizer)
  std::string adapters; ///< lora(rank=8): autopar/Training/Adapters.h; for inference too
  std::vector<std::string> adapt; ///< patterns of the parameters that they are for
  bool inferenceMode = false;     ///< batch normalization and dropout are read in inference mode

  explicit operator bool() const { return !loss.empty(); }
};

/// Adds the passes of one phase; none for import and emit, which are no passes.
void buildPhase(OpPassManager &manager, Phase phase, const AutoShardOptions &shard,
                const LowerOptions &lower, const TrainOptions &train = {},
                const PrecisionOptions &precision = {});
/// Adds the passes that begin the phase schedule: behind them operations are in the order in which
/// a micro-batch runs, and the module says what its step takes (autopar-evaluate-step).
void addOrder(OpPassManager &manager, const AutoShardOptions &shard, const LowerOptions &lower);
/// Adds the rest of it, which writes micro-batches out.
void addWriteOut(OpPassManager &manager, const AutoShardOptions &shard, const LowerOptions &lower);
/// Runs the passes of one phase. What they leave is verified where the program has a new form:
/// after every pass it would take a third of the time of a deep model.
LogicalResult runPhase(ModuleOp module, Phase phase, const AutoShardOptions &shard,
                       const LowerOptions &lower = {}, const TrainOptions &train = {},
                       const PrecisionOptions &precision = {});

/// prepare, split-micro-batches, cut-stages, search (or the given plan), annotate, insert-reshards:
/// a module of whole tensors gets its shardings and says where data moves. This is `--auto-shard`.
void buildAutoShardPipeline(OpPassManager &manager, const AutoShardOptions &options);
/// partition and optimize-collectives: whole tensors and reshards become local shapes and
/// collectives.
void buildPartitionPipeline(OpPassManager &manager);
/// form-groups, schedule, lower, plan-memory: from local shapes to a program.
void buildLowerPipeline(OpPassManager &manager, const LowerOptions &options);

} // namespace mlir::autopar
