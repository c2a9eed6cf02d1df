// SPDX-License-Identifier: Apache-2.0
// What the emulated libraries beside the driver need of it; exported by the emulated libcuda.so.1.
#pragma once

#include "../../lib/Runtime/device/cuda/DriverCalls.h"

#include <functional>
#include <string>

namespace emulated {

#define EMULATED_API __attribute__((visibility("default")))

/// Returns the driver's number of an error.
using Work = std::function<int()>;
/// Whether work whose turn it is may run; asked again and again. None: at once.
using Ready = std::function<bool()>;

/// Runs work on a stream when its turn comes, again for every launch of a graph that captured it.
/// `kind` is what it is counted as. False: the stream is none, or the calling thread has no
/// context.
EMULATED_API bool enqueueWork(const char *kind, autopar::runtime::cuda::Stream stream, Work work,
                              Ready isReady = {});
/// Runs what streams of a GPU have; false where something of it waits for others.
EMULATED_API bool finishWork(int device);
/// Where the bytes at a GPU's address are; null when not all of them are allocated there.
EMULATED_API uint8_t *deviceBytes(const void *address, uint64_t bytes);
/// The GPU whose context is the calling thread's; -1 without one.
EMULATED_API int currentDevice();
/// Says why something is wrong, as the real libraries do not.
EMULATED_API void complain(const std::string &text);

} // namespace emulated
