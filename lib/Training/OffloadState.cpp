// SPDX-License-Identifier: Apache-2.0
// The pass autopar-offload-state: what only the update of a parameter works on may lie in host
// memory, since it is needed once per step and the order in which it is needed is known.
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Training/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_OFFLOADSTATEPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct OffloadStatePass : mlir::autopar::impl::OffloadStatePassBase<OffloadStatePass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal())
      return;
    SignatureAttributes attributes = SignatureAttributes::ofArguments(function);
    bool hasAny = false;
    for (BlockArgument argument : function.getArguments())
      if (attributes.get(argument.getArgNumber(), "autopar.donated") && isOfUpdate(argument)) {
        attributes.set(argument.getArgNumber(), kOnHostAttribute, UnitAttr::get(&getContext()));
        hasAny = true;
      }
    attributes.write();
    if (!hasAny) {
      emitError(function.getLoc(), "offload: there is no state that only an update reads: the "
                                   "optimizer keeps none, and weights are read as they are");
      signalPassFailure();
    }
  }

private:
  /// Read by updates, and at most rounded once for everybody else.
  static bool isOfUpdate(BlockArgument argument) {
    auto type = cast<RankedTensorType>(argument.getType());
    size_t updates = llvm::count_if(argument.getUsers(), llvm::IsaPred<UpdateOp>);
    size_t casts = llvm::count_if(argument.getUsers(), llvm::IsaPred<CastOp>);
    auto users = static_cast<size_t>(std::distance(argument.user_begin(), argument.user_end()));
    return type.getRank() > 0 && updates > 0 && casts <= 1 && updates + casts == users;
  }
};

} // namespace
