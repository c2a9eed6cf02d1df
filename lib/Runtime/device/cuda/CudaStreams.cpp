// SPDX-License-Identifier: Apache-2.0
// Streams, events and graphs by the driver.
#include "CudaStreams.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace autopar::runtime::cuda {

using artifact::kQueueCount;
using artifact::Queue;

CudaStreams::~CudaStreams() {
  if (!gpu->select().isOk())
    return;
  finish();
  for (auto &[token, recorded] : events)
    calls.eventDestroy(recorded.event);
  for (auto &[token, event] : starts)
    calls.eventDestroy(event);
  if (clockStart)
    calls.eventDestroy(clockStart);
  for (const std::vector<Event> *unused : {&freeEvents, &freeClocks})
    for (Event event : *unused)
      calls.eventDestroy(event);
  for (Stream stream : streams)
    if (stream)
      calls.streamDestroy(stream);
  if (marks)
    calls.memFreeHost(marks);
  if (numbers)
    calls.memFree(numbers);
}

void CudaStreams::finish() {
  for (Stream stream : streams)
    if (stream)
      calls.streamSynchronize(stream);
  dropGraphs();
}

void CudaStreams::dropGraphs() {
  abandon();
  for (GraphExec graph : graphs)
    calls.graphExecDestroy(graph);
  graphs.clear();
}

Result<Stream> CudaStreams::at(size_t index) {
  if (!streams[index])
    AUTOPAR_RETURN_IF_ERROR(
        gpu->check(calls.streamCreate(&streams[index], kStreamNonBlocking), "cuStreamCreate"));
  return streams[index];
}

Status CudaStreams::wait(Stream stream, Token token) {
  auto found = events.find(token);
  if (found == events.end())
    return Status::internal("the CUDA device knows no token " + std::to_string(token));
  // A graph would get an edge for it, beside the one to what came last.
  if (found->second.stream == stream)
    return Status::ok();
  return gpu->check(calls.streamWaitEvent(stream, found->second.event, 0), "cuStreamWaitEvent");
}

size_t CudaStreams::add() {
  streams.push_back(nullptr);
  return streams.size() - 1;
}

Result<Stream> CudaStreams::behind(size_t index, std::span<const Token> after) {
  auto stream = at(index);
  if (!stream)
    return stream.status();
  if (captures && !hasJoined[index]) {
    AUTOPAR_RETURN_IF_ERROR(wait(*stream, forked));
    hasJoined[index] = true;
  }
  for (Token token : after)
    AUTOPAR_RETURN_IF_ERROR(wait(*stream, token));
  return stream;
}

Result<Event> CudaStreams::freeEvent(std::vector<Event> &from, unsigned flags) {
  Event event = nullptr;
  if (from.empty()) {
    AUTOPAR_RETURN_IF_ERROR(gpu->check(calls.eventCreate(&event, flags), "cuEventCreate"));
  } else {
    event = from.back();
    from.pop_back();
  }
  return event;
}

Status CudaStreams::startClock(Stream stream) {
  if (!isTiming || captures)
    return Status::ok();
  auto event = freeEvent(freeClocks, kEventDefault);
  if (!event)
    return event.status();
  clockStart = *event;
  return gpu->check(calls.eventRecord(clockStart, stream), "cuEventRecord");
}

/// What was timed up to `end`, which has been passed.
Status CudaStreams::readClock(Token token, Event end) {
  duration.reset();
  auto start = starts.find(token);
  if (start == starts.end())
    return Status::ok();
  float milliseconds = 0;
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.eventElapsedTime(&milliseconds, start->second, end), "cuEventElapsedTime"));
  duration = int64_t(double(milliseconds) * 1e6);
  freeClocks.push_back(start->second);
  starts.erase(start);
  return Status::ok();
}

Result<Token> CudaStreams::record(Stream stream) {
  auto event = clockStart ? freeEvent(freeClocks, kEventDefault)
                          : freeEvent(freeEvents, kEventDisableTiming);
  if (!event)
    return event.status();
  events.emplace(++lastToken, Recorded{*event, stream});
  if (clockStart)
    starts.emplace(lastToken, std::exchange(clockStart, nullptr));
  if (captures)
    captured.push_back(lastToken);
  AUTOPAR_RETURN_IF_ERROR(gpu->check(calls.eventRecord(*event, stream), "cuEventRecord"));
  return lastToken;
}

Result<bool> CudaStreams::test(Token token) {
  auto found = events.find(token);
  if (found == events.end())
    return Status::internal("the CUDA device knows no token " + std::to_string(token));
  Event event = found->second.event;
  DriverError state = calls.eventQuery(event);
  if (state == DriverError::NotReady)
    return false;
  // Errors of kernels come to light here.
  AUTOPAR_RETURN_IF_ERROR(gpu->check(state, "an instruction failed on the GPU"));
  bool isTimed = starts.count(token);
  AUTOPAR_RETURN_IF_ERROR(readClock(token, event));
  (isTimed ? freeClocks : freeEvents).push_back(event);
  events.erase(found);
  return true;
}

// ---- Capture

/// Numbers are copied from the GPU: no document says that a graph may set memory of the host. On
/// streams of their own, so that no kernel waits for a copy.
Status CudaStreams::createMarks() {
  auto stream = ofHost();
  if (!stream)
    return stream.status();
  void *address = nullptr;
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.memHostAlloc(&address, kQueueCount * sizeof(int32_t), kHostAllocPortable),
                 "cuMemHostAlloc"));
  marks = static_cast<int32_t *>(address);
  firstOfMarks = streams.size();
  streams.resize(streams.size() + kQueueCount);
  std::array<int32_t, kMostMarks + 1> all;
  std::iota(all.begin(), all.end(), 0);
  AUTOPAR_RETURN_IF_ERROR(gpu->check(calls.memAlloc(&numbers, sizeof(all)), "cuMemAlloc"));
  AUTOPAR_RETURN_IF_ERROR(gpu->check(
      calls.memcpyAsync(numbers, DevicePointer(uintptr_t(all.data())), sizeof(all), *stream),
      "cuMemcpyAsync"));
  return gpu->check(calls.streamSynchronize(*stream), "cuStreamSynchronize");
}

Status CudaStreams::begin() {
  AUTOPAR_RETURN_IF_ERROR(gpu->select());
  if (!marks)
    AUTOPAR_RETURN_IF_ERROR(createMarks());
  // Nothing that is recorded has to make its stream first.
  for (size_t index = 0; index < streams.size(); ++index)
    if (auto stream = at(index); !stream)
      return stream.status();
  auto origin = of(kOrigin);
  // Other ranks' threads may allocate meanwhile.
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.streamBeginCapture(*origin, kCaptureThreadLocal), "cuStreamBeginCapture"));
  captures = true;
  hasJoined.assign(streams.size(), false);
  hasJoined[size_t(kOrigin)] = true;
  auto fork = record(*origin);
  if (!fork)
    return fork.status();
  forked = *fork;
  return Status::ok();
}

Status CudaStreams::join() {
  Stream origin = streams[size_t(kOrigin)];
  for (size_t index = 0; index < hasJoined.size(); ++index) {
    if (!hasJoined[index] || streams[index] == origin)
      continue;
    auto last = record(streams[index]);
    if (!last)
      return last.status();
    AUTOPAR_RETURN_IF_ERROR(wait(origin, *last));
    hasJoined[index] = false;
  }
  auto fork = record(origin);
  if (!fork)
    return fork.status();
  forked = *fork;
  return Status::ok();
}

Status CudaStreams::mark(Queue queue, int32_t number, std::span<const Token> after) {
  auto stream = behind(firstOfMarks + size_t(queue), after);
  if (!stream)
    return stream.status();
  return gpu->check(calls.memcpyAsync(DevicePointer(uintptr_t(marks + size_t(queue))),
                                      numbers + DevicePointer(number) * sizeof(int32_t),
                                      sizeof(int32_t), *stream),
                    "cuMemcpyAsync");
}

DriverError CudaStreams::endCapture(Graph &graph) {
  captures = false;
  DriverError error = calls.streamEndCapture(streams[size_t(kOrigin)], &graph);
  for (Token token : captured) {
    freeEvents.push_back(events.at(token).event);
    events.erase(token);
  }
  captured.clear();
  return error;
}

void CudaStreams::abandon() {
  Graph graph = nullptr;
  // One that broke leaves no graph.
  if (captures && endCapture(graph) == DriverError::Success)
    calls.graphDestroy(graph);
}

Result<int32_t> CudaStreams::end() {
  AUTOPAR_RETURN_IF_ERROR(join());
  Graph graph = nullptr;
  AUTOPAR_RETURN_IF_ERROR(gpu->check(endCapture(graph), "cuStreamEndCapture"));
  GraphExec made = nullptr;
  Status status =
      gpu->check(calls.graphInstantiate(&made, graph, 0), "cuGraphInstantiateWithFlags");
  calls.graphDestroy(graph);
  AUTOPAR_RETURN_IF_ERROR(status);
  graphs.push_back(made);
  return int32_t(graphs.size() - 1);
}

Result<Token> CudaStreams::launch(int32_t graph) {
  AUTOPAR_RETURN_IF_ERROR(gpu->select());
  std::fill_n(marks, kQueueCount, 0);
  auto origin = of(kOrigin);
  if (!origin)
    return origin.status();
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.graphLaunch(graphs[size_t(graph)], *origin), "cuGraphLaunch"));
  return record(*origin);
}

} // namespace autopar::runtime::cuda
