// SPDX-License-Identifier: Apache-2.0
// Arguments, told apart by their attributes.
#include "autopar/Dialect/AutoPar/IR/Arguments.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

static func::FuncOp functionOf(BlockArgument argument) {
  return dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
}

bool mlir::autopar::isOnHost(BlockArgument argument) {
  func::FuncOp function = functionOf(argument);
  return function && function.getArgAttr(argument.getArgNumber(), kOnHostAttribute);
}

std::string mlir::autopar::nameOfArgument(BlockArgument argument) {
  unsigned number = argument.getArgNumber();
  func::FuncOp function = functionOf(argument);
  auto name = function ? function.getArgAttrOfType<StringAttr>(number, "autopar.name") : nullptr;
  return name ? name.str() : "arg" + std::to_string(number);
}

bool mlir::autopar::isParameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  func::FuncOp function = argument ? functionOf(argument) : nullptr;
  return function && function.getArgAttr(argument.getArgNumber(), "autopar.origin");
}

BlockArgument mlir::autopar::parameterIn(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<CastOp>(op) && !isa<ViewOpInterface>(op))
      return {};
    value = op->getOperand(0);
  }
  return isParameter(value) ? cast<BlockArgument>(value) : BlockArgument();
}

SmallVector<BlockArgument> mlir::autopar::donorsOfResults(func::FuncOp function) {
  DenseMap<Attribute, BlockArgument> donated;
  for (BlockArgument argument : function.getArguments())
    if (Attribute name = function.getArgAttr(argument.getArgNumber(), "autopar.name");
        name && function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
      donated[name] = argument;
  return llvm::map_to_vector(llvm::seq(function.getNumResults()), [&](unsigned number) {
    return donated.lookup(function.getResultAttr(number, "autopar.name"));
  });
}

bool mlir::autopar::isDonorOf(Value value, unsigned result) {
  auto argument = dyn_cast<BlockArgument>(value);
  func::FuncOp function = argument ? functionOf(argument) : func::FuncOp();
  Attribute name =
      function ? function.getArgAttr(argument.getArgNumber(), "autopar.name") : Attribute();
  return name && function.getArgAttr(argument.getArgNumber(), "autopar.donated") &&
         function.getResultAttr(result, "autopar.name") == name;
}

llvm::SetVector<Operation *> mlir::autopar::madeOfParameters(func::FuncOp function) {
  llvm::SetVector<Operation *> made;
  auto isOfParameters = [&](Value value) {
    return isParameter(value) || made.contains(value.getDefiningOp());
  };
  for (Operation &op : function.getBody().front().without_terminator())
    if (llvm::any_of(op.getOperands(), isOfParameters) &&
        llvm::all_of(op.getOperands(), [&](Value operand) {
          Operation *producer = operand.getDefiningOp();
          return isOfParameters(operand) ||
                 (producer && producer->hasTrait<OpTrait::ConstantLike>());
        }))
      made.insert(&op);
  return made;
}

bool mlir::autopar::isFed(BlockArgument argument) {
  func::FuncOp function = functionOf(argument);
  return function && llvm::none_of(ArrayRef{"autopar.origin", "autopar.donated", "autopar.control"},
                                   [&](StringRef attribute) {
                                     return function.getArgAttr(argument.getArgNumber(), attribute);
                                   });
}

std::optional<int64_t> mlir::autopar::samplesOf(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(argument.getType());
        type && type.getRank() > 0 && isFed(argument))
      return type.getDimSize(0);
  return std::nullopt;
}

SignatureAttributes::SignatureAttributes(func::FuncOp function, bool areArguments)
    : function(function), areArguments(areArguments) {
  unsigned count = areArguments ? function.getNumArguments() : function.getNumResults();
  for (unsigned i = 0; i < count; ++i) {
    DictionaryAttr list = areArguments ? function.getArgAttrDict(i) : function.getResultAttrDict(i);
    lists.push_back(list ? list : DictionaryAttr::get(function.getContext()));
  }
}

SignatureAttributes SignatureAttributes::ofArguments(func::FuncOp function) {
  return {function, true};
}

SignatureAttributes SignatureAttributes::ofResults(func::FuncOp function) {
  return {function, false};
}

void SignatureAttributes::set(unsigned number, StringRef name, Attribute value) {
  NamedAttrList list(lists[number]);
  list.set(name, value);
  lists[number] = list.getDictionary(function.getContext());
}

void SignatureAttributes::write() {
  if (areArguments)
    function.setAllArgAttrs(lists);
  else
    function.setAllResultAttrs(lists);
}
