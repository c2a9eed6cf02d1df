// SPDX-License-Identifier: Apache-2.0
// The loop over steps.
#include "Steps.h"

#include "BestWeights.h"
#include "Destinations.h"
#include "Inputs.h"
#include "Metrics.h"
#include "ProgressLine.h"
#include "StackedOutputs.h"
#include "autopar/Base/Utf8.h"
#include "autopar/Runtime/Checkpoint.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <filesystem>

namespace autopar::tools {
namespace {

volatile std::sig_atomic_t askedToStop = 0;
int stoppedBy = 0;

/// A second SIGINT, a second or more behind the first, is of somebody who does not want to wait for
/// the step and its checkpoint. One signal may arrive twice at once, as `timeout` sends it.
void askToStop(int number) {
  static volatile std::time_t first = 0;
  std::time_t now = std::time(nullptr);
  if (askedToStop && number == SIGINT && now > first + 1) {
    std::signal(SIGINT, SIG_DFL);
    std::raise(SIGINT);
  }
  if (!askedToStop)
    first = now;
  askedToStop = number;
}

class Run {
public:
  Run(runtime::Session &session, const RunOptions &options, bool isRoot)
      : session(session), options(options), isRoot(isRoot), trains(!session.states().empty()),
        steps(options.steps) {}

  Status run(std::vector<double> &stepMs);

private:
  runtime::Session &session;
  const RunOptions &options;
  bool isRoot, trains;
  std::unique_ptr<runtime::DataSource> data, evalData;
  int64_t steps;                 ///< in the end
  int64_t first = 0, saved = -1; ///< steps
  std::shared_ptr<void> lock;    ///< of the folder of checkpoints
  int64_t samplesPerStep = 0, tokensPerStep = 0;
  std::vector<runtime::SampleRange> evaluated; ///< what an evaluation reads
  BestWeights best;
  std::optional<StackedOutputs> outputs; ///< of rank 0

  void say(const std::string &text) const {
    if (isRoot && !options.quiet)
      std::fprintf(stderr, "autopar-run: %s\n", text.c_str());
  }
  Status checkOptions() const;
  Status prepareData();
  Status prepare();
  Status resume();
  Status checkValues();
  Result<std::optional<runtime::LoadedCheckpoint>> loadCheckpoint();
  void remarkOnData(const runtime::LoadedCheckpoint &loaded) const;
  Status save(int64_t step);
  Result<int> signalToStop();
  Status countEpochs();
  Status prepareEvaluation();
  bool isEvaluatedAfter(int64_t step) const;
  Status checkFed(const runtime::DataSource &source, const std::string &path);
  Status evaluate(Metrics &metrics, int64_t step);
  Status evaluateAlone(Metrics &metrics);
  bool stacksOutputs() const { return data && !trains && !options.outputFolder.empty(); }
  Status stackOutputs();
  Status finishOutputs();
  /// Whether a signal lets the step end first: there is something to save, or to take away.
  bool endsBetweenSteps() const {
    return (trains && !options.checkpointFolder.empty()) || stacksOutputs();
  }
  bool exports() const { return !options.exportFile.empty() || !options.exportAverages.empty(); }
  std::string rate(double ms) const;
  Status loop(Metrics &metrics, std::vector<double> &stepMs);
};

Status Run::checkOptions() const {
  auto usage = [](const char *text) { return Status{StatusCode::Usage, text}; };
  if (!trains && (!options.checkpointFolder.empty() || exports()))
    return Status::badInput("this program keeps nothing from step to step, so there is nothing to "
                            "checkpoint or export; "
                            "compile it with --train");
  if (options.checkpointFolder.empty() && options.checkpointEvery > 0)
    return usage("--checkpoint-every needs --checkpoint-dir");
  if (options.checkpointFolder.empty() && options.keptCheckpoints > 0)
    return usage("--keep-checkpoints needs --checkpoint-dir");
  if (!trains && (options.onNan != "stop" || options.resume != "auto"))
    return usage("--on-nan and --resume are for programs that were compiled with --train");
  if (options.data.empty() &&
      (options.inOrder || (options.tokenType != "u16" && options.evalData.empty())))
    return usage("--in-order and --token-type say how --data is read; give it, or leave them out");
  if (options.data.empty() && options.epochs > 0)
    return usage("--epochs counts how often --data is read; give it, or say --steps");
  if (options.data.empty() && options.seed != 0)
    return usage("--seed is of the order in which samples of --data come; give --data, or leave it "
                 "out (--init and dropout have seeds of their own)");
  if (options.steps == 0 && (!options.outputFolder.empty() || !options.trace.empty() ||
                             options.benchmark || options.profile))
    return usage("--steps 0 runs no step: there is nothing for --output-dir, --trace, --benchmark "
                 "and --profile");
  if (options.steps == 0 && !exports() && options.evalData.empty())
    return usage("--steps 0 runs no step; it goes with --eval-data, --export and --export-ema");
  return options.exportAverages.empty() ? Status::ok()
                                        : checkExported(session, runtime::Exported::Averages);
}

Status Run::prepareData() {
  AUTOPAR_RETURN_IF_ERROR(setInputs(session, options.inputs));
  auto opened = openData(session, options);
  if (!opened)
    return opened.status();
  data = opened.take();
  if (!data)
    return prepareEvaluation();
  if (!trains && options.seed != 0 && !data->isSynthetic())
    return Status{StatusCode::Usage, "--seed is of the order of samples, and a program that keeps "
                                     "nothing reads them as they lie; leave it out"};
  AUTOPAR_RETURN_IF_ERROR(checkFed(*data, RunOptions::namesOf(options.data)));
  if (data->samples() < samplesPerStep)
    return Status::badInput(RunOptions::namesOf(options.data) +
                            ": too short: " + std::to_string(data->samples()) +
                            (data->samples() == 1 ? " sample" : " samples") + ", one batch takes " +
                            std::to_string(samplesPerStep));
  AUTOPAR_RETURN_IF_ERROR(countEpochs());
  AUTOPAR_RETURN_IF_ERROR(prepareEvaluation());
  return setBatch(session, *data, 0);
}

/// That `source`, read from `path`, feeds what nothing else does; and how much of it a step takes.
Status Run::checkFed(const runtime::DataSource &source, const std::string &path) {
  for (const std::string &word : options.inputs)
    for (const std::string &input : source.inputs())
      if (word.substr(0, word.find('=')) == input)
        return Status{StatusCode::Usage, "--input gives '" + input +
                                             "', which --data feeds in every step; leave one of "
                                             "them out (--fields says what --data feeds)"};
  if (int64_t unused = source.unusedTokens())
    say("remark: " + path + ": the last " + std::to_string(unused) + " tokens fill no sample");
  if (source.inputs().empty())
    return Status::badInput(path + " feeds nothing: the program takes no inputs; leave --data out");
  const std::string fed = source.inputs().front();
  for (const runtime::TensorSpec &input : session.inputs())
    if (input.name == fed) {
      samplesPerStep = input.shape[0];
      bool isText =
          input.shape.size() == 2 && input.dtype >= DataType::I8 && input.dtype <= DataType::U64;
      tokensPerStep = isText ? input.shape[0] * input.shape[1] : 0;
    }
  return Status::ok();
}

/// The steps in which every sample is read so often; the last one may begin another epoch.
Status Run::countEpochs() {
  if (options.epochs == 0)
    return Status::ok();
  if (data->isSynthetic())
    return Status{StatusCode::Usage, "--epochs: made-up data has no end; say --steps"};
  double batches = options.epochs * double(data->samples()) / double(samplesPerStep);
  if (!(batches < double(int64_t{1} << 40)))
    return Status{StatusCode::Usage, "--epochs: that is more than 2^40 steps"};
  steps = int64_t(std::ceil(batches));
  say("remark: these epochs of " + std::to_string(data->samples()) + " samples are " +
      std::to_string(steps) + " steps of " + std::to_string(samplesPerStep));
  return Status::ok();
}

Status Run::prepareEvaluation() {
  auto opened = openEvalData(session, options, data.get());
  if (!opened)
    return opened.status();
  evalData = opened.take();
  if (!evalData)
    return Status::ok();
  if (!data)
    AUTOPAR_RETURN_IF_ERROR(checkFed(*evalData, RunOptions::namesOf(options.evalData)));
  if (options.evalSteps == 0 && evalData->isSynthetic())
    return Status{StatusCode::Usage, "--eval-data " + RunOptions::namesOf(options.evalData) +
                                         " has no end: say how many batches by --eval-steps"};
  if (options.evalSteps > evalData->samples() / samplesPerStep)
    return Status::badInput(RunOptions::namesOf(options.evalData) + " has " +
                            std::to_string(evalData->samples()) + " samples, one batch takes " +
                            std::to_string(samplesPerStep) + ", --eval-steps " +
                            std::to_string(options.evalSteps) + " wants more");
  int64_t samples =
      options.evalSteps > 0 ? options.evalSteps * samplesPerStep : evalData->samples();
  evaluated = runtime::wholeBatches(samples, samplesPerStep);
  return Status::ok();
}

bool Run::isEvaluatedAfter(int64_t step) const {
  int64_t every = options.evalEvery > 0 ? options.evalEvery : options.checkpointEvery;
  return evalData && (step + 1 == steps || (every > 0 && (step + 1) % every == 0));
}

/// Means over the samples; within a batch as its metric weights them.
Status Run::evaluate(Metrics &metrics, int64_t step) {
  std::vector<double> means(session.evaluated().size());
  double batches = 0;
  for (runtime::SampleRange samples : evaluated) {
    AUTOPAR_RETURN_IF_ERROR(setBatch(session, *evalData, samples));
    auto values = session.evaluate(step);
    if (!values)
      return values.status();
    double share = double(samples.count) / double(samplesPerStep);
    for (size_t i = 0; i < means.size(); ++i)
      means[i] += (*values)[i] * share;
    batches += share;
  }
  for (double &mean : means)
    mean /= batches;
  metrics.setEvaluated(session.evaluated(), means);
  return best.consider(session, means);
}

/// Of what was trained before: what the line of its last step would say.
Status Run::evaluateAlone(Metrics &metrics) {
  auto begin = std::chrono::steady_clock::now();
  AUTOPAR_RETURN_IF_ERROR(evaluate(metrics, first));
  double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return metrics.write(first - 1, ms,
                       double(samplesPerStep * int64_t(evaluated.size())) * 1e3 / ms);
}

/// Each process looks at its part of the samples; all hear what any of them found.
Status Run::checkValues() {
  Status status = Status::ok();
  if (data)
    status = data->checkValues(first, std::max<int64_t>(steps - first, 0), session.process());
  if (evalData && status.isOk())
    status = evalData->checkValues(0, int64_t(evaluated.size()), session.process());
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

/// The one that the options ask for, if any.
Result<std::optional<runtime::LoadedCheckpoint>> Run::loadCheckpoint() {
  using Loaded = std::optional<runtime::LoadedCheckpoint>;
  if (options.resume == "none" || (options.resume == "auto" && options.checkpointFolder.empty()))
    return Loaded();
  if (options.resume == "auto")
    return runtime::loadNewestCheckpoint(session, options.checkpointFolder);
  std::error_code error;
  std::string inFolder = options.checkpointFolder + "/" + options.resume;
  bool isName = !options.checkpointFolder.empty() &&
                !std::filesystem::exists(options.resume, error) &&
                std::filesystem::exists(inFolder, error);
  auto one = runtime::loadCheckpoint(session, isName ? inFolder : options.resume);
  return one ? Result<Loaded>(Loaded(one.take())) : Result<Loaded>(one.status());
}

/// Steps count samples of one file.
void Run::remarkOnData(const runtime::LoadedCheckpoint &loaded) const {
  auto written = loaded.info.notes.find("data");
  if (written != loaded.info.notes.end() && !written->second.empty() && !options.data.empty() &&
      written->second != escapedToUtf8(RunOptions::namesOf(options.data)))
    say("remark: it was written with --data " + written->second + "; step " +
        std::to_string(first) + " goes on with the samples that " +
        RunOptions::namesOf(options.data) + " has there");
}

Status Run::resume() {
  auto found = loadCheckpoint();
  if (!found)
    return found.status();
  std::optional<runtime::LoadedCheckpoint> loaded = found.take();
  bool isAsked = !options.checkpointFolder.empty() && options.resume == "auto";
  if (!loaded && isAsked && steps == 0)
    return Status::noInput(
        "there is no checkpoint in " + options.checkpointFolder +
        " to evaluate or export; --checkpoint-dir names the folder of step-<N> folders");
  if (!loaded)
    return Status::ok();
  if (!loaded->remarks.empty())
    say("remark: " + loaded->remarks.substr(0, loaded->remarks.size() - 1));
  first = saved = loaded->info.step;
  best.recall(loaded->info.notes);
  auto seed = loaded->info.notes.find("seed");
  if (seed != loaded->info.notes.end() && seed->second != std::to_string(options.seed))
    return Status::badInput(loaded->path + " was written with --seed " + seed->second +
                            "; the samples would come in another order with --seed " +
                            std::to_string(options.seed));
  say("going on from " + loaded->path +
      (options.initializer.empty() ? "" : "; --init is for a start without a checkpoint"));
  remarkOnData(*loaded);
  if (!exports() && steps > 0 && steps <= first)
    say("remark: it has all " + std::to_string(steps) +
        " steps already; --steps says how "
        "many there are in the end");
  return Status::ok();
}

Status Run::save(int64_t step) {
  if (options.checkpointFolder.empty() || step == saved)
    return Status::ok();
  saved = step;
  runtime::CheckpointInfo info{step,
                               {{"seed", std::to_string(options.seed)},
                                {"data", escapedToUtf8(RunOptions::namesOf(options.data))}}};
  best.note(info.notes);
  AUTOPAR_RETURN_IF_ERROR(runtime::saveCheckpoint(session, options.checkpointFolder, info));
  return isRoot && options.keptCheckpoints > 0
             ? runtime::keepNewestCheckpoints(options.checkpointFolder, options.keptCheckpoints)
             : Status::ok();
}

/// Of any process; rank 0 tells all, so that all stop after the same step. 0: go on.
Result<int> Run::signalToStop() {
  if (!endsBetweenSteps())
    return 0;
  auto heard = session.gatherTexts(std::to_string(int(askedToStop)));
  if (!heard)
    return heard.status();
  auto one = std::find_if(heard->begin(), heard->end(),
                          [](const std::string &text) { return !text.empty() && text != "0"; });
  auto answer = session.broadcastText(one == heard->end() ? "0" : *one);
  if (!answer)
    return answer.status();
  return std::stoi(*answer);
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

/// Those of the last step, behind those of the steps before.
Status Run::stackOutputs() {
  AUTOPAR_RETURN_IF_ERROR(session.collectOutputs());
  if (!isRoot)
    return Status::ok();
  if (!outputs) {
    int64_t samples = steps * samplesPerStep;
    if (options.epochs > 0)
      samples =
          std::clamp<int64_t>(std::llround(options.epochs * double(data->samples())), 1, samples);
    auto created =
        StackedOutputs::create(session, options.outputFolder, steps, samplesPerStep, samples);
    if (!created)
      return created.status();
    outputs = created.take();
  }
  return outputs->add(session);
}

/// --output-dir gets those of all samples, or of the last step.
Status Run::finishOutputs() {
  if (stacksOutputs())
    return outputs && !stoppedBy ? outputs->finish() : Status::ok();
  if (options.outputFolder.empty())
    return Status::ok();
  AUTOPAR_RETURN_IF_ERROR(session.collectOutputs());
  return isRoot ? writeOutputs(session, options.outputFolder) : Status::ok();
}

Status Run::loop(Metrics &metrics, std::vector<double> &stepMs) {
  ProgressLine line(isRoot && !options.quiet && steps - first > 1, steps);
  for (int64_t step = first; step < steps; ++step) {
    auto begin = std::chrono::steady_clock::now();
    if (data)
      AUTOPAR_RETURN_IF_ERROR(setBatch(session, *data, step));
    AUTOPAR_RETURN_IF_ERROR(session.run(step, 1));
    if (trains)
      AUTOPAR_RETURN_IF_ERROR(metrics.collect(session));
    double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    stepMs.push_back(ms);
    if (stacksOutputs())
      AUTOPAR_RETURN_IF_ERROR(stackOutputs());
    if (session.wasSkipped())
      say("remark: step " + std::to_string(step) +
          ": the loss is not finite; the step changed nothing");
    if (isEvaluatedAfter(step))
      AUTOPAR_RETURN_IF_ERROR(evaluate(metrics, step));
    AUTOPAR_RETURN_IF_ERROR(metrics.write(step, ms, double(samplesPerStep) * 1e3 / ms));
    line.step(step + 1, metrics.text(), ms, rate(ms));
    if (options.checkpointEvery > 0 && (step + 1) % options.checkpointEvery == 0)
      AUTOPAR_RETURN_IF_ERROR(save(step + 1));
    if (best.hasEnough()) {
      say("stopped after step " + std::to_string(step + 1) + ": " +
          std::to_string(options.patience) + " evaluations were no better than the best");
      return save(step + 1);
    }
    auto signal = signalToStop();
    if (!signal)
      return signal.status();
    if (*signal) {
      AUTOPAR_RETURN_IF_ERROR(save(step + 1));
      stoppedBy = *signal;
      return Status::ok();
    }
  }
  return save(std::max(first, steps));
}

/// Where results go, before any of them is there.
Status Run::prepare() {
  if (!options.outputFolder.empty())
    AUTOPAR_RETURN_IF_ERROR(checkOutputFiles(session));
  AUTOPAR_RETURN_IF_ERROR(prepareDestinations(options));
  if (options.checkpointFolder.empty())
    return Status::ok();
  auto own = runtime::lockCheckpoints(options.checkpointFolder);
  if (!own)
    return own.status().at("--checkpoint-dir");
  lock = own.take();
  return Status::ok();
}

Status Run::run(std::vector<double> &stepMs) {
  AUTOPAR_RETURN_IF_ERROR(checkOptions());
  auto weights = BestWeights::of(options, session);
  if (!weights)
    return weights.status();
  best = weights.take();
  if (steps > 0 || !options.evalData.empty())
    AUTOPAR_RETURN_IF_ERROR(prepareData());
  AUTOPAR_RETURN_IF_ERROR(resume());
  if (data || evalData)
    AUTOPAR_RETURN_IF_ERROR(checkValues());
  if (isRoot)
    AUTOPAR_RETURN_IF_ERROR(prepare());
  if (endsBetweenSteps()) {
    std::signal(SIGTERM, askToStop);
    std::signal(SIGINT, askToStop);
  }
  if (trains && options.warmup > 0)
    say("remark: --warmup: each step of a training program trains, so all are measured");
  int64_t warmup = trains ? 0 : options.warmup > 0 ? options.warmup : options.benchmark ? 2 : 0;
  if (warmup > 0) {
    AUTOPAR_RETURN_IF_ERROR(session.run(0, warmup));
    session.clearEvents();
  }
  auto metrics = Metrics::open(options.metrics, isRoot);
  if (!metrics)
    return metrics.status();
  AUTOPAR_RETURN_IF_ERROR(loop(*metrics, stepMs));
  AUTOPAR_RETURN_IF_ERROR(finishOutputs());
  if (evalData && steps == 0)
    AUTOPAR_RETURN_IF_ERROR(evaluateAlone(*metrics));
  int64_t done = first + int64_t(stepMs.size());
  if (trains && (evalData || !stepMs.empty()))
    say("step " + std::to_string(done) + (metrics->text().empty() ? "" : ": " + metrics->text()));
  if (stoppedBy) {
    say("stopped by " + std::string(stoppedBy == SIGINT ? "SIGINT" : "SIGTERM") + " after step " +
        std::to_string(done) + " of " + std::to_string(steps) +
        (trains ? "; the same command goes on from there" : "; no outputs are written"));
    return Status::ok();
  }
  if (!options.exportFile.empty())
    AUTOPAR_RETURN_IF_ERROR(exportSafetensors(session, options.exportFile));
  if (!options.exportAverages.empty())
    AUTOPAR_RETURN_IF_ERROR(
        exportSafetensors(session, options.exportAverages, runtime::Exported::Averages));
  return Status::ok();
}

} // namespace

Status runSteps(runtime::Session &session, const RunOptions &options, bool isRoot,
                std::vector<double> &stepMs) {
  return Run(session, options, isRoot).run(stepMs);
}

int stopSignal() { return stoppedBy; }

} // namespace autopar::tools
