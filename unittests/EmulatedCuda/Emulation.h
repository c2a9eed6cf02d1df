// SPDX-License-Identifier: Apache-2.0
// What the emulated libraries beside the driver need of it; exported by the emulated libcuda.so.1.
#pragma once

#include "../../lib/Runtime/device/cuda/DriverCalls.h"

#include <functional>
#include <string>

namespace emulated {

#define EMULATED_API __attribute__((visibility("default")))

/// Runs work on a stream when its turn comes; the work returns a driver error. False: the stream is
/// none, or the calling thread has no context.
EMULATED_API bool enqueueWork(autopar::runtime::cuda::Stream stream, std::function<int()> work);
/// Where the bytes at a GPU's address are; null when not all of them are allocated there.
EMULATED_API uint8_t *deviceBytes(const void *address, uint64_t bytes);
/// The GPU whose context is the calling thread's; -1 without one.
EMULATED_API int currentDevice();
/// Says why something is wrong, as the real libraries do not.
EMULATED_API void complain(const std::string &text);

} // namespace emulated
