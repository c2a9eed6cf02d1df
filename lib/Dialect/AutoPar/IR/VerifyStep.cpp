// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/ElementTypes.h"

using namespace mlir;
using namespace mlir::autopar;

/// Whether the bytes of a static tensor of a known element type are an int64_t.
static bool isCountable(RankedTensorType type) {
  int64_t bytes = ::autopar::byteSize(dataTypeOf(type.getElementType()));
  return llvm::none_of(type.getShape(),
                       [&](int64_t extent) { return llvm::MulOverflow(bytes, extent, bytes); });
}

static LogicalResult verifySignature(func::FuncOp function) {
  auto types = llvm::concat<const Type>(function.getArgumentTypes(), function.getResultTypes());
  for (Type type : types) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape())
      return function.emitOpError()
             << "expected static tensors as arguments and results, got " << type;
    if (!isElementType(tensor.getElementType()))
      return function.emitOpError() << "expected arguments and results with elements of "
                                    << kElementTypes << ", got " << type;
    if (!isCountable(tensor))
      return function.emitOpError() << "expected tensors of less than 2^63 bytes, got " << type;
  }
  return success();
}

/// Foreign operations may have scalars too.
static LogicalResult verifyValue(Operation &op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  bool isKnown =
      tensor ? isElementType(tensor.getElementType()) : isElementType(type) || type.isIndex();
  if (!isKnown)
    return op.emitOpError() << "expected tensors with elements of " << kElementTypes << ", got "
                            << type;
  if (tensor && !tensor.hasStaticShape())
    return op.emitOpError() << "expected tensors of static shape, got " << type;
  if (tensor && !isCountable(tensor))
    return op.emitOpError() << "expected tensors of less than 2^63 bytes, got " << type;
  return success();
}

static LogicalResult verifyDonors(func::FuncOp function) {
  for (auto [number, donor] : llvm::enumerate(donorsOfResults(function)))
    if (donor && donor.getType() != function.getResultTypes()[number])
      return function.emitOpError()
             << "result \"" << nameOfArgument(donor)
             << "\" is the next value of a donated argument and must have its type, "
             << donor.getType() << ", got " << function.getResultTypes()[number];
  return success();
}

LogicalResult mlir::autopar::verifyStep(func::FuncOp function) {
  if (failed(verifySignature(function)))
    return failure();
  for (Operation &op : function.getBody().front().without_terminator())
    for (Type type : op.getResultTypes())
      if (failed(verifyValue(op, type)))
        return failure();
  return verifyDonors(function);
}

LogicalResult mlir::autopar::verifyWholeStep(func::FuncOp function) {
  for (Operation &op : function.getBody().front().without_terminator())
    if (op.getNumResults() == 0)
      return op.emitOpError() << "gives no tensor; expected a step on whole tensors, before "
                                 "autopar-partition and autopar-schedule";
  return verifyStep(function);
}
