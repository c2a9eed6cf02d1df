// SPDX-License-Identifier: Apache-2.0
// The loop over steps.
#include "Steps.h"

#include "Destinations.h"
#include "Inputs.h"
#include "Metrics.h"
#include "ProgressLine.h"
#include "autopar/Runtime/Checkpoint.h"

#include <chrono>
#include <csignal>
#include <cstdio>

namespace autopar::tools {
namespace {

volatile std::sig_atomic_t stopSignal = 0;

void askToStop(int number) { stopSignal = number; }

class Run {
public:
  Run(runtime::Session &session, const RunOptions &options, bool isRoot)
      : session(session), options(options), isRoot(isRoot), trains(!session.states().empty()) {}

  Status run(std::vector<double> &stepMs);

private:
  runtime::Session &session;
  const RunOptions &options;
  bool isRoot, trains;
  std::unique_ptr<runtime::DataSource> data, evalData;
  int64_t first = 0, saved = -1; ///< steps
  int64_t samplesPerStep = 0, tokensPerStep = 0, evalBatches = 0;

  void say(const std::string &text) const {
    if (isRoot && !options.quiet)
      std::fprintf(stderr, "autopar-run: %s\n", text.c_str());
  }
  Status checkOptions() const;
  Status prepareData();
  Status resume();
  Status checkValues();
  Status save(int64_t step);
  Result<bool> wantsToStop();
  Status prepareEvaluation();
  bool isEvaluatedAfter(int64_t step) const;
  Status evaluate(Metrics &metrics, int64_t step);
  std::string rate(double ms) const;
  Status loop(Metrics &metrics, std::vector<double> &stepMs);
};

Status Run::checkOptions() const {
  auto usage = [](const char *text) { return Status{StatusCode::Usage, text}; };
  if (!trains && (!options.checkpointFolder.empty() || !options.exportFile.empty()))
    return Status::badInput("this program keeps nothing from step to step, so there is nothing to "
                            "checkpoint or export; "
                            "compile it with --train");
  if (options.checkpointFolder.empty() && options.checkpointEvery > 0)
    return usage("--checkpoint-every needs --checkpoint-dir");
  if (options.steps == 0 && options.exportFile.empty())
    return usage("--steps 0 runs nothing; it goes with --export");
  return Status::ok();
}

Status Run::prepareData() {
  AUTOPAR_RETURN_IF_ERROR(setInputs(session, options.inputs));
  auto opened = openData(session, options);
  if (!opened)
    return opened.status();
  data = opened.take();
  if (!data)
    return prepareEvaluation();
  if (int64_t unused = data->unusedTokens())
    say("remark: " + options.data + ": the last " + std::to_string(unused) +
        " tokens fill no sample");
  const std::string fed = data->inputs().front();
  for (const runtime::TensorSpec &input : session.inputs())
    if (input.name == fed) {
      samplesPerStep = input.shape[0];
      bool isText =
          input.shape.size() == 2 && input.dtype >= DataType::I8 && input.dtype <= DataType::U64;
      tokensPerStep = isText ? input.shape[0] * input.shape[1] : 0;
    }
  if (data->samples() < samplesPerStep)
    return Status::badInput(options.data + ": too short: " + std::to_string(data->samples()) +
                            (data->samples() == 1 ? " sample" : " samples") + ", one batch takes " +
                            std::to_string(samplesPerStep));
  AUTOPAR_RETURN_IF_ERROR(prepareEvaluation());
  return setBatch(session, *data, 0);
}

Status Run::prepareEvaluation() {
  auto opened = openEvalData(session, options, data.get());
  if (!opened)
    return opened.status();
  evalData = opened.take();
  if (!evalData)
    return Status::ok();
  int64_t full = evalData->samples() / samplesPerStep;
  if (full == 0 || options.evalSteps > full)
    return Status::badInput(
        options.evalData + " has " + std::to_string(evalData->samples()) +
        " samples, one batch takes " + std::to_string(samplesPerStep) +
        (options.evalSteps > full
             ? ", --eval-steps " + std::to_string(options.evalSteps) + " wants more"
             : ""));
  evalBatches = options.evalSteps > 0 ? options.evalSteps : full;
  return Status::ok();
}

bool Run::isEvaluatedAfter(int64_t step) const {
  int64_t every = options.evalEvery > 0 ? options.evalEvery : options.checkpointEvery;
  return evalData && (step + 1 == options.steps || (every > 0 && (step + 1) % every == 0));
}

/// The mean over the batches, each as the loss weights its samples.
Status Run::evaluate(Metrics &metrics, int64_t step) {
  double sum = 0;
  for (int64_t batch = 0; batch < evalBatches; ++batch) {
    AUTOPAR_RETURN_IF_ERROR(setBatch(session, *evalData, batch));
    auto loss = session.evaluate(step);
    if (!loss)
      return loss.status();
    sum += *loss;
  }
  metrics.setEvalLoss(sum / double(evalBatches));
  return Status::ok();
}

/// Each process looks at its part of the samples; all hear what any of them found.
Status Run::checkValues() {
  Status status = Status::ok();
  if (data)
    status =
        data->checkValues(first, std::max<int64_t>(options.steps - first, 0), session.process())
            .at(options.data);
  if (evalData && status.isOk())
    status = evalData->checkValues(0, evalBatches, session.process()).at(options.evalData);
  auto texts = session.gatherTexts(status.isOk() ? "" : status.message());
  if (!texts)
    return texts.status();
  std::string found;
  for (const std::string &text : *texts)
    found = found.empty() ? text : found;
  auto all = session.broadcastText(found);
  if (!all)
    return all.status();
  return all->empty() ? Status::ok() : Status::badInput(*all);
}

Status Run::resume() {
  if (options.resume == "none" || (options.resume == "auto" && options.checkpointFolder.empty()))
    return Status::ok();
  std::optional<runtime::LoadedCheckpoint> loaded;
  if (options.resume == "auto") {
    auto newest = runtime::loadNewestCheckpoint(session, options.checkpointFolder);
    if (!newest)
      return newest.status();
    loaded = newest.take();
  } else {
    auto one = runtime::loadCheckpoint(session, options.resume);
    if (!one)
      return one.status();
    loaded = one.take();
  }
  if (!loaded)
    return Status::ok();
  if (!loaded->remarks.empty())
    say("remark: " + loaded->remarks.substr(0, loaded->remarks.size() - 1));
  first = saved = loaded->info.step;
  auto seed = loaded->info.notes.find("seed");
  if (seed != loaded->info.notes.end() && seed->second != std::to_string(options.seed))
    return Status::badInput(loaded->path + " was written with --seed " + seed->second +
                            "; the samples would come in another order with --seed " +
                            std::to_string(options.seed));
  say("going on from " + loaded->path);
  if (options.exportFile.empty() && options.steps > 0 && options.steps <= first)
    say("remark: it has all " + std::to_string(options.steps) +
        " steps already; --steps says how "
        "many there are in the end");
  return Status::ok();
}

Status Run::save(int64_t step) {
  if (options.checkpointFolder.empty() || step == saved)
    return Status::ok();
  saved = step;
  return runtime::saveCheckpoint(
      session, options.checkpointFolder,
      {step, {{"seed", std::to_string(options.seed)}, {"data", options.data}}});
}

/// Rank 0 decides for all, so that all stop after the same step.
Result<bool> Run::wantsToStop() {
  if (!trains || options.checkpointFolder.empty())
    return stopSignal != 0;
  auto answer = session.broadcastText(stopSignal ? "stop" : "");
  if (!answer)
    return answer.status();
  return !answer->empty();
}

std::string Run::rate(double ms) const {
  int64_t count = tokensPerStep ? tokensPerStep : samplesPerStep;
  if (!count || ms <= 0)
    return "";
  char text[64];
  std::snprintf(text, sizeof(text), "%.0f %s/s", double(count) * 1e3 / ms,
                tokensPerStep ? "tokens" : "samples");
  return text;
}

Status Run::loop(Metrics &metrics, std::vector<double> &stepMs) {
  ProgressLine line(isRoot && !options.quiet && options.steps - first > 1, options.steps);
  for (int64_t step = first; step < options.steps; ++step) {
    auto begin = std::chrono::steady_clock::now();
    if (data)
      AUTOPAR_RETURN_IF_ERROR(setBatch(session, *data, step));
    AUTOPAR_RETURN_IF_ERROR(session.run(step, 1));
    if (trains)
      AUTOPAR_RETURN_IF_ERROR(metrics.collect(session));
    double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    stepMs.push_back(ms);
    if (session.wasSkipped())
      say("remark: step " + std::to_string(step) +
          ": the loss is not finite; the step changed nothing");
    if (isEvaluatedAfter(step))
      AUTOPAR_RETURN_IF_ERROR(evaluate(metrics, step));
    AUTOPAR_RETURN_IF_ERROR(metrics.write(step, ms, double(samplesPerStep) * 1e3 / ms));
    line.step(step + 1, metrics.text(), ms, rate(ms));
    if (options.checkpointEvery > 0 && (step + 1) % options.checkpointEvery == 0)
      AUTOPAR_RETURN_IF_ERROR(save(step + 1));
    auto stop = wantsToStop();
    if (!stop)
      return stop.status();
    if (*stop) {
      AUTOPAR_RETURN_IF_ERROR(save(step + 1));
      return Status::ok();
    }
  }
  return save(std::max(first, options.steps));
}

Status Run::run(std::vector<double> &stepMs) {
  AUTOPAR_RETURN_IF_ERROR(checkOptions());
  if (options.steps > 0)
    AUTOPAR_RETURN_IF_ERROR(prepareData());
  AUTOPAR_RETURN_IF_ERROR(resume());
  if (options.data.size() > 0 && options.steps > 0)
    AUTOPAR_RETURN_IF_ERROR(checkValues());
  if (isRoot)
    AUTOPAR_RETURN_IF_ERROR(prepareDestinations(options));
  if (trains && !options.checkpointFolder.empty()) {
    std::signal(SIGTERM, askToStop);
    std::signal(SIGINT, askToStop);
  }
  // Warm-up steps would count as training.
  int64_t warmup = trains ? 0 : options.warmup > 0 ? options.warmup : options.benchmark ? 2 : 0;
  if (warmup > 0) {
    AUTOPAR_RETURN_IF_ERROR(session.run(0, warmup));
    session.clearEvents();
  }
  auto metrics = Metrics::open(options.metrics, isRoot);
  if (!metrics)
    return metrics.status();
  AUTOPAR_RETURN_IF_ERROR(loop(*metrics, stepMs));
  if (trains && !stepMs.empty())
    say("step " + std::to_string(first + int64_t(stepMs.size())) + ": " + metrics->text());
  return options.exportFile.empty() ? Status::ok()
                                    : runtime::exportSafetensors(session, options.exportFile);
}

} // namespace

Status runSteps(runtime::Session &session, const RunOptions &options, bool isRoot,
                std::vector<double> &stepMs) {
  return Run(session, options, isRoot).run(stepMs);
}

} // namespace autopar::tools
