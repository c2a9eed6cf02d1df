// SPDX-License-Identifier: Apache-2.0
// The flags of autopar-compile, one member each.
#pragma once

#include "CommandLine.h"

#include "autopar/Plan/Constraints.h"
#include "llvm/Support/CommandLine.h"

namespace mlir::autopar {
namespace cl = llvm::cl;

/// LLVM's libraries register options of their own, some under the same names; those are forgotten
/// before these are made.
struct Options {
  cl::OptionCategory category{"autopar-compile options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("model.onnx (or graph.json, module.mlir)"),
                             cl::init(""), cl::cat(category)};
  cl::opt<std::string> output{
      "o", cl::desc("artifact to write (default compiled.bin), or the IR of --stop-after"),
      cl::value_desc("file"), cl::cat(category)};
  cl::list<std::string> bindings{
      "bind",
      cl::desc("extents of symbolic dimensions, of the global batch: batch=8,seq=128; those named "
               "by others, past + seq, follow; a range, seq=1..128, where each step decides, "
               "perhaps with a step, height=64..640:32"),
      cl::value_desc("name=extent,..."), cl::cat(category)};
  cl::list<std::string> fixInputs{
      "fix-input",
      cl::desc("inputs that are always this number, and constants of the program: sr=16000"),
      cl::value_desc("input=number,..."), cl::cat(category)};
  cl::opt<int64_t> ranks{"ranks", cl::desc("CPU ranks of this machine"), cl::init(0),
                         cl::cat(category)};
  cl::opt<std::string> cluster{"cluster", cl::desc("cluster file, or presets:NAME"),
                               cl::cat(category)};
  cl::opt<std::string> profile{
      "profile",
      cl::desc("profile database: the operations of a graph.json, times of instructions and "
               "collectives"),
      cl::value_desc("db.json"), cl::cat(category)};
  cl::opt<std::string> profileFallback{
      "profile-fallback",
      cl::desc("what fills holes of the profile database: none (default: they are refused), "
               "interpolate, or analytical: the formulas of the cost model"),
      cl::init("none"), cl::value_desc("none|interpolate|analytical"), cl::cat(category)};
  cl::opt<std::string> engine{"engine",
                              cl::desc("search engine, or random for a seeded legal plan"),
                              cl::init("auto"), cl::cat(category)};
  cl::opt<std::string> mesh{
      "mesh", cl::desc("only this mesh: data=4,tensor=2; of each stage: data=1/data=3"),
      cl::cat(category)};
  cl::opt<uint64_t> seed{"seed", cl::desc("seed of engines that draw"), cl::init(1),
                         cl::cat(category)};
  cl::opt<std::string> plan{"plan",
                            cl::desc("plan file to follow instead of searching; one in degrees "
                                     "(data, tensor, pipeline) is completed by the search"),
                            cl::cat(category)};
  cl::opt<std::string> emitPlan{"emit-plan", cl::desc("write the plan to this file"),
                                cl::cat(category)};
  cl::opt<std::string> report{
      "report",
      cl::desc("write the plan as one HTML page: timeline, memory, costs, what was rejected"),
      cl::value_desc("plan.html"), cl::cat(category)};
  cl::opt<std::string> trace{
      "trace",
      cl::desc("write the step that the search believes in as a trace for ui.perfetto.dev; that of "
               "an artifact, instruction by instruction: autopar-run --simulate"),
      cl::value_desc("trace.json"), cl::cat(category)};
  cl::opt<std::string> emitOnnxPlan{
      "emit-onnx-plan",
      cl::desc("write the model with the plan in ONNX's own fields for several devices (IR 11)"),
      cl::value_desc("out.onnx"), cl::cat(category)};
  cl::opt<bool> useOnnxShardings{
      "use-onnx-shardings",
      cl::desc("the model's own fields for several devices (IR 11) are demands on the plan"),
      cl::cat(category)};
  cl::opt<bool> copyWeights{
      "copy-weights",
      cl::desc("copy the weights beside the artifact, to compiled.bin.weights, so that both can be "
               "moved together; else the artifact reads them from the model's files"),
      cl::cat(category)};
  cl::opt<std::string> beside{
      "beside",
      cl::desc(
          "another program of the model, for other extents: parameters and state lie as there, so "
          "that a process that runs both holds them once"),
      cl::value_desc("artifact"), cl::cat(category)};
  cl::opt<std::string> emitAlternatives{
      "emit-alternatives",
      cl::desc("write the best plans without the dearest choices into this folder"),
      cl::value_desc("folder"), cl::cat(category)};
  cl::list<std::string> compare{
      "compare", cl::multi_val(2),
      cl::desc("tell what differs between two plans (--explain=json: as JSON); exit code 1 where "
               "something does"),
      cl::value_desc("a.json b.json"), cl::cat(category)};
  cl::opt<bool> planOnly{"plan-only", cl::desc("stop after the search and write the plan (-o)"),
                         cl::cat(category)};
  cl::opt<std::string> explain{"explain", cl::desc("print the plan and why: text or json"),
                               cl::ValueOptional, cl::value_desc("text|json"), cl::cat(category)};
  cl::opt<std::string> memoryLimit{
      "memory-limit", cl::desc("memory per rank that a plan may use, in MiB or GiB: 512M, 16G"),
      cl::cat(category)};
  cl::opt<int64_t> threads{
      "threads",
      cl::desc("threads per rank that scratch is planned for; default: as many "
               "as each of --ranks has cores, one on a cluster"),
      cl::init(0), cl::cat(category)};
  cl::opt<bool> packWeights{"pack-weights",
                            cl::desc("store weights in the library's own layout at load"),
                            cl::init(true), cl::cat(category)};
  cl::opt<std::string> train{
      "train",
      cl::desc("train the model: loss=softmax_cross_entropy(logits, labels), "
               "loss=mse(y, target), loss=NAME for an output that is the loss, or a sum: "
               "loss=mse(y, target) + 0.1*NAME"),
      cl::value_desc("loss=..."), cl::cat(category)};
  cl::list<std::string> metrics{
      "metric",
      cl::desc("what else steps and evaluations tell: accuracy(logits, labels), "
               "binary_accuracy(logits, targets), mae(y, target), a loss or an output of one "
               "element"),
      cl::value_desc("[name=]accuracy(...),..."), cl::cat(category)};
  cl::opt<std::string> optimizer{
      "optimizer",
      cl::desc("sgd, momentum, adam, adamw, adagrad, lion or muon, with options: adamw(lr=3e-4)"),
      cl::cat(category)};
  cl::opt<std::string> schedule{
      "lr-schedule",
      cl::desc("constant, linear, cosine, polynomial, wsd, step or inverse_sqrt: "
               "cosine(warmup=100, steps=2000, min=3e-5)"),
      cl::cat(category)};
  cl::opt<double> clipNorm{"clip-norm", cl::desc("largest norm of all gradients together"),
                           cl::init(0), cl::cat(category)};
  cl::list<std::string> rateScales{
      "lr-scale", cl::CommaSeparated,
      cl::desc("patterns of parameters, and what their learning rate is multiplied with"),
      cl::value_desc("classifier*=10,..."), cl::cat(category)};
  cl::list<std::string> freeze{"freeze", cl::CommaSeparated,
                               cl::desc("parameters that keep their values (patterns with *)"),
                               cl::value_desc("name,..."), cl::cat(category)};
  cl::list<std::string> trainOnly{"train-only", cl::CommaSeparated,
                                  cl::desc("the only parameters that are trained"),
                                  cl::value_desc("name,..."), cl::cat(category)};
  cl::list<std::string> noDecay{
      "no-decay", cl::CommaSeparated,
      cl::desc("parameters that are trained without weight decay, as biases and scales are"),
      cl::value_desc("name,..."), cl::cat(category)};
  cl::opt<std::string> adapters{
      "adapters",
      cl::desc("train low-rank matrices beside those of the model, which keep their values: "
               "lora(rank=8, alpha=16); without --train compute with such matrices"),
      cl::value_desc("lora(...)"), cl::cat(category)};
  cl::list<std::string> adapt{
      "adapt", cl::CommaSeparated,
      cl::desc("with --adapters: parameters that get them (patterns with *), not all matrices"),
      cl::value_desc("name,..."), cl::cat(category)};
  cl::opt<bool> inferenceMode{
      "inference-mode",
      cl::desc("batch normalization and dropout are read in inference mode, whatever mode they "
               "were exported in; a training step that the model brings is left out"),
      cl::cat(category)};
  cl::opt<std::string> precision{
      "precision",
      cl::desc("what is computed in: f32, bf16, fp16 or fp8 (bf16, and products with weights in 8 "
               "bits); parameters stay f32"),
      cl::init("f32"), cl::cat(category)};
  cl::list<std::string> keepBf16{
      "keep-bf16", cl::CommaSeparated,
      cl::desc("with --precision fp8: parameters that are multiplied in bf16 (patterns with *)"),
      cl::value_desc("name,..."), cl::cat(category)};
  cl::opt<std::string> gradientType{
      "gradient-dtype",
      cl::desc("what gradients of parameters are summed in: f32, or as --precision"),
      cl::init("f32"), cl::cat(category)};
  cl::opt<std::string> lossScale{
      "loss-scale",
      cl::desc("dynamic(initial=65536, interval=2000), static(scale=1024) or none; default: "
               "dynamic for fp16, none else"),
      cl::cat(category)};
  cl::list<std::string> carry{
      "carry", cl::CommaSeparated,
      cl::desc(
          "outputs that are inputs of the next step, such as the key/value caches of a "
          "decoder: \"present.*=past_key_values.*\"; they start as zeros and stay on the ranks"),
      cl::value_desc("output=input,..."), cl::cat(category)};
  cl::opt<std::string> constrain{
      "constrain",
      cl::desc(
          "what the plan must hold: \"stages=4, mesh=data=2xtensor=2, fc1.weight: [-, tensor]\"; "
          "keys: stages, virtual-stages, micro-batches, schedule, mesh, batch-axis, "
          "context-axis, expert-axis, weight-axis, sequence, zero, recompute, offload "
          "(docs/PlanFormat.md)"),
      cl::value_desc("key=value,..."), cl::cat(category)};
  cl::opt<std::string> microBatches{
      "micro-batches",
      cl::desc("compute the batch in this many parts, one after the other; auto: as many as are "
               "fastest and fit"),
      cl::value_desc("number|auto"), cl::cat(category)};
  cl::opt<std::string> stages{"stages",
                              cl::desc("pipeline: cut the model into this many parts, each on its "
                                       "own share of the ranks; auto: as many as are fastest"),
                              cl::value_desc("number|auto"), cl::cat(category)};
  cl::opt<std::string> virtualStages{
      "virtual-stages", cl::desc("pipeline: parts that each share of the ranks works on in turn"),
      cl::value_desc("number"), cl::cat(category)};
  cl::opt<std::string> pipelineSchedule{
      "pipeline-schedule",
      cl::desc("gpipe, 1f1b, eager-1f1b, interleaved, zero-bubble, interleaved-zero-bubble, "
               "overlapped-1f1b, overlapped-interleaved, or "
               "auto: the fastest, gpipe left out; default: 1f1b, interleaved with "
               "--virtual-stages, auto with --stages auto"),
      cl::cat(category)};
  cl::opt<std::string> recompute{
      "recompute",
      cl::desc("with --train: what the backward pass computes again instead of keeping it: none, "
               "full (every layer) or auto (what pays under the memory limit; default)"),
      cl::value_desc("none|full|auto"), cl::cat(category)};
  cl::opt<std::string> offload{
      "offload",
      cl::desc(
          "with --train: what lies in host memory and is fetched and stored in each step: none "
          "(default), state (of the optimizer; under mixed precision f32 weights too), "
          "activations (of the forward pass, where they would be computed again for lack of "
          "memory), all (both) or auto (as much of it as there is no room for, where nothing "
          "fits without or a step is shorter)"),
      cl::value_desc("none|state|activations|all|auto"), cl::cat(category)};
  cl::opt<std::string> target{
      "target",
      cl::desc("who runs the program: cpu or cuda; default: what the cluster's devices are"),
      cl::value_desc("cpu|cuda"), cl::cat(category)};
  cl::opt<std::string> rounds{
      "rounds",
      cl::desc("write what micro-batches repeat once, and run it as often: auto (where that is at "
               "least half of the step), always or never; default auto"),
      cl::init("auto"), cl::value_desc("auto|always|never"), cl::cat(category)};
  cl::opt<std::string> attention{
      "attention",
      cl::desc("auto: one call where the target has one (default), fused: always, products: two "
               "products and a softmax"),
      cl::init("auto"), cl::value_desc("auto|fused|products"), cl::cat(category)};
  cl::opt<std::string> convolutions{
      "convolutions",
      cl::desc(
          "on GPUs, and gradients of convolutions anywhere: auto: calls of the library where it "
          "has them (default), kernels: generated"),
      cl::init("auto"), cl::value_desc("auto|kernels"), cl::cat(category)};
  cl::opt<std::string> activationGradients{
      "activation-gradients",
      cl::desc("on GPUs: auto: activations that are trained, and their gradients, by the products "
               "before them, from sm_90 on, where cuBLASLt can (default), kernels: generated"),
      cl::init("auto"), cl::value_desc("auto|kernels"), cl::cat(category)};
  cl::opt<std::string> biasGradients{
      "bias-gradients",
      cl::desc("on GPUs: auto: by the products that make the weights' gradients, where cuBLASLt "
               "can (default), kernels: generated"),
      cl::init("auto"), cl::value_desc("auto|kernels"), cl::cat(category)};
  cl::opt<std::string> targetCpu{"target-cpu",
                                 cl::desc("native, x86-64-v3, x86-64-v4 or x86-64-v4+amx"),
                                 cl::init("native"), cl::cat(category)};
  cl::opt<std::string> emitMlir{"emit-mlir",
                                cl::desc("write the IR after each phase into this folder"),
                                cl::value_desc("folder"), cl::cat(category)};
  cl::opt<std::string> startAt{"start-at", cl::desc("first phase to run on MLIR input"),
                               cl::cat(category)};
  cl::opt<std::string> stopAfter{
      "stop-after", cl::desc("last phase to run; its IR goes to -o or standard output"),
      cl::cat(category)};
  cl::opt<bool> quiet{"quiet", cl::desc("no progress, no summary"), cl::cat(category)};

  /// What --constrain and the flags that are short for a part of it demand.
  ::autopar::Result<::autopar::Constraints> constraints() const;
  bool isForOneRank() const { return ranks <= 1 && cluster.empty(); }
  /// Whether the flags make sense together.
  ::autopar::Status check() const;
  ::autopar::Result<CommandLine> values() const;

private:
  ::autopar::Status checkOccurrences() const;
  ::autopar::Status checkDemands() const;
  ::autopar::Status checkNumbers() const;
  ::autopar::Status checkTraining() const;
  ::autopar::Status checkInputs() const;
  ::autopar::Status checkOutputs() const;
  ::autopar::Status checkComparison() const;
  void setTraining(CompileOptions &options) const;
  void setOutputs(CompileOptions &options) const;
};

inline ::autopar::Status usage(const Twine &message) {
  return {::autopar::StatusCode::Usage, message.str()};
}

} // namespace mlir::autopar
