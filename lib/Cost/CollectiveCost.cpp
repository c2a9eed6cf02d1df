// SPDX-License-Identifier: Apache-2.0
// Time of one collective: latency + bytes / bandwidth per link level, done hierarchically. Sources:
// Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
// IJHPCA 19(1), 2005 (reduce-scatter and all-gather in log2(p) steps moving (p-1)/p of the buffer,
// all-reduce as their sum, pairwise and Bruck all-to-all, van de Geijn's broadcast). On several
// levels each level works on the part that the levels inside it have scattered, so ranks per node
// matter: eight ranks of a node move one eighth each over the network.
#include "autopar/Cost/CostModel.h"

#include <algorithm>
#include <cmath>

namespace autopar {
namespace {

double steps(int64_t ranks) { return std::ceil(std::log2(static_cast<double>(ranks))); }

double bandwidthUs(double bytes, const Link &link) { return 1e6 * bytes / link.bytesPerSecond; }

/// All-gather of `bytes` (gathered size), or its mirror image, the reduce-scatter.
double gatherUs(double bytes, const MeshGroup &group) {
  double time = 0, scattered = bytes;
  for (size_t level = 0; level < group.extents.size(); ++level) {
    double ranks = static_cast<double>(group.extents[level]);
    if (group.extents[level] < 2)
      continue;
    time += steps(group.extents[level]) * group.links[level].latencyUs +
            bandwidthUs(scattered * (ranks - 1) / ranks, group.links[level]);
    scattered /= ranks;
  }
  return time;
}

/// Direct: every pair exchanges its part. Bruck: log2 steps, half of the buffer in each.
double allToAllUs(double bytes, const MeshGroup &group) {
  double direct = 0, bruck = 0, inside = 1, ranks = static_cast<double>(group.size());
  for (size_t level = 0; level < group.extents.size(); ++level) {
    double reached = inside * static_cast<double>(group.extents[level]);
    if (group.extents[level] < 2)
      continue;
    const Link &link = group.links[level];
    direct +=
        (reached - inside) * link.latencyUs + bandwidthUs(bytes * (reached - inside) / ranks, link);
    bruck += steps(group.extents[level]) * (link.latencyUs + bandwidthUs(bytes / 2, link));
    inside = reached;
  }
  return std::min(direct, bruck);
}

double permuteUs(double bytes, const MeshGroup &group) {
  double time = 0;
  for (size_t level = 0; level < group.extents.size(); ++level)
    if (group.extents[level] > 1)
      time = std::max(time, group.links[level].latencyUs + bandwidthUs(bytes, group.links[level]));
  return time;
}

/// The better of a binomial tree and scatter + all-gather.
double broadcastUs(double bytes, const MeshGroup &group) {
  double tree = 0;
  for (size_t level = 0; level < group.extents.size(); ++level)
    if (group.extents[level] > 1)
      tree += steps(group.extents[level]) *
              (group.links[level].latencyUs + bandwidthUs(bytes, group.links[level]));
  return std::min(tree, 2 * gatherUs(bytes, group));
}

} // namespace

std::string_view name(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllToAll:
    return "all_to_all";
  case CollectiveKind::Permute:
    return "permute";
  case CollectiveKind::Broadcast:
    return "broadcast";
  }
  return "unknown";
}

double collectiveTimeUs(CollectiveKind kind, double bytes, const MeshGroup &group) {
  if (group.size() < 2)
    return 0;
  for (const MeasuredCollective &measured : group.measured)
    if (measured.kind == kind)
      return measured.timeUs(bytes);
  switch (kind) {
  case CollectiveKind::AllReduce:
    return 2 * gatherUs(bytes, group);
  case CollectiveKind::AllGather:
  case CollectiveKind::ReduceScatter:
    return gatherUs(bytes, group);
  case CollectiveKind::AllToAll:
    return allToAllUs(bytes, group);
  case CollectiveKind::Permute:
    return permuteUs(bytes, group);
  case CollectiveKind::Broadcast:
    return broadcastUs(bytes, group);
  }
  return 0;
}

/// Nobody waits for latencies.
static double bytesUs(CollectiveKind kind, double bytes, const MeshGroup &group) {
  return collectiveTimeUs(kind, bytes, group) - collectiveTimeUs(kind, 0, group);
}

double slownessOf(const MeshGroup &group) {
  constexpr double bytes = 1 << 20; // as much latency as bandwidth
  return collectiveTimeUs(CollectiveKind::AllReduce, bytes, group);
}

double computeLossUs(CollectiveKind kind, double bytes, const MeshGroup &group) {
  double loss = group.computeLoss();
  return loss > 0 ? loss * bytesUs(kind, bytes, group) : 0;
}

MessageTime messageTime(double bytes, const MeshGroup &ends) {
  return {collectiveTimeUs(CollectiveKind::Permute, 0, ends),
          bytesUs(CollectiveKind::Permute, bytes, ends),
          computeLossUs(CollectiveKind::Permute, bytes, ends)};
}

} // namespace autopar
