// SPDX-License-Identifier: Apache-2.0
// Compiles kernels given as MLIR text and loads them into the test's process.
#ifndef AUTOPAR_UNITTESTS_KERNELSTOCPU_LOADEDKERNELS_H
#define AUTOPAR_UNITTESTS_KERNELSTOCPU_LOADEDKERNELS_H

#include "autopar/Conversion/KernelsToCpu.h"

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::test {

/// The bytes of the shared object, or nothing with the diagnostics in `error`.
std::vector<char> compileText(const std::string &text, const CpuTarget &target, std::string &error,
                              unsigned threads = 2);

/// A loaded shared object; a failure to compile or load is a test failure, and kernels are then
/// missing.
class LoadedKernels {
public:
  explicit LoadedKernels(const std::string &text, const CpuTarget &target = {});
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels &) = delete;

  /// Calls kernel `name` on [begin, end).
  void call(const char *name, std::vector<void *> arguments, int64_t begin, int64_t end);

private:
  void *library = nullptr;
  int descriptor = -1;
};

/// A buffer aligned as kernels expect.
template <class T>
class Buffer {
public:
  explicit Buffer(size_t count, T value = {})
      : storage(count + 64 / sizeof(T), value), count(count) {}
  T *data() {
    auto address = reinterpret_cast<uintptr_t>(storage.data());
    return reinterpret_cast<T *>((address + 63) & ~uintptr_t(63));
  }
  T &operator[](size_t index) { return data()[index]; }
  size_t size() const { return count; }

private:
  std::vector<T> storage;
  size_t count;
};

} // namespace autopar::test

#endif // AUTOPAR_UNITTESTS_KERNELSTOCPU_LOADEDKERNELS_H
