// SPDX-License-Identifier: Apache-2.0
// From artifact types, layouts and epilogues to oneDNN's descriptors.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <string>

namespace autopar::cpumath {

/// The one CPU engine of the process.
const dnnl::engine &cpuEngine();
/// A stream of the calling thread.
dnnl::stream &cpuStream();

/// Whether the library sums products of bytes as they are: without AVX512-VNNI it adds pairs of
/// them in 16 bits, which saturate.
bool sumsBytesExactly();
/// What is said where it does not; `what` in the plural.
Status withoutByteSums(const char *what);

dnnl::memory::data_type libraryType(DataType type);
dnnl::memory::desc stridedDescriptor(const artifact::StridedShape &shape, DataType type);
dnnl::memory::desc layoutDescriptor(const std::vector<int64_t> &dims, dnnl::memory::data_type type,
                                    artifact::Layout layout);

/// All that tells how a tensor lies; empty for layouts that are no blocks of elements.
std::string layoutText(const dnnl::memory::desc &descriptor);

/// Adds residual (as accumulation into the destination) and activation, in this order.
void appendEpilogue(dnnl::post_ops &ops, bool hasResidual, artifact::Epilogue epilogue);

/// Runs `body`, turning oneDNN's exceptions into a Status that begins with `what`.
template <typename Body>
Status guarded(const char *what, Body body) {
  try {
    body();
    return Status::ok();
  } catch (const dnnl::error &error) {
    std::string reason = error.status == dnnl_unimplemented
                             ? "oneDNN has no implementation for this type on this CPU (bf16 "
                               "needs AVX-512; compile the model for this machine, "
                               "--target-cpu x86-64-v3)"
                         : error.message ? std::string(error.message)
                                         : std::string("oneDNN failed");
    return {StatusCode::NoDevice, std::string(what) + ": " + reason};
  } catch (const std::exception &error) {
    return Status::internal(std::string(what) + ": " + error.what());
  }
}

/// A tensor in memory, as the library describes it.
struct Placed {
  dnnl::memory::desc type;
  void *data;
};
/// Runs a change of layout to its end.
Status reorder(const char *what, const dnnl::reorder &primitive, const Placed &from,
               const Placed &to);

} // namespace autopar::cpumath
