// SPDX-License-Identifier: Apache-2.0
// Integers of 2 and 4 bits, of which a program holds one per byte. They keep their types while the
// model is read, since casts and quantization ask for them, and are integers of 8 bits in the
// function that is made.
#include "GraphImporter.h"
#include "TensorData.h"

using namespace mlir;
using namespace mlir::autopar;

/// The integer of 8 bits that holds a narrow one; other types are themselves.
static Type heldAs(Type element) {
  if (!isNarrowInteger(element))
    return element;
  return IntegerType::get(element.getContext(), 8, cast<IntegerType>(element).getSignedness());
}

static RankedTensorType heldAs(Value value) {
  RankedTensorType type = TensorBuilder::typeOf(value);
  return type.clone(heldAs(type.getElementType()));
}

/// A cast to a narrow integer, in integers of 8 bits: the upper bits become those of the number.
static Value wrapInBytes(TensorBuilder &b, Value input, IntegerType narrow) {
  if (TensorBuilder::isFloat(input)) // through a type that holds what wraps
    input = b.cast(input, b.opBuilder().getI32Type());
  Value bytes = b.cast(input, heldAs(narrow));
  if (narrow.isUnsigned())
    return b.binary(BinaryKind::And, bytes, (1 << narrow.getWidth()) - 1);
  double unused = 8 - narrow.getWidth();
  return b.binary(BinaryKind::ShiftRight, b.binary(BinaryKind::ShiftLeft, bytes, unused), unused);
}

void GraphImporter::holdInBytes() {
  for (BlockArgument argument : block->getArguments())
    argument.setType(heldAs(argument));
  for (Operation &op : llvm::make_early_inc_range(*block)) {
    if (op.getNumResults() != 1)
      continue;
    Value result = op.getResult(0);
    auto narrow = dyn_cast<IntegerType>(TensorBuilder::elementOf(result));
    auto cast = dyn_cast<CastOp>(op);
    if (cast && isNarrowInteger(narrow)) {
      OpBuilder::InsertionGuard guard(builder.opBuilder());
      builder.opBuilder().setInsertionPoint(cast);
      builder.setLoc(cast.getLoc());
      (void)builder.takeCreated();
      Value held = wrapInBytes(builder, cast.getInput(), narrow);
      for (Operation *made : builder.takeCreated())
        setOpId(made, uniqueId(getOpId(cast) + "/" + made->getName().stripDialect()));
      result.replaceAllUsesWith(held);
      cast.erase();
    } else if (cast && cast.getInput().getType() == result.getType()) {
      result.replaceAllUsesWith(cast.getInput());
      cast.erase();
    } else if (isNarrowInteger(narrow)) {
      result.setType(heldAs(result));
      if (auto constant = dyn_cast<ConstantOp>(op))
        constant.setValueAttr(llvm::cast<DenseElementsAttr>(constant.getValue())
                                  .mapValues(heldAs(narrow), [&](const APInt &number) {
                                    return narrow.isUnsigned() ? number.zext(8) : number.sext(8);
                                  }));
    }
  }
}
