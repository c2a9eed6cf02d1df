// SPDX-License-Identifier: Apache-2.0
#include "MeshLinks.h"

#include <algorithm>
#include <set>

using namespace mlir::autopar;

double MeshMessage::us() const { return each.latencyUs + bytesUs(); }

double MeshMessage::bytesUs() const {
  return each.bytesUs * std::max(path[0].flows, path[1].flows);
}

double MeshMessage::receivingUs() const { return (each.latencyUs + each.bytesUs) * path[1].flows; }

void MeshMessage::take(::autopar::VirtualTask &task) const {
  task.aloneUs = each.bytesUs;
  task.path = path;
}

/// Of the ranks that talk the two with the slowest link between them: a mesh may lie on several
/// nodes, and share one with the other.
const MeshLinks::Ends &MeshLinks::endsOf(int32_t from, int32_t to) {
  auto [known, isNew] = ends.try_emplace({from, to});
  if (!isNew)
    return known->second;
  constexpr double kBytes = 1 << 20; // of a message that shows which link is slow
  const std::vector<int64_t> &near = meshes[from].devices, &far = meshes[to].devices;
  std::set<std::pair<int64_t, int64_t>> nodes; // pairs of them that were looked at
  double slowest = -1;
  for (size_t i = 0, count = std::max(near.size(), far.size()); i < count; ++i) {
    int64_t a = near[i * near.size() / count], b = far[i * far.size() / count];
    if (!nodes.insert({cluster.nodeOfDevice(a), cluster.nodeOfDevice(b)}).second)
      continue;
    auto group =
        ::autopar::meshGroup(cluster, std::vector<int64_t>{std::min(a, b), std::max(a, b)});
    ::autopar::MessageTime time = ::autopar::messageTime(kBytes, group);
    if (time.latencyUs + time.bytesUs <= slowest)
      continue;
    slowest = time.latencyUs + time.bytesUs;
    known->second = {std::move(group), cluster.levelBetween(a, b)};
  }
  return known->second;
}

MeshMessage MeshLinks::message(int32_t from, int32_t to, double bytes, double sends,
                               double receives) {
  const Ends &between = endsOf(from, to);
  auto levels = static_cast<int64_t>(cluster.levels.size());
  return {::autopar::messageTime(bytes, between.group),
          {{{::autopar::linkPort(from, between.level, levels, /*isOut=*/true), sends},
            {::autopar::linkPort(to, between.level, levels, /*isOut=*/false), receives}}},
          between.group.spansNodes()};
}

MeshMessage MeshLinks::message(int32_t from, int32_t to, double bytes) {
  double near = static_cast<double>(meshes[from].deviceCount()),
         far = static_cast<double>(meshes[to].deviceCount()), receives = std::max(1.0, near / far);
  return message(from, to, bytes / receives, std::max(1.0, far / near), receives);
}
