// SPDX-License-Identifier: Apache-2.0
// Steps of a session: whole ones, evaluations, and what is said about a loss that is no number.
#include "SessionState.h"
#include "autopar/Runtime/FloatElement.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <sstream>

namespace autopar::runtime {

using artifact::Port;
using artifact::Program;

namespace {

/// What an inspection found on a rank, as a line that travels between processes.
std::string lineOf(int32_t rank, const char *kind, const NonFinitePlace &place) {
  return std::string(kind) + " " + std::to_string(place.order) + " " + std::to_string(rank) + " " +
         place.what + "\n";
}

std::string linesOf(const LocalRank &rank) {
  std::string lines;
  const NonFiniteSearch &search = rank.executor->inspection();
  if (search.firstNan())
    lines += lineOf(rank.rank, "NaN", *search.firstNan());
  if (search.firstInfinity())
    lines += lineOf(rank.rank, "infinity", *search.firstInfinity());
  return lines;
}

struct Finding {
  int64_t order = 0;
  int32_t rank = 0;
  std::string what;
};

/// The first one of a kind: in program order, then by rank.
std::optional<Finding> firstOf(const std::string &lines, const std::string &kind) {
  std::optional<Finding> first;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string own;
    Finding finding;
    words >> own >> finding.order >> finding.rank;
    std::getline(words >> std::ws, finding.what);
    if (own == kind &&
        (!first || std::pair(finding.order, finding.rank) < std::pair(first->order, first->rank)))
      first = finding;
  }
  return first;
}

std::string sentence(const char *kind, const Finding &finding) {
  return std::string("the first ") + kind + " is in " + finding.what + " on rank " +
         std::to_string(finding.rank);
}

std::string conclude(const std::string &lines) {
  auto nan = firstOf(lines, "NaN"), infinity = firstOf(lines, "infinity");
  std::string text;
  if (infinity && (!nan || infinity->order < nan->order))
    text = sentence("infinity", *infinity);
  if (nan)
    text += (text.empty() ? "" : ", ") + sentence("NaN", *nan);
  return text.empty() ? "every result was finite when the step was repeated" : text;
}

} // namespace

Status Session::State::checkInputsGiven() const {
  std::vector<TensorSpec> missing;
  for (const TensorSpec &spec : inputs)
    if (!inputsGiven.count(spec.name))
      missing.push_back(spec);
  if (!missing.empty())
    return Status::badInput("inputs without a value: " + describe(missing));
  return Status::ok();
}

/// Tells the program how many positions of extents the inputs lack.
Status Session::State::tellMissing() {
  AUTOPAR_RETURN_IF_ERROR(missing.agree(inputs));
  for (LocalRank &rank : ranks)
    for (const Port &port : reader.programOfRank(rank.rank).ports)
      if (!port.missing.empty()) {
        int64_t count = missing.of(port.missing);
        AUTOPAR_RETURN_IF_ERROR(rank.device->write(port.buffer, 0, &count, sizeof count));
      }
  return Status::ok();
}

Status Session::State::runStep(int64_t step, StepKind kind) {
  takeTurn();
  return drive(
      [&](LocalRank &rank) {
        rank.executor->startStep(step, kind, *skippedSteps);
        return Status::ok();
      },
      [](LocalRank &) { return Status::ok(); });
}

Status Session::loadWeights(Initializer initializer) {
  for (const Port *port : state->reader.ports())
    if (port->role == artifact::Role::State && port->source.kind != artifact::SourceKind::None)
      return Status::badInput(state->reader.path() + " trains its parameters (" + port->name +
                              "): load a checkpoint, or open the session with the weights");
  AUTOPAR_RETURN_IF_ERROR(initializer.check(state->reader.ports()));
  state->parameters->setInitializer(initializer);
  state->options.initializer = std::move(initializer);
  state->takeTurn();
  state->inputsGiven.clear();
  state->outputData.clear();
  AUTOPAR_RETURN_IF_ERROR(state->drive(
      [](LocalRank &rank) {
        rank.executor->startLoad(/*keepsState=*/true);
        return Status::ok();
      },
      [](LocalRank &) { return Status::ok(); }));
  state->parameters->releaseFiles();
  return Status::ok();
}

Status Session::run(int64_t first, int64_t count) {
  AUTOPAR_RETURN_IF_ERROR(state->checkInputsGiven());
  AUTOPAR_RETURN_IF_ERROR(state->tellMissing());
  for (int64_t step = first; step < first + count; ++step) {
    AUTOPAR_RETURN_IF_ERROR(state->runStep(step, StepKind::Whole));
    if (!wasSkipped())
      continue;
    if (state->skipsNonFinite) {
      ++*state->skippedSteps;
      continue;
    }
    auto why = explainNonFinite(step);
    if (!why)
      return why.status();
    return Status::badInput(*why);
  }
  return Status::ok();
}

void Session::setSkipNonFinite(bool skips) { state->skipsNonFinite = skips; }

// The guards are replicated, so all ranks decide alike.
bool Session::wasSkipped() const { return state->ranks.front().executor->isHeld(); }

int64_t Session::skippedSteps() const { return *state->skippedSteps; }

void Session::setSkippedSteps(int64_t count) { *state->skippedSteps = count; }

/// Which guard it was. Then the step again, from the state that it left as it was, looking at every
/// result.
Result<std::string> Session::explainNonFinite(int64_t step) {
  LocalRank &any = state->ranks.front();
  std::string text = "step " + std::to_string(step);
  for (const Port &port : state->reader.programOfRank(any.rank).ports) {
    uint64_t value = 0;
    if (!port.guards)
      continue;
    AUTOPAR_RETURN_IF_ERROR(any.device->read(port.buffer, 0, &value, byteSize(port.dtype)));
    if (!std::isfinite(loadFloat(port.dtype, &value))) {
      text += ": " + port.name + " is " +
              (std::isnan(loadFloat(port.dtype, &value)) ? "NaN" : "infinite");
      break;
    }
  }
  AUTOPAR_RETURN_IF_ERROR(state->runStep(step, StepKind::Inspection));
  std::string lines;
  for (const LocalRank &rank : state->ranks)
    lines += linesOf(rank);
  auto all = gatherTexts(lines);
  if (!all)
    return all.status();
  lines.clear();
  for (const std::string &part : *all)
    lines += part;
  auto conclusion = broadcastText(conclude(lines));
  if (!conclusion)
    return conclusion.status();
  return text + "; " + *conclusion +
         "; parameters and state are as they were before the step. A smaller learning rate or "
         "clipping may help";
}

/// What the programs of all ranks can give: they exchange messages about it.
void Session::State::findEvaluated() {
  auto gives = [&](const std::string &name) {
    for (int32_t rankClass = 0; rankClass < reader.classCount(); ++rankClass) {
      const std::vector<Port> &ports = reader.program(rankClass).ports;
      if (std::none_of(ports.begin(), ports.end(),
                       [&](const Port &port) { return port.evaluated && port.name == name; }))
        return false;
    }
    return true;
  };
  for (const Port &port : reader.program(0).ports)
    if (port.evaluated && gives(port.name))
      evaluated.push_back(port.name);
}

const std::vector<std::string> &Session::evaluated() const { return state->evaluated; }

Result<std::vector<double>> Session::evaluate(int64_t step) {
  if (state->evaluated.empty())
    return Status::badInput(state->reader.path() +
                            " has no loss to evaluate: compile the model with --train");
  AUTOPAR_RETURN_IF_ERROR(state->checkInputsGiven());
  AUTOPAR_RETURN_IF_ERROR(state->tellMissing());
  AUTOPAR_RETURN_IF_ERROR(state->runStep(step, StepKind::Evaluation));
  LocalRank &any = state->ranks.front();
  const Program &program = state->reader.programOfRank(any.rank);
  std::vector<double> values;
  for (const std::string &name : state->evaluated) {
    auto port = std::find_if(program.ports.begin(), program.ports.end(),
                             [&](const Port &port) { return port.evaluated && port.name == name; });
    uint64_t value = 0;
    AUTOPAR_RETURN_IF_ERROR(any.device->read(port->buffer, 0, &value, byteSize(port->dtype)));
    values.push_back(loadFloat(port->dtype, &value));
  }
  return values;
}

} // namespace autopar::runtime
