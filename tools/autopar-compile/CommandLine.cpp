// SPDX-License-Identifier: Apache-2.0
// The flags of autopar-compile.
#include "CommandLine.h"

#include "autopar/Import/Onnx/OnnxImporter.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/CommandLine.h"

using namespace mlir;
using namespace mlir::autopar;
namespace cl = llvm::cl;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::StatusCode;

namespace {
constexpr const char *examples = R"help(
EXAMPLES:

  autopar-compile gpt2.onnx --bind batch=8,seq=128 --ranks 4 -o compiled.bin --explain
  autopar-compile gpt2.onnx --bind batch=8,seq=128 --cluster cluster.json -o compiled.bin
  autopar-compile llama.onnx --bind batch=4,seq=1 --ranks 2 --carry "present.*=past_key_values.*" -o step.bin
                          a decoder whose key/value caches stay on the ranks: docs/Generation.md
  autopar-compile gpt3-175b.onnx --bind batch=64,seq=2048 --cluster presets:h100x8x8 --plan-only -o plan.json
  autopar-compile gpt2.onnx --bind batch=8,seq=128 --ranks 4 -o train.bin \
      --train "loss=softmax_cross_entropy(logits, labels)" --optimizer "adamw(lr=3e-4)" --clip-norm 1
  autopar-compile gpt2.onnx --bind batch=8,seq=128 --ranks 4 --plan-only -o plan.json --report plan.html --trace plan.trace.json
  autopar-compile chain.json --profile db.json --cluster presets:h100x8 --plan-only -o plan.json --explain \
      --train "loss=loss" --optimizer "adamw(lr=3e-4)" --stages auto --micro-batches auto
                          operations that were measured elsewhere: docs/ProfileDatabase.md
  autopar-compile --compare a.json b.json
  autopar-compile gpt2.onnx --bind batch=8,seq=128 --ranks 4 --plan megatron.json --plan-only -o plan.json
                          with {"kind": "degrees", "version": 1, "data": 2, "tensor": 2} in megatron.json
  autopar-compile gpt2.onnx --bind batch=8,seq=128 --ranks 4 --constrain "stages=2, micro-batches=4, mesh=data=2"
  autopar-compile gpt2.onnx --bind batch=8,seq=128 --ranks 4 --emit-mlir=phases      the IR after every phase
  autopar-compile module.mlir --ranks 4 --mlir-timing                                MLIR's own options are taken too

Exit codes: docs/ExitCodes.md. Cluster files: docs/CostModel.md. Training: docs/Training.md.
)help";

/// LLVM's libraries register options of their own, some under the same names; those are forgotten
/// before these are made.
struct Options {
  cl::extrahelp exampleHelp{examples};
  cl::OptionCategory category{"autopar-compile options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("model.onnx (or graph.json, module.mlir)"),
                             cl::init(""), cl::cat(category)};
  cl::opt<std::string> output{
      "o", cl::desc("artifact to write (default compiled.bin), or the IR of --stop-after"),
      cl::value_desc("file"), cl::cat(category)};
  cl::list<std::string> bindings{
      "bind", cl::desc("extents of symbolic dimensions, of the global batch: batch=8,seq=128"),
      cl::value_desc("name=extent,..."), cl::cat(category)};
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
      "memory-limit", cl::desc("bytes per rank that a plan may use: 512M, 16G"), cl::cat(category)};
  cl::opt<int64_t> threads{"threads", cl::desc("threads per rank that scratch is planned for"),
                           cl::init(1), cl::cat(category)};
  cl::opt<bool> packWeights{"pack-weights",
                            cl::desc("store weights in the library's own layout at load"),
                            cl::init(true), cl::cat(category)};
  cl::opt<std::string> train{
      "train",
      cl::desc("train the model: loss=softmax_cross_entropy(logits, labels), "
               "loss=mse(y, target), or loss=NAME for an output that is the loss"),
      cl::value_desc("loss=..."), cl::cat(category)};
  cl::opt<std::string> optimizer{
      "optimizer",
      cl::desc("sgd, momentum, adam, adamw, adagrad or lion, with options: adamw(lr=3e-4)"),
      cl::cat(category)};
  cl::opt<std::string> schedule{
      "lr-schedule",
      cl::desc(
          "constant, linear, cosine or inverse_sqrt: cosine(warmup=100, steps=2000, min=3e-5)"),
      cl::cat(category)};
  cl::opt<double> clipNorm{"clip-norm", cl::desc("largest norm of all gradients together"),
                           cl::init(0), cl::cat(category)};
  cl::list<std::string> freeze{"freeze", cl::CommaSeparated,
                               cl::desc("parameters that keep their values (patterns with *)"),
                               cl::value_desc("name,..."), cl::cat(category)};
  cl::list<std::string> trainOnly{"train-only", cl::CommaSeparated,
                                  cl::desc("the only parameters that are trained"),
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
  Result<::autopar::Constraints> constraints() const;
  bool isForOneRank() const { return ranks <= 1 && cluster.empty(); }
  /// Whether the flags make sense together.
  Status check() const;
  Result<CommandLine> values() const;

private:
  Status checkOccurrences() const;
  Status checkDemands() const;
  Status checkNumbers() const;
  Status checkTraining() const;
  Status checkInputs() const;
  Status checkOutputs() const;
  Status checkComparison() const;
  void setTraining(CompileOptions &options) const;
  void setOutputs(CompileOptions &options) const;
};
} // namespace

static Status usage(const Twine &message) { return {StatusCode::Usage, message.str()}; }

/// "512M" -> bytes.
static Status parseBytes(StringRef text, int64_t &bytes) {
  StringRef digits = text.rtrim("KMGTiB");
  StringRef unit = text.drop_front(digits.size());
  int64_t scale = 1;
  for (auto [index, letter] : llvm::enumerate(StringRef("KMGT")))
    if (unit.starts_with(StringRef(&"KMGT"[index], 1)))
      scale = int64_t{1} << (10 * (index + 1));
  if (digits.getAsInteger(10, bytes) || bytes <= 0 || (scale == 1 && !unit.empty()) ||
      bytes > std::numeric_limits<int64_t>::max() / scale)
    return usage("--memory-limit: expected a size such as 512M or 16G, got \"" + text + "\"");
  bytes *= scale;
  return Status::ok();
}

static Status parsePhase(StringRef flag, StringRef text, Phase &phase) {
  std::optional<Phase> found = phaseFromName(text);
  if (found) {
    phase = *found;
    return Status::ok();
  }
  std::string names;
  for (const PhaseInfo &info : allPhases())
    names += (names.empty() ? "" : ", ") + info.name.str();
  return usage("--" + flag + ": unknown phase \"" + text + "\"; the phases are " + names);
}

/// LLVM's parser takes the last of an option that is given twice. Flags say the same again.
Status Options::checkOccurrences() const {
  for (const auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() > 1 && option->getValueExpectedFlag() != cl::ValueOptional &&
        llvm::is_contained(option->Categories, &category) &&
        (option->getNumOccurrencesFlag() == cl::Optional || name == "compare"))
      return usage(Twine(name.size() > 1 ? "--" : "-") + name + " is given " +
                   Twine(option->getNumOccurrences()) + " times: expected it once");
  return Status::ok();
}

Status Options::checkDemands() const {
  Result<::autopar::Constraints> demands = constraints();
  if (!demands)
    return demands.status();
  int64_t count = demands->number("stages", 1);
  bool hasTurns = demands->number("virtual-stages", 1) > 1;
  bool asksAuto =
      count == 0 || demands->number("micro-batches", 1) == 0 || demands->word("schedule") == "auto";
  if (asksAuto && !plan.empty())
    return usage("auto does not go with --plan, which says what there is to decide");
  if (count == 0 && hasTurns)
    return usage("--stages auto does not go with --virtual-stages");
  if (asksAuto && isForOneRank())
    return usage("auto: expected --ranks or --cluster, nothing is searched for one rank");
  if (count == 1 && plan.empty() && (hasTurns || demands->has("schedule")))
    return usage("--virtual-stages and --pipeline-schedule need --stages of at least 2");
  if (count != 1 && isForOneRank())
    return usage("--stages: expected --ranks or --cluster, one rank has no stages");
  for (const std::vector<::autopar::MeshAxis> &axes : demands->meshes())
    for (const ::autopar::MeshAxis &axis : axes)
      if (axis.size > 1 && isForOneRank())
        return usage("mesh " + ::autopar::shapeText(axes) +
                     ": expected --ranks or --cluster, one rank has no mesh");
  return Status::ok();
}

Status Options::checkNumbers() const {
  if (ranks.getNumOccurrences() && ranks < 1)
    return usage("--ranks: expected a positive number, got " + Twine(ranks));
  if (ranks.getNumOccurrences() && !cluster.empty())
    return usage(
        "--ranks and --cluster exclude each other; a cluster says how many ranks there are");
  if (threads < 1 || threads > 4096)
    return usage("--threads: expected 1 to 4096 threads per rank, got " + Twine(threads));
  if (explain.getNumOccurrences() && !explain.empty() && explain != "text" && explain != "json")
    return usage("--explain: expected text or json, got \"" + explain + "\"");
  return Status::ok();
}

Status Options::checkTraining() const {
  bool asksTraining = optimizer.getNumOccurrences() || schedule.getNumOccurrences() ||
                      clipNorm.getNumOccurrences() || freeze.getNumOccurrences() ||
                      trainOnly.getNumOccurrences() || gradientType.getNumOccurrences() ||
                      lossScale.getNumOccurrences();
  if (asksTraining && train.empty())
    return usage("--optimizer, --lr-schedule, --clip-norm, --freeze, --train-only, "
                 "--gradient-dtype and --loss-scale need --train \"loss=...\"");
  if (!train.empty() && !carry.empty())
    return usage("--carry is for inference: a training step carries parameters and state alone");
  StringRef loss = StringRef(train).trim();
  if (train.getNumOccurrences() && (!loss.consume_front("loss=") || loss.trim().empty()))
    return usage("--train: expected \"loss=...\", such as "
                 "\"loss=softmax_cross_entropy(logits, labels)\", got \"" +
                 train + "\"");
  if (!train.empty() && optimizer.empty())
    return usage("--train: expected --optimizer too, such as \"adamw(lr=3e-4)\"");
  if (clipNorm.getNumOccurrences() && !(clipNorm > 0))
    return usage("--clip-norm: expected a positive number");
  if (!llvm::is_contained({"f32", "bf16", "fp16", "fp8"}, precision))
    return usage("--precision: expected f32, bf16, fp16 or fp8, got \"" + precision + "\"");
  if (!keepBf16.empty() && precision != "fp8")
    return usage("--keep-bf16 takes parameters out of what --precision fp8 computes in 8 bits: "
                 "expected it too");
  std::string narrow = precision == "fp8" ? "bf16" : std::string(precision);
  if (gradientType != "f32" && gradientType != narrow)
    return usage("--gradient-dtype: expected f32 or, as --precision, " + narrow + "; got \"" +
                 gradientType + "\"");
  return Status::ok();
}

Status Options::checkInputs() const {
  if (planOnly && isForOneRank())
    return usage("--plan-only: expected --ranks or --cluster, nothing is searched for one rank");
  bool isGraph = StringRef(input).ends_with(".json");
  if (isGraph && profile.empty())
    return usage("a graph of measured operations: expected --profile db.json, which holds them");
  if (isGraph && !planOnly && stopAfter.empty())
    return usage("a graph of measured operations can be planned, not run: expected --plan-only");
  if (isGraph && precision != "f32")
    return usage("--precision: a graph of measured operations says its element types in the "
                 "profile database (dtype, weight_dtype)");
  if (!llvm::is_contained({"none", "interpolate", "analytical"}, profileFallback))
    return usage("--profile-fallback: expected none, interpolate or analytical, got \"" +
                 profileFallback + "\"");
  if (profileFallback.getNumOccurrences() && profile.empty())
    return usage("--profile-fallback says what fills holes of a profile database: expected "
                 "--profile db.json too");
  if ((useOnnxShardings || !emitOnnxPlan.empty()) && !StringRef(input).ends_with(".onnx"))
    return usage("--use-onnx-shardings and --emit-onnx-plan: expected an ONNX model, got \"" +
                 input + "\"");
  if ((useOnnxShardings || !emitOnnxPlan.empty()) && isForOneRank())
    return usage("--use-onnx-shardings and --emit-onnx-plan: expected --ranks or --cluster");
  return Status::ok();
}

Status Options::checkOutputs() const {
  bool wantsPlan = !(report.empty() && trace.empty() && emitAlternatives.empty() &&
                     emitPlan.empty() && emitOnnxPlan.empty());
  std::optional<Phase> last = phaseFromName(stopAfter);
  if (wantsPlan && last && *last < Phase::Search)
    return usage("--emit-plan, --emit-onnx-plan, --report, --trace and --emit-alternatives: there "
                 "is no plan yet after " +
                 stopAfter + "; expected --stop-after search or a later phase");
  if (planOnly && !stopAfter.empty())
    return usage("--plan-only stops after the search: expected no --stop-after");
  if (planOnly && !output.empty() && !emitPlan.empty() && output != emitPlan)
    return usage("--plan-only writes one plan: expected -o or --emit-plan, got both");
  if (!(report.empty() && trace.empty() && emitAlternatives.empty()) && isForOneRank())
    return usage(
        "--report, --trace and --emit-alternatives: expected --ranks or --cluster, nothing is "
        "planned for one rank");
  bool mayRecompute =
      !train.empty() && (memoryLimit.getNumOccurrences() || recompute.getNumOccurrences());
  if (!emitPlan.empty() && isForOneRank() && plan.empty() && !mayRecompute)
    return usage("--emit-plan: expected --ranks above 1 or --cluster, nothing is searched for one "
                 "rank and so there is no plan");
  return Status::ok();
}

/// Nothing is compiled then.
Status Options::checkComparison() const {
  if (!input.empty())
    return usage("--compare: expected two plans and no model, got \"" + input + "\"");
  for (const auto &[name, option] : cl::getRegisteredOptions())
    if (option->getNumOccurrences() && name != "compare" && name != "explain" && name != "quiet" &&
        llvm::is_contained(option->Categories, &category))
      return usage("--compare: only --explain=json goes with it, got -" +
                   Twine(name.size() > 1 ? "-" : "") + name);
  return Status::ok();
}

Status Options::check() const {
  AUTOPAR_RETURN_IF_ERROR(checkOccurrences());
  if (!compare.empty())
    return checkComparison();
  if (input.empty())
    return usage("expected a model: autopar-compile model.onnx -o compiled.bin");
  AUTOPAR_RETURN_IF_ERROR(checkDemands());
  AUTOPAR_RETURN_IF_ERROR(checkNumbers());
  AUTOPAR_RETURN_IF_ERROR(checkTraining());
  AUTOPAR_RETURN_IF_ERROR(checkInputs());
  return checkOutputs();
}

Result<::autopar::Constraints> Options::constraints() const {
  ::autopar::Constraints demands;
  if (constrain.getNumOccurrences()) {
    Result<::autopar::Constraints> parsed = ::autopar::Constraints::parse("--constrain", constrain);
    if (!parsed)
      return usage(parsed.status().message());
    demands = parsed.take();
  }
  struct {
    const char *flag, *key;
    const cl::opt<std::string> &value;
  } shortForms[] = {{"--stages", "stages", stages},
                    {"--virtual-stages", "virtual-stages", virtualStages},
                    {"--micro-batches", "micro-batches", microBatches},
                    {"--pipeline-schedule", "schedule", pipelineSchedule},
                    {"--mesh", "mesh", mesh},
                    {"--recompute", "recompute", recompute},
                    {"--offload", "offload", offload}};
  for (auto &[flag, key, value] : shortForms)
    if (value.getNumOccurrences())
      AUTOPAR_RETURN_IF_ERROR(demands.demand(flag, key, value));
  return demands;
}

void Options::setTraining(CompileOptions &options) const {
  options.train.inferenceMode = inferenceMode;
  options.precision.compute = precision;
  options.precision.gradient = gradientType;
  options.precision.keepBf16.assign(keepBf16.begin(), keepBf16.end());
  if (lossScale.getNumOccurrences())
    options.precision.lossScale = lossScale == "none" ? "" : std::string(lossScale);
  else if (precision == "fp16")
    options.precision.lossScale = "dynamic";
  if (!train.empty()) {
    options.train.loss = StringRef(train).trim().drop_front(strlen("loss=")).trim().str();
    options.train.optimizer = optimizer;
    options.train.schedule = schedule;
    options.train.clipNorm = clipNorm;
    options.train.freeze.assign(freeze.begin(), freeze.end());
    options.train.trainOnly.assign(trainOnly.begin(), trainOnly.end());
  }
}

/// Behind the phases: what is written depends on where the compilation stops.
void Options::setOutputs(CompileOptions &options) const {
  options.output = output;
  if (planOnly) {
    // A plan that is given is held against the model's names.
    options.stopAfter = plan.empty() ? Phase::Search : Phase::Annotate;
    options.emitPlan = output.empty() ? (emitPlan.empty() ? "plan.json" : std::string(emitPlan))
                                      : std::string(output);
    options.output.clear();
  } else if (options.stopAfter != Phase::Emit) {
    if (output.empty() && emitPlan.empty())
      options.output = "-";
  } else if (output.empty()) {
    options.output = "compiled.bin";
  }
}

Result<CommandLine> Options::values() const {
  CommandLine line;
  CompileOptions &options = line.compile;
  ImportOptions import;
  for (const std::string &text : bindings) {
    std::string error;
    if (failed(parseBindings(text, import, error)))
      return usage("--bind: " + error);
  }
  options.bindings = import.bindings;
  options.carry.assign(carry.begin(), carry.end());
  options.input = input;
  options.ranks = ranks;
  options.cluster = cluster;
  options.profile = profile;
  if (profileFallback == "interpolate")
    options.profileFallback = ::autopar::ProfileFallback::Interpolate;
  if (profileFallback == "analytical")
    options.profileFallback = ::autopar::ProfileFallback::Analytical;
  options.engine = engine;
  options.seed = seed;
  if (Result<::autopar::Constraints> demands = constraints())
    options.constraints = demands.take();
  options.plan = plan;
  options.emitPlan = emitPlan;
  options.report = report;
  options.trace = trace;
  options.emitAlternatives = emitAlternatives;
  options.emitOnnxPlan = emitOnnxPlan;
  options.useOnnxShardings = useOnnxShardings;
  line.compare.assign(compare.begin(), compare.end());
  options.threads = threads;
  options.packWeights = packWeights;
  options.target = target;
  options.targetCpu = targetCpu;
  options.attention = attention;
  options.convolutions = convolutions;
  options.activationGradients = activationGradients;
  options.biasGradients = biasGradients;
  setTraining(options);
  options.emitMlir = emitMlir;
  if (!memoryLimit.empty())
    AUTOPAR_RETURN_IF_ERROR(parseBytes(memoryLimit, options.memoryLimit));
  if (!startAt.empty())
    AUTOPAR_RETURN_IF_ERROR(parsePhase("start-at", startAt, options.startAt));
  if (!stopAfter.empty())
    AUTOPAR_RETURN_IF_ERROR(parsePhase("stop-after", stopAfter, options.stopAfter));
  setOutputs(options);
  if (explain.getNumOccurrences())
    line.explain = explain == "json" ? Explain::Json : Explain::Text;
  line.quiet = quiet;
  return line;
}

Result<CommandLine> mlir::autopar::parseCommandLine(int argc, char **argv) {
  cl::ResetCommandLineParser();
  static Options options; // the parser keeps pointers to them, and the linker asks it later
  // MLIR's own for whoever looks for a fault: --mlir-timing, --mlir-disable-threading, ...
  registerMLIRContextCLOptions();
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  cl::HideUnrelatedOptions(options.category);
  cl::SetVersionPrinter([](raw_ostream &out) { out << "autopar-compile " AUTOPAR_VERSION "\n"; });
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  if (!cl::ParseCommandLineOptions(
          argc, argv, "AutoPar: compiles an ONNX model for a number of ranks into one artifact\n",
          &stream))
    return usage(StringRef(errors).trim());
  AUTOPAR_RETURN_IF_ERROR(options.check());
  return options.values();
}
