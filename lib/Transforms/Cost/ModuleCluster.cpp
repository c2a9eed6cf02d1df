// SPDX-License-Identifier: Apache-2.0
#include "ModuleCluster.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;

::autopar::Result<Cluster> mlir::autopar::clusterOf(ModuleOp module, StringRef description) {
  if (description.empty()) {
    auto ops = module.getOps<ClusterOp>();
    if (ops.empty())
      return ::autopar::Status::badInput(
          "has no cluster to shard for; declare autopar.cluster or give the option cluster=FILE");
    description = (*ops.begin()).getDescription();
  }
  ::autopar::Result<Cluster> cluster = description.ltrim().starts_with("{")
                                           ? Cluster::fromJson(description)
                                           : Cluster::load(description.str());
  return cluster ? std::move(cluster) : cluster.status().at("cluster");
}

::autopar::Mesh mlir::autopar::costMeshOf(MeshOp op) {
  std::vector<::autopar::MeshAxis> axes;
  for (auto [name, size] : llvm::zip_equal(op.getAxes(), op.getSizes()))
    axes.push_back({cast<StringAttr>(name).str(), size});
  ::autopar::Mesh mesh = ::autopar::Mesh::over(op.getSymName().str(), axes);
  if (auto own = op.getDevices())
    mesh.devices.assign(own->begin(), own->end());
  return mesh;
}
