// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/StageMeshes.h"

#include "autopar/Transforms/Stages.h"

using namespace mlir;
using namespace mlir::autopar;

StageMeshes::StageMeshes(SmallVector<MeshAxes> own) : meshes(std::move(own)) {
  if (meshes.empty())
    return;
  largest = meshes.front();
  for (const MeshAxes &mesh : meshes)
    for (auto [size, other] : llvm::zip_equal(largest.sizes, mesh.sizes))
      size = std::max(size, other);
}

FailureOr<StageMeshes> StageMeshes::ofBody(func::FuncOp function) {
  if (function.isExternal())
    return StageMeshes();
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("has several blocks; expected one");
  return of(function);
}

FailureOr<StageMeshes> StageMeshes::of(func::FuncOp function) {
  SmallVector<MeshAxes> found;
  auto wanted = function->getAttrOfType<IntegerAttr>(kStageMeshesAttribute);
  int64_t count = wanted ? wanted.getInt() : 1;
  MeshOp first;
  for (MeshOp mesh : function->getParentOfType<ModuleOp>().getOps<MeshOp>()) {
    if (!first)
      first = mesh;
    if (static_cast<int64_t>(found.size()) == count) {
      InFlightDiagnostic error = mesh.emitOpError();
      if (count == 1)
        error << "is a second mesh; expected one per module";
      else
        error << "is mesh number " << count + 1 << "; the stages take turns on " << count;
      error.attachNote(first.getLoc()) << "the first one is here";
      return failure();
    }
    if (mesh.getAxes() != first.getAxes())
      return mesh.emitOpError() << "has other axes than " << first.getSymName()
                                << "; meshes of stages may differ in sizes only";
    found.push_back(MeshAxes::of(mesh));
  }
  if (!found.empty() && static_cast<int64_t>(found.size()) < count)
    return first.emitOpError() << "is one of " << found.size()
                               << " meshes; the stages take turns on " << count;
  return StageMeshes(std::move(found));
}

bool StageMeshes::areAllAlike() const {
  return llvm::all_of(meshes,
                      [&](const MeshAxes &mesh) { return mesh.sizes == meshes.front().sizes; });
}

int64_t StageMeshes::firstLike(int64_t mesh) const {
  int64_t first = 0;
  while (!areAlike(first, mesh))
    ++first;
  return first;
}

bool StageMeshes::isLegal(const ShardingRule &rule, const FactorAxes &axes, int64_t stage,
                          std::string *whyNot) const {
  if (stage >= 0)
    return mlir::autopar::isLegal(rule, axes, ofStage(stage), whyNot);
  if (!mlir::autopar::isLegal(rule, axes, largest, whyNot))
    return false;
  return llvm::all_of(meshes, [&](const MeshAxes &mesh) {
    return mlir::autopar::isLegal(rule, axes, mesh, whyNot);
  });
}
