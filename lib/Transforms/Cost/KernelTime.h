// SPDX-License-Identifier: Apache-2.0
// How long what a plan becomes takes on a mesh: fusion groups, library calls and collectives on
// local shapes, counted as lowering counts their instructions.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/CostModel.h"
#include "autopar/Cost/Mesh.h"
#include "autopar/Interfaces/CollectiveInterface.h"
#include "mlir/IR/BuiltinTypes.h"

#include <map>

namespace mlir::autopar {

class KernelTime {
public:
  /// A collective with the kernels that put its parts in order; else only `kernelUs`.
  struct Parts {
    double beforeUs = 0, collectiveUs = 0, afterUs = 0;
    bool spansNodes = false; ///< the collective
    double lossUs = 0;       ///< of what computes beside it
    double sum() const { return beforeUs + collectiveUs + afterUs; }
  };
  using Known = DenseMap<Operation *, Parts>;

  /// Cluster and mesh outlive it. `convolves`: there is a library that takes convolutions with what
  /// follows them; else they are kernels of their own. `known`: what operations took when they were
  /// asked for, and will take as long as they are only moved.
  KernelTime(const ::autopar::Cluster &cluster, const ::autopar::Mesh &mesh, bool convolves,
             Known *known = nullptr);

  /// `isFirst`: in the first micro-batch, in which nothing is carried that could be added to.
  Parts of(Operation *op, bool isFirst = false);
  double us(Operation *op) { return of(op).sum(); }
  /// Whether a collective goes on beside what computes.
  bool goesBeside(const Parts &parts) const {
    return parts.collectiveUs > 0 && (!device.communicatesWhileIdle || parts.spansNodes);
  }
  double copyUs(RankedTensorType type) const;
  /// What a kernel saves that another one's launch runs.
  double launchUs() const { return device.launchUs; }

private:
  Parts newTimeOf(Operation *op, bool isFirst);
  double kernelUs(Operation *op, bool isFirst) const;
  double convolutionUs(Operation *op) const;
  const ::autopar::MeshGroup &groupOf(CollectiveOpInterface op);

  const ::autopar::Cluster &cluster;
  const ::autopar::Mesh &mesh;
  const ::autopar::DeviceType &device;
  bool convolves;
  Known *known;                                                    ///< null: nobody remembers
  std::map<std::vector<std::string>, ::autopar::MeshGroup> groups; ///< by axes
};

} // namespace mlir::autopar
