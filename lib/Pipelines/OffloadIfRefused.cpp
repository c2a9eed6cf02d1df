// SPDX-License-Identifier: Apache-2.0
// See the header. What fits as it is takes the time that it took before: nobody looks further.
#include "OffloadIfRefused.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

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

/// What planning says of bytes is that there are too few.
bool isAboutMemory(StringRef message) { return message.contains(" bytes"); }

/// A compilation whose errors are kept for later.
class Attempt {
public:
  Attempt(CompileOptions options, MLIRContext &context, bool isAgain = false)
      : options(std::move(options)), engine(context.getDiagEngine()), isAgain(isAgain) {}

  Result<CompileResult> run(function_ref<Result<CompileResult>(const CompileOptions &)> compile) {
    CompileOptions own = options;
    own.onPhase = [&](size_t number, size_t count, const PhaseInfo &info) {
      last = info.phase;
      if (options.onPhase)
        options.onPhase(number, count, info);
    };
    auto handler = engine.registerHandler([&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
        return success(isAgain && last < Phase::CutStages); // said the first time
      errors.push_back(std::move(diagnostic));
      return success();
    });
    Result<CompileResult> result = compile(own);
    engine.eraseHandler(handler);
    return result;
  }

  /// Whether it ended where room for the model is looked for.
  bool endedInPlanning() const { return last >= Phase::CutStages && last <= Phase::PlanMemory; }

  /// The first line of why it ended.
  std::string why(const Status &status) const {
    std::string text = errors.empty() ? status.message() : errors.front().str();
    return StringRef(text).split('\n').first.str();
  }

  CompileOptions options;
  std::vector<Diagnostic> errors;

private:
  DiagnosticEngine &engine;
  bool isAgain;
  Phase last = Phase::Import;
};

/// Names the way out where nobody has said anything about it.
Status withHint(Attempt &attempt, Status status) {
  if (!attempt.endedInPlanning())
    return status;
  for (Diagnostic &error : attempt.errors)
    if (isAboutMemory(error.str()))
      error.attachNote() << kHint;
  return isAboutMemory(status.message()) ? Status(status.code(), status.message() + "; " + kHint)
                                         : status;
}

} // namespace

Result<CompileResult> mlir::autopar::offloadIfRefused(
    const CompileOptions &options, MLIRContext &context,
    function_ref<Result<CompileResult>(const CompileOptions &)> compile) {
  bool isAuto = options.constraints.word(kKey) == "auto";
  bool hasState = options.train && options.startAt <= Phase::Train;
  if (isAuto && !hasState)
    return Status(StatusCode::Usage, "offload=auto: expected --train, only training has a state");
  if (!hasState || (options.constraints.has(kKey) && !isAuto))
    return compile(options);
  Attempt whole(options, context);
  whole.options.constraints.drop(kKey);
  Result<CompileResult> result = whole.run(compile);
  if (result)
    return result;
  auto say = [&](Attempt &attempt) {
    for (Diagnostic &error : attempt.errors)
      context.getDiagEngine().emit(std::move(error));
  };
  if (!isAuto || !whole.endedInPlanning()) {
    Status status = isAuto ? result.status() : withHint(whole, result.status());
    say(whole);
    return status;
  }
  std::string why = whole.why(result.status());
  emitRemark(UnknownLoc::get(&context))
      << "offload=auto: the optimizer's state lies in host memory, for without that: " << why;
  Attempt offloaded(whole.options, context, /*isAgain=*/true);
  AUTOPAR_RETURN_IF_ERROR(offloaded.options.constraints.demand("--offload auto", kKey, "state"));
  result = offloaded.run(compile);
  if (result)
    return result;
  // Both, unless they say the same.
  if (offloaded.why(result.status()) != why) {
    if (whole.errors.empty())
      emitError(UnknownLoc::get(&context)) << why;
    say(whole);
  }
  say(offloaded);
  return result;
}
