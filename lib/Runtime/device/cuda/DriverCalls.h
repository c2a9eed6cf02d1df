// SPDX-License-Identifier: Apache-2.0
// What is used of the CUDA driver (libcuda.so.1): its C interface, declared here so that building
// needs no toolkit. A test compares the numbers with the toolkit's headers where they are.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autopar::runtime::cuda {

enum class DriverError : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForDevice = 209,
  InvalidPtx = 218,
  UnsupportedPtxVersion = 222,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  MisalignedAddress = 716,
  LaunchFailed = 719,
  NotSupported = 801,
  CaptureUnsupported = 900,
  CaptureInvalidated = 901,
  CaptureMerge = 902,
  CaptureUnjoined = 904,
  CaptureIsolation = 905,
  CapturedEvent = 907,
  CaptureWrongThread = 908,
};

using DevicePointer = unsigned long long;
using DeviceOrdinal = int;
using Context = struct ContextRecord *;
using Module = struct ModuleRecord *;
using Function = struct FunctionRecord *;
using Stream = struct StreamRecord *;
using Event = struct EventRecord *;
using Graph = struct GraphRecord *;
using GraphExec = struct GraphExecRecord *;

constexpr int kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76;
constexpr int kMaxSharedBytesPerBlock = 97; ///< device attribute, with opting in
constexpr int kMaxDynamicSharedBytes = 8;   ///< function attribute
constexpr unsigned kStreamNonBlocking = 1;
constexpr unsigned kEventDefault = 0, kEventDisableTiming = 2;
constexpr unsigned kHostAllocPortable = 1;
constexpr int kCaptureThreadLocal = 1;
/// Options of loading a module.
constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;

// X(result-and-name without prefix, exported symbol, parameters)
#define AUTOPAR_CUDA_DRIVER_CALLS(X)                                                               \
  X(init, cuInit, (unsigned flags))                                                                \
  X(driverGetVersion, cuDriverGetVersion, (int *version))                                          \
  X(deviceGetCount, cuDeviceGetCount, (int *count))                                                \
  X(deviceGet, cuDeviceGet, (DeviceOrdinal * device, int ordinal))                                 \
  X(deviceGetName, cuDeviceGetName, (char *name, int length, DeviceOrdinal device))                \
  X(deviceGetUuid, cuDeviceGetUuid_v2, (unsigned char *uuid, DeviceOrdinal device))                \
  X(deviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, DeviceOrdinal device))   \
  X(primaryContextRetain, cuDevicePrimaryCtxRetain, (Context * context, DeviceOrdinal device))     \
  X(primaryContextRelease, cuDevicePrimaryCtxRelease_v2, (DeviceOrdinal device))                   \
  X(contextSetCurrent, cuCtxSetCurrent, (Context context))                                         \
  X(getErrorName, cuGetErrorName, (DriverError error, const char **name))                          \
  X(getErrorString, cuGetErrorString, (DriverError error, const char **text))                      \
  X(memGetInfo, cuMemGetInfo_v2, (size_t * free, size_t * total))                                  \
  X(memAlloc, cuMemAlloc_v2, (DevicePointer * address, size_t bytes))                              \
  X(memFree, cuMemFree_v2, (DevicePointer address))                                                \
  X(memHostAlloc, cuMemHostAlloc, (void **address, size_t bytes, unsigned flags))                  \
  X(memFreeHost, cuMemFreeHost, (void *address))                                                   \
  X(memsetD8Async, cuMemsetD8Async,                                                                \
    (DevicePointer address, unsigned char value, size_t bytes, Stream stream))                     \
  X(memset2D8Async, cuMemsetD2D8Async,                                                             \
    (DevicePointer address, size_t pitch, unsigned char value, size_t width, size_t height,        \
     Stream stream))                                                                               \
  X(memcpyAsync, cuMemcpyAsync,                                                                    \
    (DevicePointer to, DevicePointer from, size_t bytes, Stream stream))                           \
  X(streamCreate, cuStreamCreate, (Stream * stream, unsigned flags))                               \
  X(streamDestroy, cuStreamDestroy_v2, (Stream stream))                                            \
  X(streamSynchronize, cuStreamSynchronize, (Stream stream))                                       \
  X(streamWaitEvent, cuStreamWaitEvent, (Stream stream, Event event, unsigned flags))              \
  X(eventCreate, cuEventCreate, (Event * event, unsigned flags))                                   \
  X(eventDestroy, cuEventDestroy_v2, (Event event))                                                \
  X(eventRecord, cuEventRecord, (Event event, Stream stream))                                      \
  X(eventQuery, cuEventQuery, (Event event))                                                       \
  X(eventElapsedTime, cuEventElapsedTime, (float *milliseconds, Event begin, Event end))           \
  X(moduleLoadDataEx, cuModuleLoadDataEx,                                                          \
    (Module * module, const void *image, unsigned options, const int *names, void **values))       \
  X(moduleUnload, cuModuleUnload, (Module module))                                                 \
  X(moduleGetFunction, cuModuleGetFunction,                                                        \
    (Function * function, Module module, const char *name))                                        \
  X(functionSetAttribute, cuFuncSetAttribute, (Function function, int attribute, int value))       \
  X(launchKernel, cuLaunchKernel,                                                                  \
    (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,           \
     unsigned blockY, unsigned blockZ, unsigned sharedBytes, Stream stream, void **arguments,      \
     void **extra))                                                                                \
  X(streamBeginCapture, cuStreamBeginCapture_v2, (Stream stream, int mode))                        \
  X(streamEndCapture, cuStreamEndCapture, (Stream stream, Graph * graph))                          \
  X(graphInstantiate, cuGraphInstantiateWithFlags,                                                 \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                     \
  X(graphLaunch, cuGraphLaunch, (GraphExec exec, Stream stream))                                   \
  X(graphExecDestroy, cuGraphExecDestroy, (GraphExec exec))                                        \
  X(graphDestroy, cuGraphDestroy, (Graph graph))

/// The driver's functions, as they were found.
struct DriverCalls {
#define AUTOPAR_MEMBER(name, symbol, parameters) DriverError(*name) parameters = nullptr;
  AUTOPAR_CUDA_DRIVER_CALLS(AUTOPAR_MEMBER)
#undef AUTOPAR_MEMBER
};

} // namespace autopar::runtime::cuda
