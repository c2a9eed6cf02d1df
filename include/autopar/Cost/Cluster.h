// SPDX-License-Identifier: Apache-2.0
// What a program is planned for: device types, nodes that may differ, and links per level. Plain
// values, read from JSON, from a preset's name, or made for N ranks of one machine; the cost model
// and the planner know hardware only through this.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/DataType.h"
#include "autopar/Base/Status.h"
#include "autopar/Cost/MeasuredCollectives.h"
#include "autopar/Cost/MeasuredOperation.h"
#include "autopar/Cost/Work.h"

namespace autopar {

/// A point-to-point link as one device sees it when all devices use it at once.
struct Link {
  double latencyUs = 0;
  double bytesPerSecond = 0;
  /// Between nodes, of devices that communicate while idle: microseconds that they cannot compute
  /// per microsecond of bytes at this rate.
  double computeLoss = 0;
  bool operator==(const Link &) const = default;
};

/// Devices of a cluster, and so ranks of a mesh: what a plan is made for in seconds.
constexpr int64_t kMostDevices = int64_t(1) << 18;

/// One kind of device. Rates are data-sheet peaks; the efficiencies say which fraction of a peak
/// real kernels reach (calibrated by measurement, or a preset's guess).
struct DeviceType {
  std::string name;
  /// Peak FLOP/s per element type (a multiply-add counts two). Never empty.
  std::map<DataType, double> peakFlopsPerSecond;
  double computeEfficiency = 1.0; ///< in (0, 1]
  /// The same of attention in one kernel and of its gradient; 0: as of products.
  double attentionEfficiency = 0, attentionGradientEfficiency = 0;
  double memoryBytesPerSecond = 0;
  double memoryEfficiency = 1.0; ///< in (0, 1]
  int64_t memoryBytes = 0;
  int64_t reservedBytes = 0; ///< kept free for driver, runtime, fragmentation
  double launchUs = 0;       ///< floor below which no operation goes
  int cudaChip = 0;          ///< compute capability x 10 of an NVIDIA GPU (90: sm_90); 0: a CPU
  /// Between the device and the host's memory, each way; bytesPerSecond == 0: nobody says.
  Link hostLink;
  int64_t hostMemoryBytes = 0; ///< of the host, for one device; 0: nobody says
  /// What computes also communicates, so that neither goes on beside the other.
  bool communicatesWhileIdle = false;
  /// Times that are believed in place of those that follow from the rates; none: an empty list.
  MeasuredOperations measured;

  /// What a plan may use: memoryBytes - reservedBytes.
  int64_t usableBytes() const { return memoryBytes - reservedBytes; }
  /// Peak for `type`; a type without an entry runs at the rate of f32 (a float of 8 bits at that of
  /// bf16 if there is one), else at the slowest listed.
  double peakFor(DataType type) const;
  /// The share of the peak that kernels reach in work of this kind.
  double efficiencyOf(Work work) const;
  bool operator==(const DeviceType &) const = default;
};

/// The links of one level. Level 0 is inside a node, level 1 joins nodes, higher levels join groups
/// of nodes. Nothing is assumed about which level is faster.
struct LinkLevel {
  std::string name;
  Link link;
  /// How many nodes one group of this level holds: 1 at level 0; 0 = all nodes (last level).
  int64_t nodes = 0;
  bool operator==(const LinkLevel &) const = default;
};

/// `count` equal nodes in a row.
struct NodeGroup {
  int64_t count = 0;
  int64_t devicesPerNode = 0;
  std::string deviceType;
  /// The link inside these nodes where it differs from level 0; bytesPerSecond == 0 means it does
  /// not.
  Link insideLink;
  bool operator==(const NodeGroup &) const = default;
};

/// Devices are numbered 0.. in the order of `nodes`, device by device.
struct Cluster {
  std::string name;
  std::vector<DeviceType> deviceTypes;
  std::vector<NodeGroup> nodes;
  std::vector<LinkLevel> levels; ///< at least one; at least two where there are two nodes
  /// Times that are believed in place of those that follow from the links.
  std::vector<MeasuredCollective> collectives;

  int64_t deviceCount() const;
  int64_t nodeCount() const;
  /// The node of a device; devices beyond the last belong to no node (-1).
  int64_t nodeOfDevice(int64_t device) const;
  /// The type of a device; `device` must be in [0, deviceCount()).
  const DeviceType &typeOfDevice(int64_t device) const;
  /// The slowest type among `devices`, which are not none: what works together waits for it.
  const DeviceType &slowestOf(const std::vector<int64_t> &devices) const;
  /// The least memory that a plan may use on one of `devices`.
  int64_t usableBytes(const std::vector<int64_t> &devices) const;
  /// The most memory that a plan may use on any device.
  int64_t mostUsableBytes() const;
  /// Nothing for an unknown name.
  const DeviceType *findDeviceType(std::string_view typeName) const;
  /// The link at `level` as the nodes that hold `device` have it.
  Link linkOfDevice(int64_t device, int64_t level) const;
  /// The lowest level whose groups hold both devices.
  int64_t levelBetween(int64_t a, int64_t b) const;

  /// Every rule above, with the place ("nodes[1].count") of the first violation.
  Status verify() const;

  /// Whether plans may put anything into host memory: all devices say how much there is and by
  /// which link; names the field that is missing.
  Status checkHostMemory() const;

  /// Whether all-reduce, all-gather, reduce-scatter and all-to-all are measured for every number of
  /// ranks and nodes that a mesh of this cluster can have in a group; names the first that is not.
  Status checkCollectives() const;

  /// JSON text with `"kind": "autopar.cluster", "version": 1` (docs/CostModel.md).
  std::string toJson() const;
  static Result<Cluster> fromJson(std::string_view text);
  /// Reads a file, a preset where `path` starts with "presets:", or the JSON text itself.
  static Result<Cluster> load(const std::string &path);
  /// "h100x8x128" = 8 devices per node on 128 nodes; "h200x1" = one node; "cpux4" = 4 ranks of this
  /// kind of machine. The leading "presets:" is optional.
  static Result<Cluster> preset(std::string_view presetName);
  /// Names of the device presets.
  static std::vector<std::string> presetNames();
  /// `ranks` CPU ranks on one machine, each with one core and a fixed share of memory: constants,
  /// so that plans do not depend on the machine that makes them.
  static Cluster cpuRanks(int64_t ranks);

  bool operator==(const Cluster &) const = default;
};

} // namespace autopar
