// SPDX-License-Identifier: Apache-2.0
// The order of work.
#include "Timeline.h"

#include "DeviceMemory.h"

namespace emulated {

using autopar::runtime::cuda::DriverError;

Timeline &Timeline::get() {
  static Timeline *timeline = new Timeline;
  return *timeline;
}

Timeline::Timeline() : random(setting("AUTOPAR_EMULATED_CUDA_SEED", 1)) {}

void Timeline::enqueue(const char *kind, StreamState &stream, Work work, Ready isReady) {
  if (!stream.capture) {
    ++counts[kind];
    StreamState::Task task;
    task.work = std::move(work);
    task.isReady = std::move(isReady);
    stream.tasks.push_back(std::move(task));
    return;
  }
  stream.capture->nodes.push_back({std::move(work), std::move(isReady), stream.last});
  stream.last = {stream.capture->nodes.size() - 1};
}

void Timeline::record(EventState &event, StreamState &stream) {
  event.capture = stream.capture;
  event.nodes = stream.last;
  if (stream.capture)
    return;
  StreamState::Task task;
  task.event = &event;
  task.version = ++event.recorded;
  stream.tasks.push_back(std::move(task));
}

int Timeline::wait(StreamState &stream, EventState &event) {
  ++counts["waits"];
  if (event.capture) {
    if (stream.capture && stream.capture != event.capture) {
      stream.capture->isBroken = event.capture->isBroken = true;
      return int(DriverError::CaptureMerge);
    }
    // The stream joins the capture.
    stream.capture = event.capture;
    event.capture->members.insert(&stream);
    stream.last.insert(stream.last.end(), event.nodes.begin(), event.nodes.end());
    return 0;
  }
  if (stream.capture) {
    // Work outside of a capture cannot be waited for in it.
    stream.capture->isBroken = true;
    return int(DriverError::CaptureIsolation);
  }
  StreamState::Task task;
  task.event = &event;
  task.version = event.recorded;
  task.waits = true;
  stream.tasks.push_back(std::move(task));
  return 0;
}

void Timeline::addChoices(StreamState &stream, std::vector<Choice> &choices, bool &awaits) {
  if (stream.tasks.empty())
    return;
  const StreamState::Task &task = stream.tasks.front();
  auto add = [&](const Ready &isReady, size_t open) {
    // After an error nothing runs any more.
    if (error || !isReady || isReady())
      choices.push_back({&stream, open});
    else
      awaits = true;
  };
  if (task.graph) {
    for (size_t i = 0; i < task.graph->open.size(); ++i)
      add(task.graph->graph->nodes[task.graph->open[i]].isReady, i);
  } else if (task.work) {
    add(task.isReady, 0);
  } else if (!task.waits || !events.count(task.event) || task.event->done >= task.version) {
    choices.push_back({&stream, 0});
  }
}

bool Timeline::awaitsOthers() {
  std::vector<Choice> choices;
  bool awaits = false;
  for (StreamState *stream : streams)
    addChoices(*stream, choices, awaits);
  return awaits || !choices.empty();
}

void Timeline::runWork(const Work &work) {
  int result = error ? 0 : work();
  ++nowMs;
  if (result && !error)
    error = result;
}

bool Timeline::runOne(StreamState *only) {
  std::vector<Choice> choices;
  bool awaits = false;
  for (StreamState *stream : streams)
    if (!only || stream == only)
      addChoices(*stream, choices, awaits);
  if (choices.empty())
    return only ? runOne(nullptr) : false;
  Choice choice = choices[random() % choices.size()];
  StreamState &stream = *choice.stream;
  if (std::shared_ptr<GraphRun> run = stream.tasks.front().graph) {
    size_t node = run->open[choice.open];
    run->open[choice.open] = run->open.back();
    run->open.pop_back();
    runWork(run->graph->nodes[node].work);
    for (size_t later = node + 1; later < run->graph->nodes.size(); ++later)
      for (size_t before : run->graph->nodes[later].after)
        if (before == node && --run->missing[later] == 0)
          run->open.push_back(later);
    if (--run->left == 0)
      stream.tasks.pop_front();
    return true;
  }
  StreamState::Task task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  if (task.work)
    runWork(task.work);
  else if (!task.waits && events.count(task.event)) {
    task.event->done = task.version;
    task.event->passedMs = nowMs;
  }
  return true;
}

void Timeline::progress() {
  for (uint64_t count = random() % 4; count > 0; --count)
    runOne(nullptr);
}

bool Timeline::finish(StreamState &stream) {
  // Others come first now and then.
  while (!stream.tasks.empty())
    if (!runOne(random() % 2 ? &stream : nullptr))
      return false;
  return true;
}

void Timeline::launch(std::shared_ptr<const GraphState> graph, StreamState &stream) {
  ++counts["graphs"];
  if (graph->nodes.empty())
    return;
  auto run = std::make_shared<GraphRun>();
  run->left = graph->nodes.size();
  for (const GraphState::Node &node : graph->nodes) {
    if (node.after.empty())
      run->open.push_back(run->missing.size());
    run->missing.push_back(node.after.size());
  }
  run->graph = std::move(graph);
  StreamState::Task task;
  task.graph = std::move(run);
  stream.tasks.push_back(std::move(task));
}

void Timeline::beginCapture(StreamState &stream, GraphState *graph) {
  graph->origin = &stream;
  graph->members.insert(&stream);
  graph->thread = std::this_thread::get_id();
  stream.capture = graph;
  stream.last.clear();
  captures.insert(graph);
}

bool Timeline::endCapture(GraphState &graph) {
  std::set<size_t> seen;
  std::vector<size_t> open = graph.origin->last;
  while (!open.empty()) {
    size_t n = open.back();
    open.pop_back();
    if (seen.insert(n).second)
      open.insert(open.end(), graph.nodes[n].after.begin(), graph.nodes[n].after.end());
  }
  for (StreamState *member : graph.members) {
    member->capture = nullptr;
    member->last.clear();
  }
  for (EventState *event : events)
    if (event->capture == &graph)
      event->capture = nullptr;
  captures.erase(&graph);
  return seen.size() == graph.nodes.size();
}

bool Timeline::breakCaptureOfThread() {
  bool any = false;
  for (GraphState *graph : captures)
    if (graph->thread == std::this_thread::get_id())
      any = graph->isBroken = true;
  return any;
}

} // namespace emulated
