// SPDX-License-Identifier: Apache-2.0
// Exec attributes as the plain values of the artifact.
#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::exec;
namespace artifact = ::autopar::artifact;
using ::autopar::DataType;

DataType mlir::exec::toDataType(Type type) {
  if (auto integer = dyn_cast<IntegerType>(type)) {
    bool isUnsigned = integer.isUnsigned();
    switch (integer.getWidth()) {
    case 1:
      return DataType::Bool;
    case 8:
      return isUnsigned ? DataType::U8 : DataType::I8;
    case 16:
      return isUnsigned ? DataType::U16 : DataType::I16;
    case 32:
      return isUnsigned ? DataType::U32 : DataType::I32;
    default:
      return isUnsigned ? DataType::U64 : DataType::I64;
    }
  }
  if (type.isF16())
    return DataType::F16;
  if (type.isBF16())
    return DataType::BF16;
  return type.isF64() ? DataType::F64 : DataType::F32;
}

static artifact::StridedShape toStrided(StridedAttr attr) {
  return {{attr.getDims().begin(), attr.getDims().end()},
          {attr.getStrides().begin(), attr.getStrides().end()}};
}

artifact::MatmulGeometry mlir::exec::toArtifact(MatmulGeometryAttr attr) {
  artifact::MatmulGeometry geometry;
  geometry.aType = toDataType(attr.getA().getElementType());
  geometry.bType = toDataType(attr.getB().getElementType());
  geometry.cType = toDataType(attr.getC().getElementType());
  geometry.a = toStrided(attr.getA());
  geometry.b = toStrided(attr.getB());
  geometry.c = toStrided(attr.getC());
  geometry.hasBias = static_cast<bool>(attr.getBiasType());
  if (attr.getBiasType())
    geometry.biasType = toDataType(attr.getBiasType());
  geometry.hasResidual = attr.getResidual();
  geometry.epilogue = static_cast<artifact::Epilogue>(attr.getEpilogue());
  if (attr.getScale())
    geometry.scale = static_cast<float>(attr.getScale().getValueAsDouble());
  geometry.packedB = attr.getPackedB();
  return geometry;
}

artifact::ConvolutionGeometry mlir::exec::toArtifact(ConvolutionGeometryAttr attr) {
  auto list = [](auto range) { return std::vector<int64_t>(range.begin(), range.end()); };
  artifact::ConvolutionGeometry geometry;
  geometry.xType = toDataType(attr.getX().getElementType());
  geometry.wType = toDataType(attr.getW().getElementType());
  geometry.yType = toDataType(attr.getY().getElementType());
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
    geometry.biasType = toDataType(attr.getBiasType());
  geometry.hasResidual = attr.getResidual();
  geometry.epilogue = static_cast<artifact::Epilogue>(attr.getEpilogue());
  geometry.algorithm = static_cast<artifact::ConvolutionAlgorithm>(attr.getAlgorithm());
  geometry.packedW = attr.getPackedW();
  return geometry;
}
