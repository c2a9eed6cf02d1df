// SPDX-License-Identifier: Apache-2.0
#include "autopar/Transforms/HeldForm.h"

#include "autopar/Interfaces/ViewInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::autopar;

constexpr HeldForm kForms[] = {HeldForm::AsItIs, HeldForm::AlongRows, HeldForm::Packed};

StringRef mlir::autopar::nameOf(HeldForm form) {
  switch (form) {
  case HeldForm::AsItIs:
    return "as_it_is";
  case HeldForm::AlongRows:
    return "along_rows";
  case HeldForm::Packed:
    return "packed";
  }
  llvm_unreachable("no such form");
}

std::optional<HeldForm> mlir::autopar::heldFormOf(Value weights) {
  while (auto view = weights.getDefiningOp<ViewOpInterface>())
    weights = view->getOperand(0);
  auto argument = dyn_cast<BlockArgument>(weights);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  if (!function)
    return std::nullopt;
  auto name = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kHeldAttribute);
  for (HeldForm form : kForms)
    if (name && name == nameOf(form))
      return form;
  return std::nullopt;
}
