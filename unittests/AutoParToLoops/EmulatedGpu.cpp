// SPDX-License-Identifier: Apache-2.0
// See EmulatedGpu.h.
#include "EmulatedGpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>

namespace autopar::test {
namespace {

using Address = unsigned long long;

/// The calls of the driver that are used here, by the names of its C interface.
struct Driver {
  void *library = dlopen(EMULATED_CUDA "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  int (*init)(unsigned) = find<int(unsigned)>("cuInit");
  int (*retain)(void **, int) = find<int(void **, int)>("cuDevicePrimaryCtxRetain");
  int (*select)(void *) = find<int(void *)>("cuCtxSetCurrent");
  int (*load)(void **, const void *, unsigned, int *, void **) =
      find<int(void **, const void *, unsigned, int *, void **)>("cuModuleLoadDataEx");
  int (*unload)(void *) = find<int(void *)>("cuModuleUnload");
  int (*getFunction)(void **, void *, const char *) =
      find<int(void **, void *, const char *)>("cuModuleGetFunction");
  int (*setAttribute)(void *, int, int) = find<int(void *, int, int)>("cuFuncSetAttribute");
  int (*allocate)(Address *, size_t) = find<int(Address *, size_t)>("cuMemAlloc_v2");
  int (*release)(Address) = find<int(Address)>("cuMemFree_v2");
  int (*copy)(Address, Address, size_t,
              void *) = find<int(Address, Address, size_t, void *)>("cuMemcpyAsync");
  int (*createStream)(void **, unsigned) = find<int(void **, unsigned)>("cuStreamCreate");
  int (*synchronize)(void *) = find<int(void *)>("cuStreamSynchronize");
  int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                void *, void **, void **) =
      find<int(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *,
               void **, void **)>("cuLaunchKernel");
  int (*describe)(int, const char **) = find<int(int, const char **)>("cuGetErrorString");
  void *stream = nullptr;

  Driver() {
    setenv("AUTOPAR_EMULATED_CUDA_RACECHECK", "1", /*overwrite=*/0);
    void *context = nullptr;
    expect(init(0), "cuInit");
    expect(retain(&context, 0), "cuDevicePrimaryCtxRetain");
    expect(select(context), "cuCtxSetCurrent");
    expect(createStream(&stream, 1), "cuStreamCreate");
  }
  void expect(int error, const std::string &what) {
    const char *text = "";
    if (error)
      describe(error, &text);
    EXPECT_EQ(error, 0) << what << ": " << text;
  }

private:
  template <typename Signature>
  Signature *find(const char *name) {
    void *symbol = library ? dlsym(library, name) : nullptr;
    EXPECT_NE(symbol, nullptr) << name << ": " << (library ? "missing" : dlerror());
    if (!symbol)
      std::abort(); // nothing can be tested
    return reinterpret_cast<Signature *>(symbol);
  }
};

Driver &driver() {
  static Driver one;
  return one;
}

} // namespace

EmulatedGpu::EmulatedGpu(const std::string &ptx) {
  driver().expect(driver().load(&module, ptx.c_str(), 0, nullptr, nullptr), "loading the PTX");
}

EmulatedGpu::~EmulatedGpu() {
  if (module)
    driver().unload(module);
}

void EmulatedGpu::launch(const std::string &kernel, const GpuLaunch &shape,
                         const std::vector<GpuArgument> &arguments) {
  Driver &cuda = driver();
  void *function = nullptr;
  cuda.expect(cuda.getFunction(&function, module, kernel.c_str()), kernel);
  std::vector<Address> addresses(arguments.size());
  std::vector<void *> pointers;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const GpuArgument &argument = arguments[i];
    cuda.expect(cuda.allocate(&addresses[i], std::max<size_t>(argument.bytes, 1)), "cuMemAlloc");
    if (argument.bytes)
      cuda.expect(cuda.copy(addresses[i], Address(argument.host), argument.bytes, cuda.stream),
                  "copying to the device");
    pointers.push_back(&addresses[i]);
  }
  constexpr int maxDynamicSharedBytes = 8;
  cuda.expect(cuda.setAttribute(function, maxDynamicSharedBytes, int(shape.sharedBytes)),
              "shared memory of " + kernel);
  cuda.expect(cuda.launch(function, unsigned(shape.blocks), 1, 1, unsigned(shape.threads), 1, 1,
                          unsigned(shape.sharedBytes), cuda.stream, pointers.data(), nullptr),
              "launching " + kernel);
  cuda.expect(cuda.synchronize(cuda.stream), "running " + kernel);
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].bytes)
      cuda.expect(
          cuda.copy(Address(arguments[i].host), addresses[i], arguments[i].bytes, cuda.stream),
          "copying back");
    cuda.expect(cuda.synchronize(cuda.stream), "copying back");
    cuda.release(addresses[i]);
  }
}

} // namespace autopar::test
