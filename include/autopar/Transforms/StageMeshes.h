// SPDX-License-Identifier: Apache-2.0
// The meshes of a function's pipeline stages. All have the same axes by name; sizes and devices may
// differ, an axis of size 1 splits nothing. Without stages there is one mesh for everything.
#pragma once

#include "autopar/Transforms/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

class StageMeshes {
public:
  StageMeshes() = default;
  explicit StageMeshes(SmallVector<MeshAxes> meshes);
  /// Those that the module declares, in order; none where it declares none. Error where there are
  /// not as many as the function's stages take turns on.
  static FailureOr<StageMeshes> of(func::FuncOp function);
  /// For passes over a whole function: none too where it has no body. Error where it has several
  /// blocks.
  static FailureOr<StageMeshes> ofBody(func::FuncOp function);

  bool empty() const { return meshes.empty(); }
  int64_t count() const { return meshes.size(); }
  const MeshAxes &operator[](int64_t mesh) const { return meshes[mesh]; }
  /// The number of the mesh that a stage is on; of the first one for what is on no stage.
  int64_t numberOf(int64_t stage) const { return stage < 0 ? 0 : stage % count(); }
  /// Of a stage; for what is on none and made on any mesh, the largest size of every axis.
  const MeshAxes &ofStage(int64_t stage) const {
    return stage < 0 ? largest : meshes[numberOf(stage)];
  }
  /// Whether two meshes have the same sizes.
  bool areAlike(int64_t a, int64_t b) const { return meshes[a].sizes == meshes[b].sizes; }
  bool areAllAlike() const;
  /// A mesh of the given sizes: the first one like it.
  int64_t firstLike(int64_t mesh) const;
  /// Whether an operation of a stage, or of none, may be run so.
  bool isLegal(const ShardingRule &rule, const FactorAxes &axes, int64_t stage,
               std::string *whyNot = nullptr) const;

private:
  SmallVector<MeshAxes> meshes;
  MeshAxes largest;
};

} // namespace mlir::autopar
