// SPDX-License-Identifier: Apache-2.0
#include "autopar/Transforms/PlannedOffload.h"

#include "Cost/StepOutline.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;

LogicalResult mlir::autopar::offloadAsPlanned(func::FuncOp function, const ::autopar::Plan &plan) {
  llvm::StringSet<> names;
  names.insert_range(plan.offload);
  SignatureAttributes attributes = SignatureAttributes::ofArguments(function);
  SmallVector<unsigned> kept;
  for (unsigned number = 0; number < function.getNumArguments(); ++number)
    if (attributes.get(number, "autopar.donated") &&
        names.erase(planNameOfArgument(function, number)))
      attributes.set(number, kOnHostAttribute, UnitAttr::get(function.getContext()));
    else if (attributes.get(number, kOnHostAttribute))
      kept.push_back(number);
  if (!names.empty())
    return emitError(function->getParentOp()->getLoc())
           << "plan: offload: names \"" << names.begin()->getKey()
           << "\", which is no state of @main";
  attributes.write();
  for (unsigned number : kept)
    function.removeArgAttr(number, kOnHostAttribute);
  return success();
}
