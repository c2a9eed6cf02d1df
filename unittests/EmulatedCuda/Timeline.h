// SPDX-License-Identifier: Apache-2.0
// Streams and events. Nothing runs when it is enqueued: work waits until somebody asks about a
// stream or event, and then runs in an order that is drawn at random among those that streams and
// events allow. A missing wait shows as a wrong result.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace emulated {

/// A piece of work; returns the driver's number of an error.
using Work = std::function<int()>;

struct EventState;
struct StreamState;

/// What a capture records: work and the nodes it comes after.
struct GraphState {
  struct Node {
    Work work;
    std::vector<size_t> after;
  };
  std::vector<Node> nodes;
  StreamState *origin = nullptr;
  std::set<StreamState *> members;
  bool isBroken = false;
};

struct EventState {
  uint64_t recorded = 0, done = 0;
  GraphState *capture = nullptr; ///< recorded while capturing, after `node`s
  std::vector<size_t> nodes;
};

struct StreamState {
  struct Task {
    Work work;                   ///< or
    EventState *event = nullptr; ///< the event that is recorded or waited for
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

  void enqueue(StreamState &stream, Work work);
  void record(EventState &event, StreamState &stream);
  void wait(StreamState &stream, EventState &event);
  /// Runs a little of what may run.
  void progress();
  /// Runs until a stream or an event is done; false when it cannot be.
  bool finish(StreamState &stream);
  bool isDone(const EventState &event) const { return event.done >= event.recorded; }
  void launch(const GraphState &graph, StreamState &stream);

  /// The first error of anything that ran: the GPU stays broken after it.
  int error = 0;
  std::set<StreamState *> streams;
  std::set<EventState *> events;

private:
  Timeline();
  bool runOne(StreamState *only);
  bool canRun(const StreamState &stream) const;
  std::mt19937_64 random;
};

} // namespace emulated
