// SPDX-License-Identifier: Apache-2.0
// Streams, events and graphs. Nothing runs when it is enqueued: work waits until somebody asks
// about a stream or event, and then runs in an order that is drawn at random among those that
// streams, events and graphs allow. A missing wait shows as a wrong result.
#pragma once

#include "Emulation.h"

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace emulated {

struct EventState;
struct StreamState;

/// What a capture records: work and the nodes it comes after.
struct GraphState {
  struct Node {
    Work work;
    Ready isReady;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
  StreamState *origin = nullptr;
  std::set<StreamState *> members;
  std::thread::id thread; ///< whose capture it is
  bool isBroken = false;
};

/// A launch of a graph that is under way.
struct GraphRun {
  std::shared_ptr<const GraphState> graph;
  std::vector<size_t> missing; ///< per node: how many before it have not run
  std::vector<size_t> open;    ///< nodes that nothing is before
  size_t left = 0;
};

struct EventState {
  uint64_t recorded = 0, done = 0;
  bool isTimed = true; ///< it tells when it was passed
  uint64_t passedMs = 0;
  GraphState *capture = nullptr; ///< recorded while capturing, after `node`s
  std::vector<size_t> nodes;
};

struct StreamState {
  struct Task {
    Work work;                       ///< or
    std::shared_ptr<GraphRun> graph; ///< or
    EventState *event = nullptr;     ///< the event that is recorded or waited for
    Ready isReady = {};
    uint64_t version = 0;
    bool waits = false;
  };
  std::deque<Task> tasks;
  GraphState *capture = nullptr;
  std::vector<size_t> last; ///< nodes that the next one comes after
};

/// One for the process.
class Timeline {
public:
  static Timeline &get();
  std::recursive_mutex mutex; ///< guards everything of the emulation

  void enqueue(const char *kind, StreamState &stream, Work work, Ready isReady = {});
  void record(EventState &event, StreamState &stream);
  /// Returns the driver's number of an error.
  int wait(StreamState &stream, EventState &event);
  /// Runs a little of what may run.
  void progress();
  /// Runs until a stream is done; false when nothing more can run.
  bool finish(StreamState &stream);
  bool isDone(const EventState &event) const { return event.done >= event.recorded; }
  /// Whether some work only waits until others are ready for it.
  bool awaitsOthers();
  void launch(std::shared_ptr<const GraphState> graph, StreamState &stream);

  void beginCapture(StreamState &stream, GraphState *graph);
  /// Whether every node is before the last ones of the stream where the capture began.
  bool endCapture(GraphState &graph);
  /// What no capture allows ends those of this thread; whether there are any.
  bool breakCaptureOfThread();

  /// The first error of anything that ran: the GPU stays broken after it.
  int error = 0;
  std::set<StreamState *> streams;
  std::set<EventState *> events;
  std::map<std::string, uint64_t> counts; ///< what was given to streams, by kind
  uint64_t nowMs = 0;                     ///< by the GPU's clock: all work takes a millisecond

private:
  struct Choice {
    StreamState *stream;
    size_t open; ///< of a graph's nodes that are open
  };
  Timeline();
  bool runOne(StreamState *only);
  void addChoices(StreamState &stream, std::vector<Choice> &choices, bool &awaits);
  void runWork(const Work &work);
  std::set<GraphState *> captures;
  std::mt19937_64 random;
};

} // namespace emulated
