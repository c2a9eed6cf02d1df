// SPDX-License-Identifier: Apache-2.0
// How long things take, from FLOPs, bytes and links alone: a roofline with calibrated efficiency
// for operations, latency + bandwidth per link level for collectives. Formulas and their sources
// stand in docs/CostModel.md. Every function is monotone in its sizes.
#pragma once

#include <cstdint>
#include <string_view>

#include "autopar/Base/DataType.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/Mesh.h"

namespace autopar {

enum class CollectiveKind : uint8_t {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  Permute,
  Broadcast,
};

/// "all_reduce", "all_gather", ...
std::string_view name(CollectiveKind kind);

/// Time of one operation on one device, in microseconds:
/// launchUs + max(flops / (peak * efficiencyOf(work)), bytes / (bandwidth * memoryEfficiency)).
/// `bytes` is all memory traffic, reads and writes; `type` is the type that is multiplied.
double opTimeUs(double flops, double bytes, DataType type, const DeviceType &device,
                Work work = Work::Product);

/// The same of an instruction of a program: what was measured for its key where the device has
/// measurements. An error where nobody measured it and estimates are not allowed.
Result<double> instructionTimeUs(std::string_view key, double flops, double bytes, DataType type,
                                 const DeviceType &device, Work work);

/// Time of a copy between a device and the host's memory over a device's `hostLink`, in
/// microseconds. Copies of the two ways do not slow each other down.
double hostCopyUs(double bytes, const Link &hostLink);

/// Time of one collective in microseconds, all groups of the mesh running it at once; 0 for a group
/// of one rank. `bytes` is what one rank holds on its full side:
///   AllReduce      the buffer (input and output have this size)
///   AllGather      the gathered result on each rank
///   ReduceScatter  the full input on each rank
///   AllToAll       the local buffer (input and output have this size)
///   Permute        what each rank sends
///   Broadcast      the value
double collectiveTimeUs(CollectiveKind kind, double bytes, const MeshGroup &group);

/// By which groups are told apart: the larger, the worse.
double slownessOf(const MeshGroup &group);

/// How long each rank cannot compute because of a collective that goes on beside what computes.
double computeLossUs(CollectiveKind kind, double bytes, const MeshGroup &group);

/// A message between two ranks, the group of its ends: the time of a permute, of which only that
/// for its bytes grows where other messages have the same link.
struct MessageTime {
  double latencyUs = 0, bytesUs = 0;
  double lossUs = 0; ///< of either rank's computing, where the message goes on beside it
};
MessageTime messageTime(double bytes, const MeshGroup &ends);

} // namespace autopar
