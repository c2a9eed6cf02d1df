// SPDX-License-Identifier: Apache-2.0
#include "ModuleCluster.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

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
