// SPDX-License-Identifier: Apache-2.0
// What is measured of a machine. Every function runs on all ranks at once, says on stderr what it
// found (one line per measurement) and fails only where the runtime does.
#pragma once

#include "ProfileOptions.h"

#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"

#include <cstdint>

namespace autopar::tools {

/// A measurement's surroundings.
struct Machine {
  int32_t ranks = 1;
  int32_t threads = 1;      ///< per rank
  int64_t bytesPerRank = 0; ///< of memory; measurements take a part of it
  bool quick = false, quiet = false;
};

/// Fills peakFlopsPerSecond and computeEfficiency. The peak of f32 is the best rate of any shape
/// and the efficiency its median rate / that; the peak of another type is what gives its median
/// rate with the same efficiency. A type that the library does not multiply is left out.
Status measureProducts(const Machine &machine, DeviceType &device);
/// Fills memoryBytesPerSecond and memoryEfficiency: the best and the median over a copy, kernels
/// that add two tensors and add up rows, a change of layout and a product with a vector, all larger
/// than most caches.
Status measureMemory(const Machine &machine, DeviceType &device);
/// Fills launchUs: the mean of small kernels, copies and products in a row.
Status measureLaunch(const Machine &machine, DeviceType &device);
/// The link between ranks, from messages around a ring and all-reduces of many sizes. One rank
/// alone has no link; it gets that of two.
Result<Link> measureLink(const Machine &machine);

} // namespace autopar::tools
