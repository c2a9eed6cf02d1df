// SPDX-License-Identifier: Apache-2.0
// The driver's functions: modules and launches of kernels.
#include "DriverState.h"

#include <cstdio>
#include <cstring>
#include <stdexcept>

using namespace autopar::runtime::cuda;
using namespace emulated;

namespace {

std::set<ModuleRecord *> modules;
std::set<FunctionRecord *> functions;

std::string versionText(int v) {
  return std::to_string(v / 1000) + "." + std::to_string(v % 1000 / 10);
}

/// The newest PTX that a driver takes.
int newestPtx(int driver) {
  return driver / 1000 <= 11   ? 70 + driver % 1000 / 10
         : driver / 1000 == 12 ? 80 + driver % 1000 / 10
                               : 90;
}

} // namespace

EXPORTED cuModuleLoadDataEx(Module *module, const void *image, unsigned count, const int *names,
                            void **values) {
  Call call;
  if (call.isBad() || call.isUnsafe())
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
  // The driver of CUDA 12 refuses what ptxas of CUDA 13 makes; this one runs no machine code.
  if (std::memcmp(text, "\177ELF", 4) == 0) {
    say("machine code");
    return driverVersion() < 13000 ? DriverError::InvalidImage : DriverError::NoBinaryForDevice;
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
  if (call.isUnsafe())
    return call.state;
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
  int rest = kSharedBytesPerBlock - int(found->second.sharedBytes);
  auto [own, isNew] =
      module->functions.try_emplace(name, FunctionRecord{module, &found->second, rest});
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
      value + int(function->kernel->sharedBytes) > mostSharedBytesPerBlock()) {
    complain("kernel " + function->kernel->name + " cannot have " + std::to_string(value) +
             " dynamic shared bytes beside its static ones");
    return DriverError::InvalidValue;
  }
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
  Timeline::get().enqueue("kernels", *stream, [=, &kernel] {
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
