// SPDX-License-Identifier: Apache-2.0
// The driver's functions: captures and graphs.
#include "DriverState.h"

using namespace autopar::runtime::cuda;
using namespace emulated;

namespace {

std::set<GraphRecord *> graphs;
std::set<GraphExecRecord *> graphExecs;

} // namespace

EXPORTED cuStreamBeginCapture_v2(Stream stream, int mode) {
  Call call;
  if (call.isBad())
    return call.state;
  if (mode != kCaptureThreadLocal) {
    complain("only captures of a thread are emulated");
    return DriverError::InvalidValue;
  }
  if (!isStream(stream) || stream->capture)
    return DriverError::InvalidValue;
  Timeline::get().beginCapture(*stream, new GraphRecord);
  return DriverError::Success;
}
EXPORTED cuStreamEndCapture(Stream stream, Graph *graph) {
  Call call;
  if (call.isBad())
    return call.state;
  *graph = nullptr;
  if (!isStream(stream) || !stream->capture || stream->capture->origin != stream)
    return DriverError::InvalidValue;
  if (stream->capture->thread != std::this_thread::get_id())
    return DriverError::CaptureWrongThread;
  auto *own = static_cast<GraphRecord *>(stream->capture);
  bool isJoined = Timeline::get().endCapture(*own);
  if (own->isBroken || !isJoined) {
    DriverError why =
        own->isBroken ? DriverError::CaptureInvalidated : DriverError::CaptureUnjoined;
    delete own;
    return why;
  }
  graphs.insert(own);
  *graph = own;
  return DriverError::Success;
}
EXPORTED cuGraphInstantiateWithFlags(GraphExec *exec, Graph graph, unsigned long long) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!exists(graphs, graph))
    return DriverError::InvalidHandle;
  *exec = new GraphExecRecord{std::make_shared<GraphState>(*graph)};
  graphExecs.insert(*exec);
  return DriverError::Success;
}
EXPORTED cuGraphLaunch(GraphExec exec, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!exists(graphExecs, exec) || !isStream(stream))
    return DriverError::InvalidHandle;
  if (stream->capture) {
    complain("graphs within graphs are not emulated");
    return DriverError::InvalidValue;
  }
  Timeline::get().launch(exec->graph, *stream);
  return DriverError::Success;
}
EXPORTED cuGraphExecDestroy(GraphExec exec) {
  Call call;
  if (!graphExecs.erase(exec))
    return DriverError::InvalidHandle;
  // Its launches go on; the last one frees what it holds.
  delete exec;
  return DriverError::Success;
}
EXPORTED cuGraphDestroy(Graph graph) {
  Call call;
  if (!graphs.erase(graph))
    return DriverError::InvalidHandle;
  delete graph;
  return DriverError::Success;
}
