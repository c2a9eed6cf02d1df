// SPDX-License-Identifier: Apache-2.0
// Instructions: verification of geometries.
#include "autopar/Dialect/Exec/IR/Exec.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Base/DataType.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mlir::exec;
namespace artifact = ::autopar::artifact;

LogicalResult LaunchOp::verify() {
  if (auto grid = getGrid();
      grid && (grid->size() != 3 || (*grid)[0] < 1 || (*grid)[1] < 1 || (*grid)[2] < 0))
    return emitOpError("expected a grid [blocks, threads per block, dynamic shared bytes]");
  return success();
}

/// Null types are of operands that are absent.
static LogicalResult verifyElements(Operation *op, ArrayRef<Type> types) {
  for (Type type : types)
    if (type && !mlir::autopar::isElementType(type))
      return op->emitOpError() << "expected elements of " << mlir::autopar::kElementTypes
                               << ", got " << type;
  return success();
}

LogicalResult MatmulOp::verify() {
  MatmulGeometryAttr geometry = getGeometry();
  ArrayRef<int64_t> a = geometry.getA().getDims(), b = geometry.getB().getDims(),
                    c = geometry.getC().getDims();
  if (a.size() != b.size() || a.size() != c.size())
    return emitOpError() << "expected operands of one rank, got " << a.size() << ", " << b.size()
                         << " and " << c.size();
  size_t rank = a.size();
  if (a[rank - 1] != b[rank - 2] || a[rank - 2] != c[rank - 2] || b[rank - 1] != c[rank - 1])
    return emitOpError() << "sizes do not fit: [" << a << "] x [" << b << "] -> [" << c << "]";
  for (size_t i = 0; i + 2 < rank; ++i)
    if ((a[i] != c[i] && a[i] != 1) || (b[i] != c[i] && b[i] != 1))
      return emitOpError() << "batch sizes do not fit: [" << a << "] x [" << b << "] -> [" << c
                           << "]";
  if (static_cast<bool>(geometry.getBiasType()) != static_cast<bool>(getBias()))
    return emitOpError("expected a bias buffer exactly where the geometry has a bias");
  if (geometry.getResidual() != static_cast<bool>(getResidual()))
    return emitOpError("expected a residual buffer exactly where the geometry has a residual");
  if (artifact::storesAux(artifact::Epilogue(geometry.getEpilogue())) !=
      static_cast<bool>(getAux()))
    return emitOpError("expected an aux buffer exactly where the epilogue stores a second result");
  return verifyElements(*this, geometry.getBiasType());
}

LogicalResult ConvolutionOp::verify() {
  ConvolutionGeometryAttr geometry = getGeometry();
  int64_t spatial = geometry.getX().getRank() - 2;
  for (DenseI64ArrayAttr list : {geometry.getStrides(), geometry.getPadsBegin(),
                                 geometry.getPadsEnd(), geometry.getDilations()})
    if (list.size() != spatial)
      return emitOpError() << "expected " << spatial << " entries per spatial list, got "
                           << list.size();
  if (static_cast<bool>(geometry.getBiasType()) != static_cast<bool>(getBias()))
    return emitOpError("expected a bias buffer exactly where the geometry has a bias");
  if (geometry.getResidual() != static_cast<bool>(getResidual()))
    return emitOpError("expected a residual buffer exactly where the geometry has a residual");
  return verifyElements(*this, {geometry.getX().getElementType(), geometry.getW().getElementType(),
                                geometry.getY().getElementType(), geometry.getBiasType()});
}

LogicalResult GroupedProductOp::verify() {
  GroupedProductGeometryAttr geometry = getGeometry();
  if (geometry.getMatrices().getRank() != 3)
    return emitOpError() << "expected matrices [groups, rows, columns], got "
                         << geometry.getMatrices();
  bool isMade = geometry.getMadeColumns() > 0;
  if (isMade == static_cast<bool>(getRhs()) || isMade != getMaker().has_value())
    return emitOpError("expected matrices in a buffer, or a kernel that makes them and the columns "
                       "that it makes at a time");
  if (isMade && (getMatrixSteps()->size() != getMadeOf().size() ||
                 getColumnSteps()->size() != getMadeOf().size()))
    return emitOpError() << "expected two steps for each of the " << getMadeOf().size()
                         << " buffers that matrices are made of";
  return verifyElements(*this,
                        {geometry.getLhs().getElementType(), geometry.getRows().getElementType(),
                         geometry.getMatrices().getElementType(), geometry.getNumbers()});
}

LogicalResult AttentionOp::verify() {
  AttentionGeometryAttr geometry = getGeometry();
  size_t operands = geometry.getOperands().size();
  if (operands != 4 && operands != 8)
    return emitOpError() << "expected 4 operands, or 8 of a gradient, got " << operands;
  size_t reads = (geometry.isGradient() ? 6 : 3) + (geometry.getBias() ? 1 : 0),
         writes = geometry.isGradient() ? 3 : 2;
  if (getInputs().size() != reads || getOutputs().size() != writes)
    return emitOpError() << "expected " << reads << " inputs and " << writes << " outputs, got "
                         << getInputs().size() << " and " << getOutputs().size();
  if (getShardValue().has_value() != getParts().has_value())
    return emitOpError("expected a shard and how many there are, or neither");
  return success();
}

#include "autopar/Dialect/Exec/IR/ExecInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "autopar/Dialect/Exec/IR/ExecOps.cpp.inc"
