// SPDX-License-Identifier: Apache-2.0
// Records in program order: what an instruction waits for is earlier in it.
#include "CapturedStep.h"

#include "Communication.h"

#include <algorithm>

namespace autopar::runtime {

using namespace artifact;

namespace {

/// A mark costs the device a small launch, and narrows down what failed. Where a step is short,
/// many would be a few percent of it.
constexpr int32_t kLeastPerMark = 128;

} // namespace

Status CapturedStep::check(const Program &program, Device &device,
                           const Communicator &communicator) {
  if (!device.capture())
    return Status::badInput("this device records no steps");
  std::string why = communicator.whyUncapturable();
  for (const TimetableRow &row : program.timetable)
    for (const Instruction &instruction : program.entries[size_t(row.entry)].instructions) {
      if (isCommunication(instruction.payload) && !why.empty())
        return Status::badInput("communication (" + instruction.id + ") " + why);
      if (std::holds_alternative<Read>(instruction.payload))
        return Status::badInput(instruction.id + " reads a file in every step");
    }
  return Status::ok();
}

CapturedStep::CapturedStep(const SharedProgram &shared, Device &device, Issue issue)
    : shared(shared), order(shared.step()), capture(*device.capture()), device(device),
      issue(std::move(issue)) {
  for (const Port &port : shared.program.ports)
    hasGuards |= port.guards;
}

bool CapturedStep::start(StepKind wanted) {
  if (wanted == StepKind::Inspection || runs[wanted]++ == 0)
    return false;
  kind = wanted;
  part = hasGuards || kind == StepKind::Evaluation ? Part::Before : Part::Committing;
  running = nullptr;
  return true;
}

Result<bool> CapturedStep::advance(const std::function<Result<bool>()> &areGuardsFinite) {
  while (true) {
    if (!running)
      AUTOPAR_RETURN_IF_ERROR(begin());
    if (token != 0) {
      auto done = device.test(token);
      if (!done)
        return done.status().at(unfinished());
      if (!*done)
        return false;
      token = 0;
    }
    if (part != Part::Before || kind == StepKind::Evaluation)
      return true;
    auto finite = areGuardsFinite();
    if (!finite)
      return finite.status();
    part = *finite ? Part::Committing : Part::Held;
    running = nullptr;
  }
}

Status CapturedStep::begin() {
  auto found = recorded.find({kind, part});
  if (found == recorded.end()) {
    auto made = record();
    if (!made)
      return made.status().at("recording the step (--no-capture runs it one by one)");
    found = recorded.emplace(std::pair(kind, part), made.take()).first;
  }
  running = &found->second;
  token = 0;
  if (running->graph < 0)
    return Status::ok();
  auto launched = capture.launch(running->graph);
  if (!launched)
    return launched.status().at(unfinished());
  token = *launched;
  return Status::ok();
}

bool CapturedStep::isActive(const Instruction &instruction, bool isBefore) const {
  if (kind == StepKind::Evaluation)
    return instruction.evaluated;
  bool isFirstPart = part == Part::Before || !hasGuards;
  if (isBefore != isFirstPart && hasGuards)
    return false;
  return !instruction.commits || part == Part::Committing;
}

Result<CapturedStep::Recorded> CapturedStep::record() {
  Recorded made;
  std::array<int32_t, kQueueCount> counts{};
  bool isBefore = true;
  for (size_t i = 0; i < order.places.size(); ++i) {
    const Instruction &instruction = shared.instructionAt(order, int32_t(i));
    isBefore &= !instruction.commits;
    counts[size_t(instruction.queue)] += isActive(instruction, isBefore);
  }
  int32_t most = *std::max_element(counts.begin(), counts.end());
  if (most == 0)
    return made;
  made.perMark = std::max(kLeastPerMark, (most + Capture::kMostMarks - 1) / Capture::kMostMarks);
  auto graph = recordGraph(made);
  if (!graph) {
    // No other thread could, and what is recorded keeps a communicator from its end.
    capture.abandon();
    return graph.status();
  }
  made.graph = *graph;
  return made;
}

Result<int32_t> CapturedStep::recordGraph(Recorded &made) {
  AUTOPAR_RETURN_IF_ERROR(capture.begin());
  AUTOPAR_RETURN_IF_ERROR(recordInstructions(made));
  return capture.end();
}

Status CapturedStep::recordInstructions(Recorded &made) {
  bool isBefore = true;
  // What tells that an instruction is complete; of one that is left out, what it would have come
  // after.
  std::vector<std::vector<Token>> ends(order.places.size());
  std::array<const std::vector<Token> *, kQueueCount> last{};
  for (size_t i = 0; i < ends.size(); ++i) {
    const Instruction &instruction = shared.instructionAt(order, int32_t(i));
    size_t queue = size_t(instruction.queue);
    isBefore &= !instruction.commits;
    for (size_t wait = order.afterBegin(int32_t(i)); wait < size_t(order.afterEnd[i]); ++wait) {
      const std::vector<Token> &earlier = ends[size_t(order.after[wait].index)];
      ends[i].insert(ends[i].end(), earlier.begin(), earlier.end());
    }
    // Of one queue, each comes after the one before, also where a communicator gives them streams
    // of its own.
    bool isActiveNow = isActive(instruction, isBefore);
    if (last[queue] && (!isActiveNow || !endsInAnyOrder(instruction.queue)))
      ends[i].insert(ends[i].end(), last[queue]->begin(), last[queue]->end());
    // Through what is left out the same ones come together again and again.
    std::sort(ends[i].begin(), ends[i].end());
    ends[i].erase(std::unique(ends[i].begin(), ends[i].end()), ends[i].end());
    if (isActiveNow) {
      auto token = issue(instruction, shared.rowAt(order, int32_t(i)).slot, ends[i]);
      if (!token)
        return token.status().at(shared.describe(order, int32_t(i)));
      ends[i] = {*token};
      std::vector<int32_t> &places = made.places[queue];
      places.push_back(int32_t(i));
      int32_t count = int32_t(places.size());
      if (count % made.perMark == 0)
        AUTOPAR_RETURN_IF_ERROR(capture.mark(instruction.queue, count / made.perMark, ends[i]));
      made.last[queue] = *token;
    }
    last[queue] = &ends[i];
  }
  // Which queue is at its end; where there is one only, its token says so.
  auto hasPlaces = [](const std::vector<int32_t> &places) { return !places.empty(); };
  if (std::count_if(made.places.begin(), made.places.end(), hasPlaces) < 2)
    return Status::ok();
  for (size_t queue = 0; queue < kQueueCount; ++queue)
    if (int32_t count = int32_t(made.places[queue].size()); count % made.perMark != 0)
      AUTOPAR_RETURN_IF_ERROR(
          capture.mark(Queue(queue), count / made.perMark + 1, std::span(&made.last[queue], 1)));
  return Status::ok();
}

std::string CapturedStep::unfinished() const {
  if (!running)
    return "nothing yet";
  std::string text;
  for (size_t queue = 0; queue < kQueueCount; ++queue) {
    const std::vector<int32_t> &places = running->places[queue];
    size_t first = size_t(capture.reached(Queue(queue))) * size_t(running->perMark);
    if (first >= places.size())
      continue;
    size_t end = std::min(first + size_t(running->perMark), places.size());
    text += (text.empty() ? "one of " : ", or of ") + shared.describe(order, places[first]) +
            (end - first > 1 ? " to " + shared.describe(order, places[end - 1]) : "");
  }
  return (text.empty() ? "behind the last instruction" : text) +
         ", which run as one (--profile runs them one by one)";
}

} // namespace autopar::runtime
