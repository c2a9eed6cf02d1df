// SPDX-License-Identifier: Apache-2.0
// Sizes for the compiler's memory plan, asked of the very primitives that the CPU device will run.
#include "autopar/CpuMath/PackedSize.h"

#include "autopar/CpuMath/AttentionCall.h"
#include "autopar/CpuMath/GroupedProductCall.h"
#include "autopar/CpuMath/LibraryCalls.h"
#include "autopar/CpuMath/OpenMP.h"

namespace autopar::cpumath {

using artifact::AttentionGeometry;
using artifact::ConvolutionGeometry;
using artifact::GroupedProductGeometry;
using artifact::MatmulGeometry;

template <typename Call, typename Geometry>
static Result<int64_t> bytesPacked(const Geometry &geometry) {
  ThreadCountScope threads(1);
  auto call = Call::createPacking(geometry);
  if (!call)
    return call.status();
  return call->packedBytes();
}
Result<int64_t> packedBytes(const MatmulGeometry &geometry) {
  return bytesPacked<MatmulCall>(geometry);
}
Result<int64_t> packedBytes(const ConvolutionGeometry &geometry) {
  return bytesPacked<ConvolutionCall>(geometry);
}

std::string packedLayout(const artifact::Pack &pack) {
  auto layoutOf = [](const auto &call) { return call ? call->packedLayout() : ""; };
  if (auto *geometry = std::get_if<MatmulGeometry>(&pack.geometry))
    return layoutOf(MatmulCall::createPacking(*geometry));
  return layoutOf(ConvolutionCall::createPacking(std::get<ConvolutionGeometry>(pack.geometry)));
}

Result<bool> isFast(const ConvolutionGeometry &geometry) {
  ThreadCountScope threads(1);
  auto call = ConvolutionCall::create(geometry);
  if (!call)
    return call.status();
  return !call->isReference();
}

Result<int64_t> scratchBytes(const MatmulGeometry &geometry, int32_t threads) {
  ThreadCountScope scope(threads);
  auto call = MatmulCall::create(geometry);
  if (!call)
    return call.status();
  return call->scratchBytes();
}

Result<int64_t> scratchBytes(const ConvolutionGeometry &geometry, int32_t threads) {
  ThreadCountScope scope(threads);
  auto call = ConvolutionCall::create(geometry);
  if (!call)
    return call.status();
  return call->scratchBytes();
}

Result<int64_t> scratchBytes(const AttentionGeometry &geometry, int32_t threads) {
  auto call = AttentionCall::create(geometry, threads);
  if (!call)
    return call.status();
  return call->scratchBytes();
}

Result<int64_t> scratchBytes(const GroupedProductGeometry &geometry, int32_t threads) {
  ThreadCountScope scope(threads);
  auto call = GroupedProductCall::create(geometry);
  if (!call)
    return call.status();
  return call->scratchBytes();
}

} // namespace autopar::cpumath
