// SPDX-License-Identifier: Apache-2.0
// The driver's functions: streams and events.
#include "DriverState.h"

#include <chrono>
#include <thread>

using namespace autopar::runtime::cuda;
using namespace emulated;

bool emulated::finishWork(int device) {
  std::lock_guard lock(Timeline::get().mutex);
  bool isDone = true;
  for (StreamState *stream : Timeline::get().streams)
    if (static_cast<StreamRecord *>(stream)->device == device)
      isDone = Timeline::get().finish(*stream) && isDone;
  return isDone;
}

static bool isCaptureBroken(const StreamState &stream) {
  return stream.capture && stream.capture->isBroken;
}

EXPORTED cuStreamCreate(Stream *stream, unsigned) {
  Call call;
  if (call.isBad())
    return call.state;
  *stream = new StreamRecord;
  (*stream)->device = current->device;
  Timeline::get().streams.insert(*stream);
  return DriverError::Success;
}
EXPORTED cuStreamDestroy_v2(Stream stream) {
  Call call;
  if (!Timeline::get().streams.count(stream))
    return DriverError::InvalidHandle;
  Timeline::get().finish(*stream);
  Timeline::get().streams.erase(stream);
  delete stream;
  return DriverError::Success;
}
EXPORTED cuStreamSynchronize(Stream stream) {
  while (true) {
    {
      Call call;
      if (call.isBad())
        return call.state;
      if (!isStream(stream))
        return DriverError::InvalidHandle;
      if (stream->capture) {
        stream->capture->isBroken = true;
        return DriverError::CaptureUnsupported;
      }
      if (Timeline::get().finish(*stream))
        return DriverError(Timeline::get().error);
      if (!Timeline::get().awaitsOthers()) {
        complain("a stream waits for what never comes");
        return DriverError::LaunchFailed;
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}
EXPORTED cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!isStream(stream) || !Timeline::get().events.count(event))
    return DriverError::InvalidHandle;
  if (isCaptureBroken(*stream))
    return DriverError::CaptureInvalidated;
  return DriverError(Timeline::get().wait(*stream, *event));
}
EXPORTED cuEventCreate(Event *event, unsigned flags) {
  Call call;
  if (call.isBad())
    return call.state;
  *event = new EventRecord;
  (*event)->isTimed = !(flags & kEventDisableTiming);
  Timeline::get().events.insert(*event);
  return DriverError::Success;
}
EXPORTED cuEventDestroy_v2(Event event) {
  Call call;
  if (!Timeline::get().events.erase(event))
    return DriverError::InvalidHandle;
  for (StreamState *stream : Timeline::get().streams)
    for (StreamState::Task &task : stream->tasks)
      if (task.event == event) {
        complain("an event is destroyed while a stream has it before it");
        return DriverError::InvalidHandle;
      }
  delete event;
  return DriverError::Success;
}
EXPORTED cuEventRecord(Event event, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!isStream(stream) || !Timeline::get().events.count(event))
    return DriverError::InvalidHandle;
  if (isCaptureBroken(*stream))
    return DriverError::CaptureInvalidated;
  Timeline::get().record(*event, *stream);
  return DriverError::Success;
}
EXPORTED cuEventElapsedTime(float *milliseconds, Event begin, Event end) {
  Call call;
  if (call.isBad())
    return call.state;
  for (Event event : {begin, end}) {
    if (!Timeline::get().events.count(event) || event->recorded == 0)
      return DriverError::InvalidHandle;
    if (!event->isTimed) {
      complain("the time of an event that was made without");
      return DriverError::InvalidHandle;
    }
    if (!Timeline::get().isDone(*event))
      return DriverError::NotReady;
  }
  *milliseconds = float(end->passedMs - begin->passedMs);
  return DriverError::Success;
}
EXPORTED cuEventQuery(Event event) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!Timeline::get().events.count(event))
    return DriverError::InvalidHandle;
  if (event->capture) {
    event->capture->isBroken = true;
    return DriverError::CapturedEvent;
  }
  if (call.isUnsafe())
    return call.state;
  Timeline::get().progress();
  if (Timeline::get().error)
    return DriverError(Timeline::get().error);
  return Timeline::get().isDone(*event) ? DriverError::Success : DriverError::NotReady;
}
