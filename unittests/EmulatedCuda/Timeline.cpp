// SPDX-License-Identifier: Apache-2.0
// The order of work.
#include "Timeline.h"

#include "DeviceMemory.h"

namespace emulated {

Timeline &Timeline::get() {
  static Timeline *timeline = new Timeline;
  return *timeline;
}

Timeline::Timeline() : random(setting("AUTOPAR_EMULATED_CUDA_SEED", 1)) {}

void Timeline::enqueue(StreamState &stream, Work work) {
  if (!stream.capture) {
    stream.tasks.push_back({std::move(work)});
    return;
  }
  stream.capture->nodes.push_back({std::move(work), stream.last});
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

void Timeline::wait(StreamState &stream, EventState &event) {
  if (event.capture) {
    // The stream joins the capture.
    stream.capture = event.capture;
    event.capture->members.insert(&stream);
    stream.last.insert(stream.last.end(), event.nodes.begin(), event.nodes.end());
    return;
  }
  if (stream.capture) {
    // Work outside of a capture is not part of it.
    stream.capture->isBroken = true;
    return;
  }
  StreamState::Task task;
  task.event = &event;
  task.version = event.recorded;
  task.waits = true;
  stream.tasks.push_back(std::move(task));
}

bool Timeline::canRun(const StreamState &stream) const {
  if (stream.tasks.empty())
    return false;
  const StreamState::Task &task = stream.tasks.front();
  return !task.waits || !events.count(task.event) || task.event->done >= task.version;
}

bool Timeline::runOne(StreamState *only) {
  std::vector<StreamState *> ready;
  for (StreamState *stream : streams)
    if (canRun(*stream) && (!only || stream == only))
      ready.push_back(stream);
  if (ready.empty())
    return only ? runOne(nullptr) : false;
  StreamState &stream = *ready[random() % ready.size()];
  StreamState::Task task = std::move(stream.tasks.front());
  stream.tasks.pop_front();
  if (task.work) {
    int result = error ? 0 : task.work();
    if (result && !error)
      error = result;
  } else if (!task.waits && events.count(task.event)) {
    task.event->done = task.version;
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

void Timeline::launch(const GraphState &graph, StreamState &stream) {
  enqueue(stream, [this, &graph]() {
    std::vector<size_t> missing(graph.nodes.size());
    std::vector<size_t> ready;
    for (size_t n = 0; n < graph.nodes.size(); ++n) {
      missing[n] = graph.nodes[n].after.size();
      if (!missing[n])
        ready.push_back(n);
    }
    while (!ready.empty()) {
      size_t pick = random() % ready.size(), n = ready[pick];
      ready[pick] = ready.back();
      ready.pop_back();
      if (int failed = graph.nodes[n].work())
        return failed;
      for (size_t later = n + 1; later < graph.nodes.size(); ++later)
        for (size_t before : graph.nodes[later].after)
          if (before == n && --missing[later] == 0)
            ready.push_back(later);
    }
    return 0;
  });
}

} // namespace emulated
