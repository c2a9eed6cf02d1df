// SPDX-License-Identifier: Apache-2.0
// Meshes, groups, fences, copies in host memory: verification, syntax, sharding rule.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "autopar/Base/Utf8.h"
#include "autopar/Cost/Cluster.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- mesh ---------------------------------------------------------------------------------===//

static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes, DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> extents;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseString(&name) || parser.parseEqual() || parser.parseInteger(size))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    extents.push_back(size);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis))
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(extents);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, Operation *, ArrayAttr axes,
                          DenseI64ArrayAttr sizes) {
  printer << "[";
  llvm::interleaveComma(llvm::zip(axes, sizes.asArrayRef()), printer, [&](auto pair) {
    printer << std::get<0>(pair) << " = " << std::get<1>(pair);
  });
  printer << "]";
}

LogicalResult MeshOp::verify() {
  llvm::StringSet<> seen;
  if (getAxes().size() != getSizes().size())
    return emitOpError("expects one size per axis");
  for (StringAttr axis : getAxes().getAsRange<StringAttr>()) {
    if (!::autopar::isUtf8(axis.getValue()))
      return emitOpError() << "expects names of axes in UTF-8, got " << axis;
    if (!seen.insert(axis.getValue()).second)
      return emitOpError() << "axis " << axis << " is declared twice";
  }
  for (int64_t size : getSizes())
    if (size < 1)
      return emitOpError("expects positive axis sizes");
  int64_t ranks = 1;
  for (int64_t size : getSizes()) {
    if (size > ::autopar::kMostDevices / ranks)
      return emitOpError() << "expects at most " << ::autopar::kMostDevices << " ranks";
    ranks *= size;
  }
  if (getDevices() && static_cast<int64_t>(getDevices()->size()) != rankCount())
    return emitOpError() << "expects " << rankCount() << " devices, got " << getDevices()->size();
  return success();
}

std::optional<int64_t> MeshOp::axisSize(StringRef axis) {
  for (auto [name, size] : llvm::zip(getAxes().getAsRange<StringAttr>(), getSizes()))
    if (name.getValue() == axis)
      return size;
  return std::nullopt;
}

int64_t MeshOp::axesSize(ArrayAttr axes) {
  int64_t product = 1;
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    product *= *axisSize(axis.getValue());
  return product;
}

int64_t MeshOp::rankCount() { return llvm::product_of(getSizes()); }

//===-- group --------------------------------------------------------------------------------===//

void YieldOp::build(OpBuilder &, OperationState &) {}

LogicalResult GroupOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError("expects block arguments of the operands' types");
  auto yield = block.empty() ? YieldOp() : dyn_cast<YieldOp>(block.back());
  if (!yield)
    return emitOpError("expects to end with autopar.yield");
  if (yield.getValues().getTypes() != getResultTypes())
    return emitOpError("expects to yield values of the result types");
  return success();
}

// Of StageOps.cpp, for the syntax of all operations.
namespace mlir::autopar {
ParseResult parseTransferTypes(OpAsmParser &parser, Type &input, Type &result);
void printTransferTypes(OpAsmPrinter &printer, Operation *op, Type input, Type result);
} // namespace mlir::autopar

#define GET_OP_CLASSES
#include "autopar/Dialect/AutoPar/IR/AutoParOps.cpp.inc"

//===-- fence --------------------------------------------------------------------------------===//

LogicalResult FenceOp::verify() {
  if (getInputs().empty())
    return emitOpError("expects at least one value");
  if (getInputs().getTypes() != getResultTypes())
    return emitOpError() << "expects results of the types of the inputs, ("
                         << getInputs().getTypes() << "), got (" << getResultTypes() << ")";
  return success();
}

/// Every dimension is free; the gradient is only waited for.
ShardingRule FenceOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  for (auto [number, value] : llvm::enumerate(getOperands())) {
    auto type = cast<RankedTensorType>(value.getType());
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      SmallVector<int64_t> operands(getNumOperands(), ShardingRule::absent),
          results(getNumResults(), ShardingRule::absent);
      operands[number] = dim;
      if (number < getNumResults())
        results[number] = dim;
      rule.addFactor(operands, results, type.getDimSize(dim));
    }
  }
  return rule;
}

//===-- store_on_host, fetch_from_host -------------------------------------------------------===//

LogicalResult StoreOnHostOp::verify() {
  for (Operation *user : getResult().getUsers())
    if (!isa<FetchFromHostOp, RoundBeginOp, RoundEndOp>(user))
      return emitOpError() << "lies in host memory, where only 'autopar.fetch_from_host' reads it, "
                              "got '"
                           << user->getName() << "'";
  return success();
}

LogicalResult FetchFromHostOp::verify() {
  if (!isa_and_nonnull<StoreOnHostOp, RoundBeginOp, RoundEndOp>(getInput().getDefiningOp()))
    return emitOpError("expects the result of 'autopar.store_on_host'");
  return success();
}
