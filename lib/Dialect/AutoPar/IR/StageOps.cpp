// SPDX-License-Identifier: Apache-2.0
// What moves between stages: sharding rules, verification, syntax.
#include "StageNumber.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {
ParseResult parseTransferTypes(OpAsmParser &parser, Type &input, Type &result);
void printTransferTypes(OpAsmPrinter &printer, Operation *op, Type input, Type result);
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

ShardingRule TransferOp::getShardingRule() { return ShardingRule::elementwise(*this); }

ParseResult mlir::autopar::parseTransferTypes(OpAsmParser &parser, Type &input, Type &result) {
  if (parser.parseType(input))
    return failure();
  result = input;
  return succeeded(parser.parseOptionalArrow()) ? parser.parseType(result) : success();
}

void mlir::autopar::printTransferTypes(OpAsmPrinter &printer, Operation *, Type input,
                                       Type result) {
  printer << input;
  if (result != input)
    printer << " -> " << result;
}

LogicalResult TransferOp::verify() {
  if (!isStageNumber(getStageAttr()))
    return emitOpError() << "goes to stage " << getStageAttr().getInt() << "; expected 0 to "
                         << kLastStage;
  auto before = cast<RankedTensorType>(getInput().getType());
  auto after = cast<RankedTensorType>(getType());
  bool mayDiffer = getFrom() && getTo();
  if (before == after || (mayDiffer && before.getRank() == after.getRank() &&
                          before.getElementType() == after.getElementType()))
    return success();
  return emitOpError() << "gives " << after << " for " << before
                       << "; expected the same tensor, or with 'from' and 'to' another part of it";
}
