// SPDX-License-Identifier: Apache-2.0
// Registration of the dialect and verification of the attributes that it gives to other operations.
#include "StageNumber.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "autopar/Base/Utf8.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::autopar;

#include "autopar/Dialect/AutoPar/IR/AutoParDialect.cpp.inc"

StringRef mlir::autopar::getOpId(Operation *op) {
  auto id = llvm::dyn_cast_or_null<StringAttr>(op->getDiscardableAttr("autopar.id"));
  return id ? id.getValue() : StringRef();
}

void mlir::autopar::setOpId(Operation *op, const Twine &id) {
  op->setDiscardableAttr("autopar.id", StringAttr::get(op->getContext(), id));
}

void AutoParDialect::initialize() {
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "autopar/Dialect/AutoPar/IR/AutoParOps.cpp.inc"
      >();
}

Operation *AutoParDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                               Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

static LogicalResult verifyStageDevices(Operation *op, Attribute value) {
  auto isMesh = [](Attribute mesh) {
    auto devices = dyn_cast<DenseI64ArrayAttr>(mesh);
    return devices && !devices.empty() &&
           llvm::all_of(devices.asArrayRef(), [](int64_t device) { return device >= 0; });
  };
  auto meshes = dyn_cast<ArrayAttr>(value);
  if (meshes && !meshes.empty() && llvm::all_of(meshes, isMesh))
    return success();
  return op->emitOpError() << "expected 'autopar.stage_devices' to be the devices of each mesh, "
                              "such as [array<i64: 0, 1>, array<i64: 2>], got "
                           << value;
}

/// Of a function and of an argument.
static LogicalResult verifyStage(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() != "autopar.stage" || isStageNumber(attribute.getValue()))
    return success();
  return op->emitOpError() << "expected 'autopar.stage' to be an i64 from 0 to " << kLastStage
                           << ", got " << attribute.getValue();
}

/// Names go into plans, which are JSON.
static LogicalResult verifyText(Operation *op, NamedAttribute attribute) {
  auto text = dyn_cast<StringAttr>(attribute.getValue());
  if (!text || ::autopar::isUtf8(text.getValue()))
    return success();
  return op->emitOpError() << "expected '" << attribute.getName().getValue()
                           << "' to be UTF-8, got " << text;
}

LogicalResult AutoParDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  StringRef name = attribute.getName();
  if (name == "autopar.id" && !isa<StringAttr>(attribute.getValue()))
    return op->emitOpError() << "expected 'autopar.id' to be a string";
  if (failed(verifyText(op, attribute)) || failed(verifyStage(op, attribute)))
    return failure();
  if (name == "autopar.stage_devices")
    return verifyStageDevices(op, attribute.getValue());
  if (name == "autopar.stage_meshes") {
    auto count = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!count || !count.getType().isInteger(64) || count.getInt() < 1)
      return op->emitOpError() << "expected 'autopar.stage_meshes' to be a positive i64, got "
                               << attribute.getValue();
  }
  if (name == "autopar.strategy") {
    if (!isa<StrategyAttr>(attribute.getValue()))
      return op->emitOpError() << "expected 'autopar.strategy' to be a #autopar.strategy";
    if (!isa<ShardingRuleOpInterface>(op))
      return op->emitOpError() << "has a strategy but no sharding rule";
  }
  return success();
}

LogicalResult AutoParDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned argument,
                                                       NamedAttribute attribute) {
  if (failed(verifyText(op, attribute)) || failed(verifyStage(op, attribute)))
    return failure();
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attribute.getName() != "autopar.sharding")
    return success();
  auto sharding = dyn_cast<ShardingAttr>(attribute.getValue());
  auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[argument]);
  if (!sharding || !type)
    return op->emitOpError()
           << "argument " << argument
           << ": expected 'autopar.sharding' to be a #autopar.sharding of a tensor";
  if (static_cast<int64_t>(sharding.getDims().size()) != type.getRank())
    return op->emitOpError() << "argument " << argument << ": sharding of "
                             << sharding.getDims().size() << " dimensions on a tensor of "
                             << type.getRank();
  return success();
}
