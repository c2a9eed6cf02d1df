// SPDX-License-Identifier: Apache-2.0
// Recorded events: of the ranks of this process, and on rank 0 those that the other processes sent.
#include "SessionState.h"

#include <cstring>
#include <limits>

namespace autopar::runtime {
namespace {

constexpr int32_t kEventsTag = 0x50000000;

/// What precedes a rank's events on the wire.
struct EventsHeader {
  int64_t count = 0;
  int64_t wallMinusSteadyNs = 0; ///< steady clocks of two machines have nothing in common
};

int64_t wallMinusSteadyNs() {
  using std::chrono::duration_cast;
  using std::chrono::nanoseconds;
  return duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count() -
         duration_cast<nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

Status Session::State::sendEvents(LocalRank &rank) {
  const std::vector<ExecutionEvent> &events = rank.executor->events();
  EventsHeader header{int64_t(events.size()), wallMinusSteadyNs()};
  auto *begin = reinterpret_cast<const uint8_t *>(&header);
  AUTOPAR_RETURN_IF_ERROR(sendBytes(rank, 0, kEventsTag, {begin, begin + sizeof(header)}));
  begin = reinterpret_cast<const uint8_t *>(events.data());
  return sendBytes(rank, 0, kEventsTag, {begin, begin + events.size() * sizeof(ExecutionEvent)});
}

Status Session::State::receiveEvents(LocalRank &root, int32_t other) {
  EventsHeader header;
  auto bytes = receiveBytes(root, other, kEventsTag, sizeof(header));
  if (!bytes)
    return bytes.status();
  std::memcpy(&header, bytes->data(), sizeof(header));
  constexpr int64_t most = std::numeric_limits<int64_t>::max() / int64_t(sizeof(ExecutionEvent));
  if (header.count < 0 || header.count > most)
    return Status::internal("rank " + std::to_string(other) + " announced " +
                            std::to_string(header.count) + " events");
  bytes = receiveBytes(root, other, kEventsTag, size_t(header.count) * sizeof(ExecutionEvent));
  if (!bytes)
    return bytes.status();
  std::vector<ExecutionEvent> &events = eventsElsewhere[other];
  events.resize(size_t(header.count));
  std::memcpy(static_cast<void *>(events.data()), bytes->data(), bytes->size());
  int64_t shift = header.wallMinusSteadyNs - wallMinusSteadyNs();
  for (ExecutionEvent &event : events) {
    event.beginNs += shift;
    event.endNs += shift;
  }
  return Status::ok();
}

Status Session::collectEvents() {
  if (!state->isDistributed)
    return Status::ok();
  return state->drive(
      [&](LocalRank &rank) {
        if (rank.rank != 0)
          return state->sendEvents(rank);
        for (int32_t other = 1; other < state->reader.worldSize(); ++other)
          AUTOPAR_RETURN_IF_ERROR(state->receiveEvents(rank, other));
        return Status::ok();
      },
      [](LocalRank &) { return Status::ok(); });
}

std::vector<RankEvents> Session::events() const {
  std::vector<RankEvents> result;
  for (const LocalRank &rank : state->ranks)
    result.push_back({rank.rank, &rank.executor->events()});
  for (const auto &[rank, events] : state->eventsElsewhere)
    result.push_back({rank, &events});
  return result;
}

void Session::clearEvents() {
  for (LocalRank &rank : state->ranks)
    rank.executor->clearEvents();
  state->eventsElsewhere.clear();
}

} // namespace autopar::runtime
