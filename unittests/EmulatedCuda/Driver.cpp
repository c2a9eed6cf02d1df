// SPDX-License-Identifier: Apache-2.0
// The driver's C functions, for the emulated GPUs. Strict: handles must exist, a context must be
// current, pointers must be allocated.
#include "DeviceMemory.h"
#include "Emulation.h"
#include "Ptx.h"
#include "Timeline.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>

using namespace autopar::runtime::cuda;
using namespace emulated;

namespace autopar::runtime::cuda {

struct ContextRecord {
  int device;
  int uses;
};
struct FunctionRecord {
  ModuleRecord *module;
  const Kernel *kernel;
  int dynamicShared = 48 * 1024;
};
struct ModuleRecord {
  PtxModule ptx;
  std::map<std::string, FunctionRecord> functions;
};
struct StreamRecord : StreamState {
  int device = 0;
};
struct EventRecord : EventState {};
struct GraphRecord : GraphState {};
struct GraphExecRecord {
  GraphState graph;
};

} // namespace autopar::runtime::cuda

namespace {

std::map<int, ContextRecord *> contexts;
std::set<ContextRecord *> liveContexts;
std::set<ModuleRecord *> modules;
std::set<FunctionRecord *> functions;
std::set<GraphRecord *> graphs;
std::set<GraphExecRecord *> graphExecs;
bool isInitialized = false;
thread_local ContextRecord *current = nullptr;

int deviceCount() { return int(setting("AUTOPAR_EMULATED_CUDA_DEVICES", 1)); }
/// A chip that no preset of clusters has: artifacts bring machine code for those.
int chip() { return int(setting("AUTOPAR_EMULATED_CUDA_CHIP", 86)); }
int driverVersion() { return int(setting("AUTOPAR_EMULATED_CUDA_DRIVER", 13000)); }
constexpr int kSharedBytesPerBlock = 227 * 1024;

/// Holds the lock, and says what is wrong before the call itself.
class Call {
public:
  explicit Call(bool needsContext = true) : lock(Timeline::get().mutex) {
    if (!isInitialized)
      state = DriverError::NotInitialized;
    else if (needsContext && (!current || !liveContexts.count(current)))
      state = DriverError::InvalidContext;
    else if (needsContext && Timeline::get().error)
      state = DriverError(Timeline::get().error);
  }
  DriverError state = DriverError::Success;
  bool isBad() const { return state != DriverError::Success; }

private:
  std::lock_guard<std::recursive_mutex> lock;
};

template <typename T>
bool exists(const std::set<T *> &all, T *one) {
  return all.count(one) != 0;
}
bool isStream(Stream stream) {
  bool known = Timeline::get().streams.count(stream) != 0;
  if (!known)
    complain("no such stream");
  else if (stream->device != current->device)
    complain("a stream of another GPU than the context's");
  return known && stream->device == current->device;
}

std::string versionText(int v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

/// The newest PTX that a driver takes.
int newestPtx(int driver) {
  return driver / 1000 <= 11   ? 70 + driver % 1000 / 10
         : driver / 1000 == 12 ? 80 + driver % 1000 / 10
                               : 90;
}

bool isHostMemory(DevicePointer address, size_t bytes, bool &isPinned) {
  isPinned = false;
  if (DeviceMemory::isDeviceAddress(address))
    return false;
  isPinned = DeviceMemory::get().find(address, bytes) != nullptr;
  return true;
}

} // namespace

namespace emulated {

bool enqueueWork(Stream stream, std::function<int()> work) {
  Call call;
  if (call.isBad() || !isStream(stream))
    return false;
  Timeline::get().enqueue(*stream, std::move(work));
  return true;
}
uint8_t *deviceBytes(const void *address, uint64_t bytes) {
  std::lock_guard lock(Timeline::get().mutex);
  return DeviceMemory::get().resolve(uint64_t(address), bytes);
}
int currentDevice() { return current ? current->device : -1; }
void complain(const std::string &text) {
  std::fprintf(stderr, "emulated CUDA: %s\n", text.c_str());
}

} // namespace emulated

#define EXPORTED extern "C" EMULATED_API DriverError

EXPORTED cuInit(unsigned flags) {
  std::lock_guard lock(Timeline::get().mutex);
  if (flags != 0)
    return DriverError::InvalidValue;
  if (deviceCount() == 0)
    return DriverError::NoDevice;
  isInitialized = true;
  return DriverError::Success;
}
EXPORTED cuDriverGetVersion(int *version) {
  *version = driverVersion();
  return DriverError::Success;
}
EXPORTED cuDeviceGetCount(int *count) {
  Call call(false);
  *count = deviceCount();
  return call.state;
}
EXPORTED cuDeviceGet(DeviceOrdinal *device, int ordinal) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (ordinal < 0 || ordinal >= deviceCount())
    return DriverError::InvalidDevice;
  *device = ordinal;
  return DriverError::Success;
}
EXPORTED cuDeviceGetName(char *name, int length, DeviceOrdinal device) {
  Call call(false);
  std::snprintf(name, size_t(length), "emulated GPU");
  return call.isBad()             ? call.state
         : device < deviceCount() ? DriverError::Success
                                  : DriverError::InvalidDevice;
}
EXPORTED cuDeviceGetAttribute(int *value, int attribute, DeviceOrdinal device) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (device < 0 || device >= deviceCount())
    return DriverError::InvalidDevice;
  switch (attribute) {
  case kComputeCapabilityMajor:
    *value = chip() / 10;
    return DriverError::Success;
  case kComputeCapabilityMinor:
    *value = chip() % 10;
    return DriverError::Success;
  case kMaxSharedBytesPerBlock:
    *value = kSharedBytesPerBlock;
    return DriverError::Success;
  }
  complain("attribute " + std::to_string(attribute) + " of GPUs is not known");
  return DriverError::InvalidValue;
}
EXPORTED cuDevicePrimaryCtxRetain(Context *context, DeviceOrdinal device) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (device < 0 || device >= deviceCount())
    return DriverError::InvalidDevice;
  ContextRecord *&own = contexts[device];
  if (!own) {
    own = new ContextRecord{device, 0};
    liveContexts.insert(own);
  }
  ++own->uses;
  *context = own;
  return DriverError::Success;
}
EXPORTED cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) {
  Call call(false);
  auto found = contexts.find(device);
  if (found == contexts.end() || found->second->uses == 0)
    return DriverError::InvalidContext;
  --found->second->uses;
  return DriverError::Success;
}
EXPORTED cuCtxSetCurrent(Context context) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (context && !exists(liveContexts, context))
    return DriverError::InvalidContext;
  current = context;
  return DriverError::Success;
}
EXPORTED cuGetErrorName(DriverError error, const char **name) {
  static const std::map<int, const char *> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                    {100, "CUDA_ERROR_NO_DEVICE"},
                                                    {101, "CUDA_ERROR_INVALID_DEVICE"},
                                                    {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                    {218, "CUDA_ERROR_INVALID_PTX"},
                                                    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                                                    {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                    {500, "CUDA_ERROR_NOT_FOUND"},
                                                    {600, "CUDA_ERROR_NOT_READY"},
                                                    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
                                                    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
                                                    {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                                    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"}};
  auto found = names.find(int(error));
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? DriverError::InvalidValue : DriverError::Success;
}
EXPORTED cuGetErrorString(DriverError, const char **text) {
  *text = "of the emulated GPU";
  return DriverError::Success;
}

// ---- Memory

EXPORTED cuMemGetInfo_v2(size_t *free, size_t *total) {
  Call call;
  if (call.isBad())
    return call.state;
  *free = DeviceMemory::get().freeBytes(current->device);
  *total = DeviceMemory::get().totalBytes();
  return DriverError::Success;
}
EXPORTED cuMemAlloc_v2(DevicePointer *address, size_t bytes) {
  Call call;
  if (call.isBad())
    return call.state;
  if (bytes == 0)
    return DriverError::InvalidValue;
  *address = DeviceMemory::get().allocate(current->device, bytes);
  return *address ? DriverError::Success : DriverError::OutOfMemory;
}
EXPORTED cuMemFree_v2(DevicePointer address) {
  Call call;
  // Freeing waits for all that runs.
  for (StreamState *stream : Timeline::get().streams)
    Timeline::get().finish(*stream);
  return call.isBad()                           ? call.state
         : DeviceMemory::get().release(address) ? DriverError::Success
                                                : DriverError::InvalidValue;
}
EXPORTED cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  Call call;
  if (call.isBad())
    return call.state;
  if (bytes == 0)
    return DriverError::InvalidValue;
  *address = DeviceMemory::get().allocateHost(bytes);
  return *address ? DriverError::Success : DriverError::OutOfMemory;
}
EXPORTED cuMemFreeHost(void *address) {
  Call call;
  for (StreamState *stream : Timeline::get().streams)
    Timeline::get().finish(*stream);
  return call.isBad()                               ? call.state
         : DeviceMemory::get().releaseHost(address) ? DriverError::Success
                                                    : DriverError::InvalidValue;
}
EXPORTED cuMemsetD8Async(DevicePointer address, unsigned char value, size_t bytes, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!isStream(stream) || !DeviceMemory::get().find(address, bytes))
    return DriverError::InvalidValue;
  Timeline::get().enqueue(*stream, [=] {
    uint8_t *at = DeviceMemory::get().resolve(address, bytes);
    if (!at)
      return int(DriverError::IllegalAddress);
    std::memset(at, value, bytes);
    return 0;
  });
  return DriverError::Success;
}
EXPORTED cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  bool toPinned = false, fromPinned = false;
  bool toHost = isHostMemory(to, bytes, toPinned), fromHost = isHostMemory(from, bytes, fromPinned);
  if (!isStream(stream) || bytes == 0)
    return DriverError::InvalidValue;
  if ((!toHost && !DeviceMemory::get().find(to, bytes)) ||
      (!fromHost && !DeviceMemory::get().find(from, bytes))) {
    complain("a copy of " + std::to_string(bytes) + " bytes outside of what is allocated");
    return DriverError::InvalidValue;
  }
  // From pageable memory the driver takes the bytes at once.
  std::shared_ptr<std::vector<uint8_t>> taken;
  if (fromHost && !fromPinned && !stream->capture)
    taken = std::make_shared<std::vector<uint8_t>>(reinterpret_cast<uint8_t *>(from),
                                                   reinterpret_cast<uint8_t *>(from) + bytes);
  Timeline::get().enqueue(*stream, [=] {
    auto at = [&](DevicePointer address, bool isHost) {
      return isHost ? reinterpret_cast<uint8_t *>(address)
                    : DeviceMemory::get().resolve(address, bytes);
    };
    uint8_t *target = at(to, toHost), *source = taken ? taken->data() : at(from, fromHost);
    if (!target || !source)
      return int(DriverError::IllegalAddress);
    std::memmove(target, source, bytes);
    return 0;
  });
  return DriverError::Success;
}

// ---- Streams and events

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
  Call call;
  if (call.isBad())
    return call.state;
  if (!isStream(stream))
    return DriverError::InvalidHandle;
  if (stream->capture) {
    stream->capture->isBroken = true;
    return DriverError::CaptureUnsupported;
  }
  if (!Timeline::get().finish(*stream)) {
    complain("a stream waits for what never comes");
    return DriverError::LaunchFailed;
  }
  return DriverError(Timeline::get().error);
}
EXPORTED cuStreamWaitEvent(Stream stream, Event event, unsigned) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!isStream(stream) || !Timeline::get().events.count(event))
    return DriverError::InvalidHandle;
  Timeline::get().wait(*stream, *event);
  return DriverError::Success;
}
EXPORTED cuEventCreate(Event *event, unsigned) {
  Call call;
  if (call.isBad())
    return call.state;
  *event = new EventRecord;
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
  Timeline::get().record(*event, *stream);
  return DriverError::Success;
}
EXPORTED cuEventQuery(Event event) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!Timeline::get().events.count(event))
    return DriverError::InvalidHandle;
  if (event->capture)
    return DriverError::CaptureUnsupported;
  Timeline::get().progress();
  if (Timeline::get().error)
    return DriverError(Timeline::get().error);
  return Timeline::get().isDone(*event) ? DriverError::Success : DriverError::NotReady;
}

// ---- Modules and kernels

EXPORTED cuModuleLoadDataEx(Module *module, const void *image, unsigned count, const int *names,
                            void **values) {
  Call call;
  if (call.isBad())
    return call.state;
  char *log = nullptr;
  size_t logBytes = 0;
  for (unsigned i = 0; i < count; ++i)
    if (names[i] == kJitErrorLog)
      log = static_cast<char *>(values[i]);
    else if (names[i] == kJitErrorLogBytes)
      logBytes = size_t(values[i]);
  auto say = [&](const std::string &text) {
    if (log && logBytes)
      std::snprintf(log, logBytes, "%s", text.c_str());
  };
  const char *text = static_cast<const char *>(image);
  if (std::memcmp(text, "\177ELF", 4) == 0) {
    say("the emulated GPU runs PTX text, not machine code");
    return DriverError::NoBinaryForDevice;
  }
  auto own = std::make_unique<ModuleRecord>();
  try {
    own->ptx = decodePtx(
        text, [](uint64_t bytes) { return DeviceMemory::get().allocate(current->device, bytes); });
  } catch (const std::exception &error) {
    say(error.what());
    complain(error.what());
    return DriverError::InvalidPtx;
  }
  int version = own->ptx.versionMajor * 10 + own->ptx.versionMinor;
  if (version > newestPtx(driverVersion())) {
    say("PTX " + std::to_string(version) + " with a driver of CUDA " +
        versionText(driverVersion()));
    return DriverError::UnsupportedPtxVersion;
  }
  if (own->ptx.chip > chip()) {
    say("PTX for sm_" + std::to_string(own->ptx.chip) + " on sm_" + std::to_string(chip()));
    return DriverError::NoBinaryForDevice;
  }
  for (auto &[name, variable] : own->ptx.variables)
    std::memcpy(DeviceMemory::get().resolve(variable.address, variable.bytes),
                variable.initial.data(), variable.bytes);
  *module = own.release();
  modules.insert(*module);
  return DriverError::Success;
}
EXPORTED cuModuleUnload(Module module) {
  Call call;
  if (!modules.erase(module))
    return DriverError::InvalidHandle;
  for (StreamState *stream : Timeline::get().streams)
    Timeline::get().finish(*stream);
  for (auto &[name, function] : module->functions)
    functions.erase(&function);
  for (auto &[name, variable] : module->ptx.variables)
    DeviceMemory::get().release(variable.address);
  delete module;
  return DriverError::Success;
}
EXPORTED cuModuleGetFunction(Function *function, Module module, const char *name) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!exists(modules, module))
    return DriverError::InvalidHandle;
  auto found = module->ptx.kernels.find(name);
  if (found == module->ptx.kernels.end())
    return DriverError::NotFound;
  auto [own, isNew] = module->functions.try_emplace(name, FunctionRecord{module, &found->second});
  functions.insert(&own->second);
  *function = &own->second;
  return DriverError::Success;
}
EXPORTED cuFuncSetAttribute(Function function, int attribute, int value) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!exists(functions, function))
    return DriverError::InvalidHandle;
  if (attribute != kMaxDynamicSharedBytes || value < 0 ||
      value + int(function->kernel->sharedBytes) > kSharedBytesPerBlock)
    return DriverError::InvalidValue;
  function->dynamicShared = value;
  return DriverError::Success;
}
EXPORTED cuLaunchKernel(Function function, unsigned gridX, unsigned gridY, unsigned gridZ,
                        unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                        Stream stream, void **arguments, void **extra) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!exists(functions, function) || !isStream(stream))
    return DriverError::InvalidHandle;
  const Kernel &kernel = *function->kernel;
  uint64_t threads = uint64_t(blockX) * blockY * blockZ;
  if (!gridX || !gridY || !gridZ || gridX > 0x7fffffffu || gridY > 65535 || gridZ > 65535 ||
      !threads || extra)
    return DriverError::InvalidValue;
  if (threads > 1024 || threads > kernel.mostThreads ||
      (kernel.requiredThreads && threads != kernel.requiredThreads) ||
      sharedBytes > unsigned(function->dynamicShared)) {
    complain("kernel " + kernel.name + " cannot have blocks of " + std::to_string(threads) +
             " threads with " + std::to_string(sharedBytes) + " shared bytes");
    return threads > 1024 || sharedBytes > unsigned(function->dynamicShared)
               ? DriverError::InvalidValue
               : DriverError::LaunchOutOfResources;
  }
  std::vector<uint8_t> parameters(kernel.parameterBytes);
  for (size_t p = 0; p < kernel.parameters.size(); ++p)
    std::memcpy(parameters.data() + kernel.parameters[p].first, arguments[p],
                kernel.parameters[p].second);
  LaunchShape shape{{gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes};
  ModuleRecord *module = function->module;
  Timeline::get().enqueue(*stream, [=, &kernel] {
    if (!exists(modules, module))
      return int(DriverError::InvalidHandle);
    try {
      runKernel(module->ptx, kernel, shape, parameters);
    } catch (const Fault &fault) {
      complain(fault.text);
      return fault.error;
    }
    return 0;
  });
  return DriverError::Success;
}

// ---- Graphs

EXPORTED cuStreamBeginCapture_v2(Stream stream, int) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!isStream(stream) || stream->capture)
    return DriverError::InvalidValue;
  auto *graph = new GraphRecord;
  graph->origin = stream;
  graph->members.insert(stream);
  stream->capture = graph;
  stream->last.clear();
  return DriverError::Success;
}
EXPORTED cuStreamEndCapture(Stream stream, Graph *graph) {
  Call call;
  if (call.isBad())
    return call.state;
  *graph = nullptr;
  if (!isStream(stream) || !stream->capture || stream->capture->origin != stream)
    return DriverError::InvalidValue;
  auto *own = static_cast<GraphRecord *>(stream->capture);
  // Every node must be before the last ones of the stream where the capture began.
  std::set<size_t> seen;
  std::vector<size_t> open = stream->last;
  while (!open.empty()) {
    size_t n = open.back();
    open.pop_back();
    if (seen.insert(n).second)
      open.insert(open.end(), own->nodes[n].after.begin(), own->nodes[n].after.end());
  }
  for (StreamState *member : own->members) {
    member->capture = nullptr;
    member->last.clear();
  }
  for (EventState *event : Timeline::get().events)
    if (event->capture == own)
      event->capture = nullptr;
  bool isBroken = own->isBroken, isUnjoined = seen.size() != own->nodes.size();
  if (isBroken || isUnjoined) {
    delete own;
    return isBroken ? DriverError::CaptureInvalidated : DriverError::CaptureUnjoined;
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
  *exec = new GraphExecRecord{*graph};
  graphExecs.insert(*exec);
  return DriverError::Success;
}
EXPORTED cuGraphLaunch(GraphExec exec, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!exists(graphExecs, exec) || !isStream(stream))
    return DriverError::InvalidHandle;
  Timeline::get().launch(exec->graph, *stream);
  return DriverError::Success;
}
EXPORTED cuGraphExecDestroy(GraphExec exec) {
  Call call;
  for (StreamState *stream : Timeline::get().streams)
    Timeline::get().finish(*stream);
  if (!graphExecs.erase(exec))
    return DriverError::InvalidHandle;
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

// The functions are what the runtime declares.
#define EMULATED_SAME(name, symbol, parameters)                                                    \
  static_assert(std::is_same_v<decltype(&symbol), decltype(DriverCalls::name)>);
AUTOPAR_CUDA_DRIVER_CALLS(EMULATED_SAME)
