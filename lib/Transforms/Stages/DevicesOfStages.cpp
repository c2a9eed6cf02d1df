// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "DevicesOfStages.h"

#include "autopar/Transforms/Stages.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Plan;
using ::autopar::Result;
using ::autopar::Status;

/// The devices of the meshes of `text`, such as "data=2,tensor=2/data=4".
static Result<SmallVector<int64_t>> sizesOf(StringRef text, int64_t most) {
  SmallVector<StringRef> meshes, axes;
  text.split(meshes, '/');
  SmallVector<int64_t> sizes;
  for (StringRef mesh : meshes) {
    sizes.push_back(1);
    axes.clear();
    mesh.split(axes, ',');
    for (StringRef axis : axes) {
      int64_t extent = 0;
      if (axis.split('=').second.getAsInteger(10, extent) || extent < 1 ||
          extent > most / sizes.back())
        return Status::badInput("mesh '" + text.str() + "': axis '" + axis.str() +
                                "' leaves the mesh no size from 1 to " + std::to_string(most) +
                                "; expected axes such as data=2,tensor=2");
      sizes.back() *= extent;
    }
  }
  return sizes;
}

/// One mesh behind the other.
static SmallVector<SmallVector<int64_t>> inOrder(ArrayRef<int64_t> sizes) {
  SmallVector<SmallVector<int64_t>> devices;
  int64_t next = 0;
  for (int64_t size : sizes) {
    devices.push_back(llvm::to_vector(llvm::seq(next, next + size)));
    next += size;
  }
  return devices;
}

static Result<SmallVector<SmallVector<int64_t>>> asAsked(StringRef meshShape, int64_t meshCount,
                                                         const Cluster &machine) {
  int64_t count = machine.deviceCount();
  Result<SmallVector<int64_t>> sizes = sizesOf(meshShape, count);
  if (!sizes)
    return sizes.status();
  int64_t total = llvm::sum_of(*sizes);
  if (static_cast<int64_t>(sizes->size()) != meshCount || total != count)
    return Status::badInput(
        "mesh '" + meshShape.str() + "' gives " + std::to_string(sizes->size()) + " meshes with " +
        std::to_string(total) + " devices together; expected " + std::to_string(meshCount) +
        " meshes with all " + std::to_string(count));
  return inOrder(*sizes);
}

Result<SmallVector<SmallVector<int64_t>>>
mlir::autopar::devicesOfStages(func::FuncOp function, const std::optional<Plan> &plan,
                               StringRef meshShape, int64_t meshCount, const Cluster &machine) {
  SmallVector<SmallVector<int64_t>> devices;
  int64_t count = machine.deviceCount();
  if (function->hasAttr(kStageDevicesAttribute)) {
    devices = stageDevices(function, count);
    if (static_cast<int64_t>(devices.size()) != meshCount)
      return Status::badInput("the function says the devices of " + std::to_string(devices.size()) +
                              " meshes; expected " + std::to_string(meshCount));
    return devices;
  }
  if (plan) {
    Result<std::vector<::autopar::Mesh>> own = plan->stageMeshes();
    if (!own)
      return own.status();
    for (const ::autopar::Mesh &mesh : *own)
      devices.emplace_back(mesh.devices.begin(), mesh.devices.end());
    return devices;
  }
  if (meshShape.contains('/'))
    return asAsked(meshShape, meshCount, machine);
  if (count < meshCount)
    return Status::badInput(std::to_string(count) + " devices are too few for the meshes of " +
                            std::to_string(meshCount) + " stages");
  if (count % meshCount)
    return devices;
  devices = inOrder(SmallVector<int64_t>(meshCount, count / meshCount));
  auto hasFirstType = [&](const SmallVector<int64_t> &own) {
    return llvm::all_of(own, [&](int64_t device) {
      return &machine.typeOfDevice(device) == &machine.typeOfDevice(0);
    });
  };
  if (meshShape.empty() && !llvm::all_of(devices, hasFirstType))
    devices.clear();
  return devices;
}
