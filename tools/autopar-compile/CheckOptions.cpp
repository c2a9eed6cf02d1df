// SPDX-License-Identifier: Apache-2.0
// Whether the flags of autopar-compile make sense together.
#include "Options.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Status;

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
  if (threads.getNumOccurrences() && (threads < 1 || threads > 4096))
    return usage("--threads: expected 1 to 4096 threads per rank, got " + Twine(threads));
  if (explain.getNumOccurrences() && !explain.empty() && explain != "text" && explain != "json")
    return usage("--explain: expected text or json, got \"" + explain + "\"");
  return Status::ok();
}

Status Options::checkTraining() const {
  bool asksTraining = metrics.getNumOccurrences() || optimizer.getNumOccurrences() ||
                      schedule.getNumOccurrences() || clipNorm.getNumOccurrences() ||
                      rateScales.getNumOccurrences() || freeze.getNumOccurrences() ||
                      trainOnly.getNumOccurrences() || noDecay.getNumOccurrences() ||
                      gradientType.getNumOccurrences() || lossScale.getNumOccurrences();
  if (asksTraining && train.empty())
    return usage("--metric, --optimizer, --lr-schedule, --lr-scale, --clip-norm, --freeze, "
                 "--train-only, --no-decay, "
                 "--gradient-dtype and --loss-scale need --train \"loss=...\"");
  if (!adapt.empty() && adapters.empty())
    return usage("--adapt names what --adapters \"lora(rank=8)\" is for: expected it too");
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
  if (!fixInputs.empty() && !StringRef(input).ends_with(".onnx"))
    return usage("--fix-input: expected an ONNX model, got \"" + input + "\"");
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
