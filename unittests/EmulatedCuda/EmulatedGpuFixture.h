// SPDX-License-Identifier: Apache-2.0
// What tests of the emulated GPU itself share: its driver's calls, and kernels of a few lines that
// run or are refused.
#pragma once

#include "../../lib/Runtime/device/cuda/Gpu.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace autopar::testing {

using namespace runtime::cuda;

struct GridShape {
  unsigned blocks = 1, threads = 32;
};

class EmulatedGpu : public ::testing::Test {
protected:
  void SetUp() override {
    auto libraries = CudaLibraries::open(EMULATED_CUDA);
    ASSERT_TRUE(libraries.isOk()) << libraries.status().message();
    auto opened = Gpu::open(*libraries, 0);
    ASSERT_TRUE(opened.isOk()) << opened.status().message();
    gpu = opened.take();
    ASSERT_TRUE(gpu->select().isOk());
    expect(calls().streamCreate(&stream, kStreamNonBlocking));
  }
  const DriverCalls &calls() { return gpu->calls(); }
  void expect(DriverError error) {
    Status status = gpu->check(error, "call");
    EXPECT_TRUE(status.isOk()) << status.message();
  }
  Module load(const std::string &ptx) {
    Module module = nullptr;
    expect(calls().moduleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr));
    return module;
  }
  Function function(Module module, const char *name) {
    Function found = nullptr;
    expect(calls().moduleGetFunction(&found, module, name));
    return found;
  }
  template <typename T>
  DevicePointer give(const std::vector<T> &values) {
    DevicePointer address = 0;
    expect(calls().memAlloc(&address, values.size() * sizeof(T)));
    expect(calls().memcpyAsync(address, DevicePointer(values.data()), values.size() * sizeof(T),
                               stream));
    return address;
  }
  template <typename T>
  std::vector<T> take(DevicePointer address, size_t count) {
    std::vector<T> values(count);
    expect(calls().memcpyAsync(DevicePointer(values.data()), address, count * sizeof(T), stream));
    expect(calls().streamSynchronize(stream));
    return values;
  }
  DriverError launch(Function kernel, unsigned blocks, unsigned threads, unsigned shared,
                     std::vector<DevicePointer> arguments) {
    std::vector<void *> pointers;
    for (DevicePointer &argument : arguments)
      pointers.push_back(&argument);
    return calls().launchKernel(kernel, blocks, 1, 1, threads, 1, 1, shared, stream,
                                pointers.data(), nullptr);
  }
  /// Launches a kernel of one parameter, and how that ends.
  DriverError outcome(const std::string &body, DevicePointer argument = 0,
                      GridShape shape = GridShape()) {
    std::string ptx =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 k_p)\n{\n" +
        body + "\nret;\n}\n";
    Module module = nullptr;
    DriverError loaded = calls().moduleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr);
    if (loaded != DriverError::Success)
      return loaded;
    expect(launch(function(module, "k"), shape.blocks, shape.threads, 0, {argument}));
    return calls().streamSynchronize(stream);
  }

  std::shared_ptr<Gpu> gpu;
  Stream stream = nullptr;
};

/// Each in a process of its own: the GPU is broken afterwards, as a real one is.
class EmulatedFault : public EmulatedGpu {
protected:
  /// Registers of a kernel whose first one points to 128 bytes of global memory.
  static std::string withRegisters(const std::string &body) {
    return ".reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n.reg .pred %p<3>;\nld.param.u64 %rd1, [k_p];\n" +
           body;
  }
  void accepts(const std::string &body, GridShape shape = GridShape()) {
    EXPECT_EQ(outcome(withRegisters(body), give(std::vector<float>(32)), shape),
              DriverError::Success);
  }
  void refuses(const std::string &body, DriverError expected, const char *why,
               bool afterFree = false, GridShape shape = GridShape()) {
    EXPECT_EXIT(
        {
          DevicePointer memory = give(std::vector<float>(32));
          if (afterFree)
            expect(calls().memFree(memory));
          DriverError error = outcome(withRegisters(body), memory, shape);
          std::fprintf(stderr, "error %d", int(error));
          // It stays broken.
          Stream other = nullptr;
          std::exit(error == expected && calls().streamCreate(&other, 0) == expected &&
                            !HasFailure()
                        ? 0
                        : 1);
        },
        ::testing::ExitedWithCode(0), why);
  }
};

} // namespace autopar::testing
