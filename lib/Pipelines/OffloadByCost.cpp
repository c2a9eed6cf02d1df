// SPDX-License-Identifier: Apache-2.0
// See the header. What pays nothing for memory is planned once: whatever is fetched and stored
// makes a step no shorter.
#include "OffloadByCost.h"

#include "autopar/Cost/Cluster.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/FormatVariadic.h"

#include <vector>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::StatusCode;

namespace {

constexpr const char *kKey = "offload";
constexpr const char *kHint =
    "--offload auto puts the optimizer's state into host memory where nothing fits otherwise";
constexpr const char *kWith = "with the optimizer's state in host memory",
                     *kWithout = "with the optimizer's state on the devices";

/// What planning says of bytes is that there are too few.
bool isAboutMemory(StringRef message) { return message.contains(" bytes"); }

/// A compilation whose errors are kept for later while it is planned.
class Attempt {
public:
  /// `demand`: of offload; none where it is empty.
  Attempt(const CompileOptions &options, MLIRContext &context, const char *demand = "",
          bool isAgain = false)
      : options(options), engine(context.getDiagEngine()), isAgain(isAgain) {
    this->options.constraints.drop(kKey);
    if (*demand)
      status = this->options.constraints.demand("--offload auto", kKey, demand);
    this->options.onPhase = [this, tell = options.onPhase](size_t number, size_t count,
                                                           const PhaseInfo &info) {
      last = info.phase;
      if (tell)
        tell(number, count, info);
    };
  }
  Attempt(const Attempt &) = delete;

  /// Whether there is a step.
  bool run(PlanStep plan, bool isOneOfTwo) {
    auto handler = engine.registerHandler([&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
        return success(isAgain && last < Phase::CutStages); // said the first time
      errors.push_back(std::move(diagnostic));
      return success();
    });
    Result<std::unique_ptr<PlannedStep>> planned = plan(options, isOneOfTwo);
    engine.eraseHandler(handler);
    if (planned)
      step = planned.take();
    else
      status = planned.status();
    return planned.isOk();
  }

  /// Whether it ended where room for the model is looked for.
  bool endedInPlanning() const { return last >= Phase::CutStages && last <= Phase::PlanMemory; }

  /// The first line of why it ended.
  std::string why() const {
    std::string text = errors.empty() ? status.message() : errors.front().str();
    return StringRef(text).split('\n').first.str();
  }
  /// Says why it ended; what the status is left to say comes back.
  Status refuse() {
    tellErrors();
    return status;
  }
  void tellErrors() {
    for (Diagnostic &error : errors)
      engine.emit(std::move(error));
  }

  CompileOptions options;
  std::vector<Diagnostic> errors;
  Status status = Status::ok();
  std::unique_ptr<PlannedStep> step;

private:
  DiagnosticEngine &engine;
  bool isAgain;
  Phase last = Phase::Import;
};

/// Whether state can lie in host memory. A cluster that cannot be read is refused elsewhere.
bool hasHostMemory(const std::string &name) {
  if (name.empty())
    return true;
  Result<::autopar::Cluster> cluster = ::autopar::Cluster::load(name);
  return cluster && cluster->checkHostMemory().isOk();
}

/// Names the way out where nobody has said anything about it, and there is one.
void hint(Attempt &attempt) {
  if (!attempt.endedInPlanning() || !hasHostMemory(attempt.options.cluster))
    return;
  for (Diagnostic &error : attempt.errors)
    if (isAboutMemory(error.str()))
      error.attachNote() << kHint;
  if (const Status &status = attempt.status; isAboutMemory(status.message()))
    attempt.status = Status(status.code(), status.message() + "; " + kHint);
}

/// The same step with its state in host memory, and what is made of the two.
class Second {
public:
  Second(Attempt &whole, MLIRContext &context)
      : whole(whole), context(context), offloaded(whole.options, context, "all", /*isAgain=*/true) {
    if (!offloaded.options.emitMlir.empty())
      offloaded.options.emitMlir += "/offload";
  }

  Result<CompileResult> run(PlanStep plan) {
    AUTOPAR_RETURN_IF_ERROR(offloaded.status);
    bool isPlanned = offloaded.run(plan, /*isOneOfTwo=*/true);
    if (!whole.step)
      return isPlanned ? takeWhatFits() : refuseBoth();
    if (isPlanned)
      return takeShorter();
    remark() << "stays on the devices, for in host memory: " << offloaded.why();
    return whole.step->finish();
  }

private:
  InFlightDiagnostic remark() {
    return emitRemark(UnknownLoc::get(&context)) << "offload=auto: the optimizer's state ";
  }

  Result<CompileResult> takeWhatFits() {
    remark() << "lies in host memory, for without that: " << whole.why();
    return offloaded.step->finish();
  }

  /// Both, unless they say the same.
  Status refuseBoth() {
    if (offloaded.why() != whole.why()) {
      if (whole.errors.empty())
        emitError(UnknownLoc::get(&context)) << whole.why();
      whole.tellErrors();
    }
    return offloaded.refuse();
  }

  Result<CompileResult> takeShorter() {
    double withUs = offloaded.step->believed().kernelsUs,
           withoutUs = whole.step->believed().kernelsUs;
    bool isShorter = withUs < withoutUs;
    Attempt &taken = isShorter ? offloaded : whole, &left = isShorter ? whole : offloaded;
    remark() << (isShorter ? "lies in host memory" : "stays on the devices")
             << llvm::formatv(": a step takes {0:f1} us by its kernels in host memory, {1:f1} "
                              "without",
                              withUs, withoutUs)
                    .str();
    taken.step->reject({llvm::formatv("{0} ({1:f1} us by its kernels)",
                                      isShorter ? kWithout : kWith, left.step->believed().kernelsUs)
                            .str(),
                        left.step->believed().stepUs});
    left.step.reset();
    return taken.step->finish();
  }

  Attempt &whole;
  MLIRContext &context;
  Attempt offloaded;
};

} // namespace

Result<CompileResult> mlir::autopar::offloadByCost(const CompileOptions &options,
                                                   MLIRContext &context, PlanStep plan) {
  bool isAuto = options.constraints.word(kKey) == "auto";
  bool hasState = options.train && options.startAt <= Phase::Train;
  if (isAuto && !hasState)
    return Status(StatusCode::Usage, "offload=auto: expected --train, only training has a state");
  if (!hasState || (options.constraints.has(kKey) && !isAuto)) {
    Result<std::unique_ptr<PlannedStep>> step = plan(options, /*isOneOfTwo=*/false);
    return step ? (*step)->finish() : Result<CompileResult>(step.status());
  }
  // Activations wait in host memory where they would be computed again otherwise.
  bool offersHost =
      isAuto && hasHostMemory(options.cluster) && options.constraints.word("recompute") != "full";
  Attempt whole(options, context, offersHost ? "activations" : "");
  AUTOPAR_RETURN_IF_ERROR(whole.status);
  bool isPlanned = whole.run(plan, /*isOneOfTwo=*/isAuto);
  if (isPlanned && !(isAuto && whole.step->paysForMemory()))
    return whole.step->finish();
  if (!isPlanned && !isAuto)
    hint(whole);
  if (!isPlanned && !(isAuto && whole.endedInPlanning()))
    return whole.refuse();
  return Second(whole, context).run(plan);
}
