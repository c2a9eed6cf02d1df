// SPDX-License-Identifier: Apache-2.0
// Coordinates of devices on a mesh, and meshes as text. ONNX numbers the shards of a tensor row by
// row and says which devices hold each; axes of a mesh say the same, and between the two only
// coordinates of devices are compared.
#pragma once

#include "autopar/Plan/Plan.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::autopar {

using Axes = std::vector<::autopar::MeshAxis>;

int64_t sizeOf(const Axes &axes);

/// "data=2xtensor=4".
std::string textOf(const Axes &axes);
/// One text where all are alike: "data=1/data=3" otherwise.
std::string textOf(const std::vector<Axes> &meshes);

/// Where `point` of the mesh stands along some of its axes, together.
int64_t placeAlong(const Axes &axes, const ::autopar::AxisList &along, int64_t point);

int64_t shardsOver(const Axes &axes, const ::autopar::AxisList &along);

} // namespace mlir::autopar
