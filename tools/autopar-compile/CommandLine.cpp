// SPDX-License-Identifier: Apache-2.0
// What the flags of autopar-compile say.
#include "CommandLine.h"

#include "Options.h"

#include "autopar/Import/Onnx/OnnxImporter.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Status;

static constexpr const char *examples = R"help(
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
  options.train.adapters = adapters;
  options.train.adapt.assign(adapt.begin(), adapt.end());
  options.precision.compute = precision;
  options.precision.gradient = gradientType;
  options.precision.keepBf16.assign(keepBf16.begin(), keepBf16.end());
  if (lossScale.getNumOccurrences())
    options.precision.lossScale = lossScale == "none" ? "" : std::string(lossScale);
  else if (precision == "fp16")
    options.precision.lossScale = "dynamic";
  if (!train.empty()) {
    options.train.loss = StringRef(train).trim().drop_front(strlen("loss=")).trim().str();
    options.train.metrics = llvm::join(metrics, ", ");
    options.train.optimizer = optimizer;
    options.train.schedule = schedule;
    options.train.clipNorm = clipNorm;
    options.train.freeze.assign(freeze.begin(), freeze.end());
    options.train.rateScales.assign(rateScales.begin(), rateScales.end());
    options.train.trainOnly.assign(trainOnly.begin(), trainOnly.end());
    options.train.noDecay.assign(noDecay.begin(), noDecay.end());
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
  for (const std::string &text : fixInputs) {
    std::string error;
    if (failed(parseFixedInputs(text, import, error)))
      return usage("--fix-input: " + error);
  }
  options.bindings = import.bindings;
  options.ranges = import.ranges;
  options.fixedInputs = import.fixedInputs;
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
  options.beside = beside;
  options.copyWeights = copyWeights;
  line.compare.assign(compare.begin(), compare.end());
  options.threads = threads;
  options.packWeights = packWeights;
  options.target = target;
  options.targetCpu = targetCpu;
  options.rounds = rounds;
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
  // The parser keeps pointers to them, and the linker asks it later.
  static cl::extrahelp exampleHelp(examples);
  static Options options;
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
