// SPDX-License-Identifier: Apache-2.0
// Inputs whose value the caller knows, such as a sampling rate: constants of the program, so that
// an If that asks for them is decided.
#include "GraphImporter.h"
#include "Proto.h"
#include "TensorData.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/Error.h"

using namespace mlir;
using namespace mlir::autopar;

/// The number as an element of this type; null where it is none.
static Attribute elementFrom(StringRef text, Type type) {
  if (auto real = dyn_cast<FloatType>(type)) {
    llvm::APFloat value(real.getFloatSemantics());
    auto status = value.convertFromString(text, llvm::APFloat::rmNearestTiesToEven);
    bool isRead = static_cast<bool>(status) && !(*status & llvm::APFloat::opInvalidOp);
    if (!status)
      llvm::consumeError(status.takeError());
    return isRead ? Attribute(FloatAttr::get(type, value)) : Attribute();
  }
  auto integer = dyn_cast<IntegerType>(type);
  if (!integer)
    return {};
  unsigned width = integer.getWidth();
  bool hasSign = width > 1 && !integer.isUnsigned();
  if (width == 1)
    text = text == "true" ? "1" : text == "false" ? "0" : text;
  llvm::APInt value;
  bool isNegative = text.consume_front("-");
  if (text.getAsInteger(10, value) || (isNegative && !hasSign))
    return {};
  value = value.zext(std::max(value.getBitWidth(), width) + 1);
  if (isNegative)
    value.negate();
  if (hasSign ? !value.isSignedIntN(width) : !value.isIntN(width))
    return {};
  return IntegerAttr::get(type, value.trunc(width));
}

FailureOr<Value> GraphImporter::fixedInput(const onnx::ValueInfoProto &input,
                                           RankedTensorType type) {
  auto given = options.fixedInputs.find(input.name());
  if (given == options.fixedInputs.end())
    return Value();
  fixed.insert(given->first);
  Attribute element = elementFrom(given->second, type.getElementType());
  if (!element)
    return builder.fail("input '" + StringRef(input.name()) + "' is fixed to '" + given->second +
                        "': expected a number of its element type, " +
                        dataTypeName(input.type().tensor_type().elem_type()));
  return builder.constant(DenseElementsAttr::get(type, ArrayRef(element)));
}

LogicalResult GraphImporter::checkFixedInputs() {
  for (const auto &[name, value] : options.fixedInputs) {
    if (fixed.count(name))
      continue;
    std::string inputs;
    for (const Argument &argument : arguments)
      inputs += (inputs.empty() ? "'" : ", '") + argument.name + "'";
    return builder.fail("there is no input '" + name + "' to fix; there are: " + inputs);
  }
  return success();
}
