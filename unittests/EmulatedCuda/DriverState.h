// SPDX-License-Identifier: Apache-2.0
// What the driver's functions share: its handles, what exists of them, and the checks before every
// call. Strict: handles must exist, a context must be current, pointers must be allocated.
#pragma once

#include "DeviceMemory.h"
#include "Emulation.h"
#include "Ptx.h"
#include "Timeline.h"

#include <map>
#include <set>

namespace autopar::runtime::cuda {

using emulated::EventState;
using emulated::GraphState;
using emulated::Kernel;
using emulated::PtxModule;
using emulated::StreamState;

struct ContextRecord {
  int device;
  int uses;
};
struct FunctionRecord {
  ModuleRecord *module;
  const Kernel *kernel;
  int dynamicShared; ///< that a launch may ask for
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
  std::shared_ptr<const GraphState> graph;
};

} // namespace autopar::runtime::cuda

namespace emulated {

using namespace autopar::runtime::cuda;

extern std::map<int, ContextRecord *> contexts;
extern std::set<ContextRecord *> liveContexts;
extern bool isInitialized;
extern thread_local ContextRecord *current;

int deviceCount();
int chip();
int driverVersion();
/// Of a block, without asking, and with it.
constexpr int kSharedBytesPerBlock = 48 * 1024;
int mostSharedBytesPerBlock();

/// Holds the lock, and says what is wrong before the call itself.
class Call {
public:
  explicit Call(bool needsContext = true);
  DriverError state = DriverError::Success;
  bool isBad() const { return state != DriverError::Success; }
  /// For calls that may touch what a capture in this thread must not: they end it.
  bool isUnsafe();

private:
  std::lock_guard<std::recursive_mutex> lock;
};

template <typename T>
bool exists(const std::set<T *> &all, T *one) {
  return all.count(one) != 0;
}
/// Whether there is such a stream on the context's GPU.
bool isStream(Stream stream);

} // namespace emulated

#define EXPORTED extern "C" EMULATED_API autopar::runtime::cuda::DriverError

// The functions are what the runtime declares.
namespace autopar::runtime::cuda {
#define EMULATED_DECLARE(name, symbol, parameters) EXPORTED symbol parameters;
AUTOPAR_CUDA_DRIVER_CALLS(EMULATED_DECLARE)
#undef EMULATED_DECLARE
} // namespace autopar::runtime::cuda
