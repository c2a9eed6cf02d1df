// SPDX-License-Identifier: Apache-2.0
// Named axes over an ordered list of devices, and what a set of axes means for the links: which
// ranks talk to each other, how many share a node. Axis order is link level, last axis innermost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Cost/Cluster.h"

namespace autopar {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  bool operator==(const MeshAxis &) const = default;
};

/// Device at coordinates (c0, c1, ...) is devices[((c0 * size1) + c1) * size2 + ...].
struct Mesh {
  std::string name;
  std::vector<MeshAxis> axes;
  std::vector<int64_t> devices; ///< cluster device numbers; one per point of the mesh

  int64_t deviceCount() const { return static_cast<int64_t>(devices.size()); }
  /// Position of an axis; -1 for an unknown name.
  int64_t axisIndex(std::string_view axisName) const;
  /// Size of an axis; 0 for an unknown name.
  int64_t axisSize(std::string_view axisName) const;
  /// Unique axis names, sizes > 0, product of sizes == devices, no device twice, all in `cluster`.
  Status verify(const Cluster &cluster) const;

  /// Axes over devices 0..product-1.
  static Mesh over(std::string name, std::vector<MeshAxis> axes);

  bool operator==(const Mesh &) const = default;
};

/// "data=2,tensor=4"; of meshes of several shapes "data=1,tensor=4/data=2,tensor=4".
std::string shapeText(const std::vector<MeshAxis> &axes);
std::string shapeText(const std::vector<Mesh> &meshes);

/// A set of ranks that run one collective together, as the link levels see it: extents[l] is how
/// many parts of level l take part (extents[0] ranks per node, extents[1] nodes, ...), links[l] the
/// slowest link among them. All groups of a mesh run at the same time.
struct MeshGroup {
  std::vector<int64_t> extents;
  std::vector<Link> links;
  std::vector<MeasuredCollective> measured; ///< collectives of so many ranks on so many nodes

  /// Product of the extents: the number of ranks.
  int64_t size() const;
  /// Whether a network carries its messages, and not what computes, beside which they then go on.
  bool spansNodes() const;
  /// The computeLoss of its links between nodes.
  double computeLoss() const;
  bool operator==(const MeshGroup &) const = default;
};

/// `ranksPerNode` ranks on each of `nodes` nodes of `cluster`.
MeshGroup meshGroup(const Cluster &cluster, int64_t ranksPerNode, int64_t nodes);
/// The very devices.
MeshGroup meshGroup(const Cluster &cluster, const std::vector<int64_t> &devices);
/// The worst of the groups that vary over `axes` (names; order does not matter) with the other axes
/// fixed. Unknown names are ignored; an empty list gives a group of one.
MeshGroup meshGroup(const Cluster &cluster, const Mesh &mesh, std::span<const std::string> axes);

} // namespace autopar
