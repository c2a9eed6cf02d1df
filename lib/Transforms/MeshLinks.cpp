// SPDX-License-Identifier: Apache-2.0
#include "MeshLinks.h"

#include <algorithm>

using namespace mlir::autopar;

double MeshMessage::us() const {
  return each.latencyUs + each.bytesUs * std::max(path[0].flows, path[1].flows);
}

double MeshMessage::receivingUs() const { return (each.latencyUs + each.bytesUs) * path[1].flows; }

void MeshMessage::take(::autopar::VirtualTask &task) const {
  task.durationUs = each.latencyUs;
  task.aloneUs = each.bytesUs;
  task.path = path;
}

MeshMessage MeshLinks::message(int32_t from, int32_t to, double bytes, double sends,
                               double receives) {
  int64_t near = meshes[from].devices.front(), far = meshes[to].devices.front();
  auto [known, isNew] = ends.try_emplace({from, to});
  if (isNew)
    known->second = ::autopar::meshGroup(
        cluster, std::vector<int64_t>{std::min(near, far), std::max(near, far)});
  int64_t level = cluster.levelBetween(near, far),
          levels = static_cast<int64_t>(cluster.levels.size());
  return {::autopar::messageTime(bytes, known->second),
          {{{::autopar::linkPort(from, level, levels, /*isOut=*/true), sends},
            {::autopar::linkPort(to, level, levels, /*isOut=*/false), receives}}},
          known->second.spansNodes()};
}

MeshMessage MeshLinks::message(int32_t from, int32_t to, double bytes) {
  double near = static_cast<double>(meshes[from].deviceCount()),
         far = static_cast<double>(meshes[to].deviceCount()), receives = std::max(1.0, near / far);
  return message(from, to, bytes / receives, std::max(1.0, far / near), receives);
}
