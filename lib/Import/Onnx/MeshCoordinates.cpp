// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "MeshCoordinates.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <functional>

using namespace mlir::autopar;
using ::autopar::AxisList;
using ::autopar::MeshAxis;

int64_t mlir::autopar::sizeOf(const Axes &axes) {
  int64_t size = 1;
  for (const MeshAxis &axis : axes)
    size *= axis.size;
  return size;
}

std::string mlir::autopar::textOf(const Axes &axes) {
  std::string text;
  for (const MeshAxis &axis : axes)
    text += (text.empty() ? "" : "x") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::string mlir::autopar::textOf(const std::vector<Axes> &meshes) {
  std::string text = textOf(meshes.front());
  if (std::adjacent_find(meshes.begin(), meshes.end(), std::not_equal_to<>()) != meshes.end())
    for (const Axes &axes : llvm::drop_begin(meshes))
      text += "/" + textOf(axes);
  return text;
}

int64_t mlir::autopar::placeAlong(const Axes &axes, const AxisList &along, int64_t point) {
  int64_t place = 0;
  for (const std::string &name : along) {
    int64_t rest = point;
    for (size_t i = axes.size(); i-- > 0; rest /= axes[i].size)
      if (axes[i].name == name) {
        place = place * axes[i].size + rest % axes[i].size;
        break;
      }
  }
  return place;
}

int64_t mlir::autopar::shardsOver(const Axes &axes, const AxisList &along) {
  int64_t shards = 1;
  for (const std::string &name : along)
    for (const MeshAxis &axis : axes)
      shards *= axis.name == name ? axis.size : 1;
  return shards;
}
