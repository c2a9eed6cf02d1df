// SPDX-License-Identifier: Apache-2.0
// Exec attributes as the plain values of the artifact.
#include "autopar/Dialect/Exec/IR/Geometry.h"

#include "autopar/Interfaces/ElementTypes.h"

using namespace mlir;
using namespace mlir::exec;
namespace artifact = ::autopar::artifact;

static artifact::StridedShape toStrided(StridedAttr attr) {
  return {{attr.getDims().begin(), attr.getDims().end()},
          {attr.getStrides().begin(), attr.getStrides().end()}};
}

artifact::MatmulGeometry mlir::exec::toArtifact(MatmulGeometryAttr attr) {
  artifact::MatmulGeometry geometry;
  geometry.aType = autopar::dataTypeOf(attr.getA().getElementType());
  geometry.bType = autopar::dataTypeOf(attr.getB().getElementType());
  geometry.cType = autopar::dataTypeOf(attr.getC().getElementType());
  geometry.a = toStrided(attr.getA());
  geometry.b = toStrided(attr.getB());
  geometry.c = toStrided(attr.getC());
  geometry.hasBias = static_cast<bool>(attr.getBiasType());
  if (attr.getBiasType())
    geometry.biasType = autopar::dataTypeOf(attr.getBiasType());
  geometry.hasResidual = attr.getResidual();
  geometry.epilogue = static_cast<artifact::Epilogue>(attr.getEpilogue());
  if (attr.getScale())
    geometry.scale = static_cast<float>(attr.getScale().getValueAsDouble());
  geometry.packedB = attr.getPackedB();
  return geometry;
}

artifact::AttentionGeometry mlir::exec::toArtifact(AttentionGeometryAttr attr) {
  artifact::AttentionGeometry geometry;
  geometry.type = autopar::dataTypeOf(attr.getOperands().front().getElementType());
  for (StridedAttr operand : attr.getOperands())
    geometry.operands.push_back(toStrided(operand));
  if (StridedAttr bias = attr.getBias()) {
    geometry.biasType = autopar::dataTypeOf(bias.getElementType());
    geometry.bias = toStrided(bias);
  }
  geometry.scale = static_cast<float>(attr.getScale().getValueAsDouble());
  geometry.causal = attr.getCausal();
  geometry.window = attr.getWindow();
  return geometry;
}

artifact::GroupedProductGeometry mlir::exec::toArtifact(GroupedProductGeometryAttr attr) {
  artifact::GroupedProductGeometry geometry;
  StridedAttr rows = attr.getRows();
  Type result = attr.getGradient() ? attr.getMatrices().getElementType() : rows.getElementType();
  geometry.type = autopar::dataTypeOf(attr.getLhs().getElementType());
  geometry.resultType = autopar::dataTypeOf(result);
  geometry.groupType = autopar::dataTypeOf(attr.getNumbers());
  geometry.lhs = toStrided(attr.getLhs());
  geometry.rows = toStrided(rows);
  geometry.groups = attr.getMatrices().getDimSize(0);
  geometry.transposed = attr.getTransposed();
  geometry.isGradient = attr.getGradient();
  geometry.madeColumns = attr.getMadeColumns();
  return geometry;
}

artifact::ConvolutionGeometry mlir::exec::toArtifact(ConvolutionGeometryAttr attr) {
  auto list = [](auto range) { return std::vector<int64_t>(range.begin(), range.end()); };
  artifact::ConvolutionGeometry geometry;
  geometry.xType = autopar::dataTypeOf(attr.getX().getElementType());
  geometry.wType = autopar::dataTypeOf(attr.getW().getElementType());
  geometry.yType = autopar::dataTypeOf(attr.getY().getElementType());
  geometry.x = list(attr.getX().getShape());
  geometry.w = list(attr.getW().getShape());
  geometry.y = list(attr.getY().getShape());
  geometry.strides = list(attr.getStrides().asArrayRef());
  geometry.padsBegin = list(attr.getPadsBegin().asArrayRef());
  geometry.padsEnd = list(attr.getPadsEnd().asArrayRef());
  geometry.dilations = list(attr.getDilations().asArrayRef());
  geometry.groups = attr.getGroups();
  geometry.xLayout = static_cast<artifact::Layout>(attr.getXLayout());
  geometry.yLayout = static_cast<artifact::Layout>(attr.getYLayout());
  geometry.hasBias = static_cast<bool>(attr.getBiasType());
  if (attr.getBiasType())
    geometry.biasType = autopar::dataTypeOf(attr.getBiasType());
  geometry.hasResidual = attr.getResidual();
  geometry.epilogue = static_cast<artifact::Epilogue>(attr.getEpilogue());
  geometry.algorithm = static_cast<artifact::ConvolutionAlgorithm>(attr.getAlgorithm());
  geometry.packedW = attr.getPackedW();
  geometry.kind = static_cast<artifact::ConvolutionKind>(attr.getKind());
  return geometry;
}
