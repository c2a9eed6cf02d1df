// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "MeshCandidates.h"

#include "llvm/Support/FormatVariadic.h"

#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Mesh;

/// Factorizations of `devices` into at most `maxAxes` ordered factors greater than one.
static void factorize(int64_t devices, unsigned maxAxes, SmallVector<int64_t> &prefix,
                      SmallVectorImpl<SmallVector<int64_t>> &found) {
  if (devices == 1) {
    found.push_back(prefix);
    return;
  }
  if (prefix.size() == maxAxes)
    return;
  for (int64_t factor = 2; factor <= devices; ++factor)
    if (devices % factor == 0) {
      prefix.push_back(factor);
      factorize(devices / factor, maxAxes, prefix, found);
      prefix.pop_back();
    }
}

/// What collectives over each set of axes cost, in no order: meshes that agree in it are one mesh
/// with its axes renamed.
static std::vector<std::string> linksOf(const Cluster &cluster, const Mesh &mesh) {
  std::vector<std::string> links;
  for (unsigned set = 1; set < 1u << mesh.axes.size(); ++set) {
    std::vector<std::string> names;
    for (auto [index, axis] : llvm::enumerate(mesh.axes))
      if (set & 1u << index)
        names.push_back(axis.name);
    ::autopar::MeshGroup group = ::autopar::meshGroup(cluster, mesh, names);
    std::string text = std::to_string(names.size());
    for (auto [extent, link] : llvm::zip(group.extents, group.links))
      text += llvm::formatv(" {0} {1} {2}", extent, link.latencyUs, link.bytesPerSecond).str();
    links.push_back(text);
  }
  llvm::sort(links);
  return links;
}

SmallVector<Mesh> mlir::autopar::meshCandidates(const Cluster &cluster, int64_t devices) {
  int64_t perNode = std::min(devices, cluster.nodes.front().devicesPerNode);
  SmallVector<SmallVector<int64_t>> shapes;
  SmallVector<int64_t> prefix;
  factorize(devices, devices <= 16 ? 3 : 2, prefix, shapes);
  if (devices > 16 && perNode > 1 && devices > perNode && devices % perNode == 0) {
    SmallVector<SmallVector<int64_t>> inside;
    factorize(perNode, 2, prefix, inside);
    for (SmallVector<int64_t> &shape : inside)
      if (shape.size() == 2)
        shapes.push_back({devices / perNode, shape[0], shape[1]});
  }
  // Of equally cheap meshes the one with the fewest axes is taken.
  llvm::sort(shapes, [](const SmallVector<int64_t> &a, const SmallVector<int64_t> &b) {
    return std::pair(a.size(), a) < std::pair(b.size(), b);
  });
  SmallVector<Mesh> meshes;
  std::set<std::vector<std::string>> known;
  for (ArrayRef<int64_t> shape : shapes) {
    std::vector<::autopar::MeshAxis> axes;
    for (auto [index, size] : llvm::enumerate(shape))
      axes.push_back({std::string(1, "xyz"[index]), size});
    if (axes.empty())
      axes.push_back({"x", 1});
    Mesh mesh = Mesh::over("mesh", axes);
    if (known.insert(linksOf(cluster, mesh)).second)
      meshes.push_back(std::move(mesh));
  }
  return meshes;
}
