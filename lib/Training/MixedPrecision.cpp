// SPDX-License-Identifier: Apache-2.0
// The pass autopar-mixed-precision on the forward function. Each operation says through
// PrecisionOpInterface what it does in narrow floats; here values get their types accordingly, and
// casts stand where they differ.
#include "autopar/Training/MixedPrecision.h"

#include "PrecisionCasts.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Training/Passes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_MIXEDPRECISIONPASS
#include "autopar/Training/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

FloatType mlir::autopar::precisionType(MLIRContext *context, StringRef word) {
  if (word == "f32")
    return Float32Type::get(context);
  if (word == "bf16" || word == "fp8") // what is not multiplied in 8 bits
    return BFloat16Type::get(context);
  if (word == "fp16")
    return Float16Type::get(context);
  return {};
}

namespace {

void computeNarrow(Operation *op, PrecisionCasts &casts, FloatType narrow) {
  auto narrows = [&](Value value) {
    auto known = dyn_cast<PrecisionOpInterface>(op);
    return casts.isWide(value) && !(known && known.staysWide(value));
  };
  for (OpOperand &operand : op->getOpOperands())
    if (narrows(operand.get()))
      operand.set(casts.narrow(operand.get()));
  for (Value result : op->getResults())
    if (narrows(result))
      result.setType(cast<RankedTensorType>(result.getType()).clone(narrow));
}

/// Norms whose scale and bias follow: values in f32 that are rounded with what is made of them.
class UnroundedNorms {
public:
  bool contains(Value value) const { return values.contains(value); }
  /// Whether `op` is a norm, or a step behind one, that another step alone reads.
  bool take(Operation *op) {
    bool isStep = isa<NormalizeOp>(op) ||
                  (isa<BinaryOp>(op) && llvm::any_of(op->getOperands(), [&](Value operand) {
                     return values.contains(operand);
                   }));
    if (!isStep || !op->hasOneUse() || !isa<BinaryOp>(*op->user_begin()))
      return false;
    values.insert(op->getResult(0));
    return true;
  }

private:
  DenseSet<Value> values;
};

/// Whether a value is only ever rounded. Views of it that nobody reads any more go.
bool isReadNarrow(Value value, const PrecisionCasts &casts) {
  for (Operation *user : llvm::SmallSetVector<Operation *, 4>(value.user_begin(), value.user_end()))
    if (isOpTriviallyDead(user))
      user->erase();
  return casts.isWide(value) && llvm::all_of(value.getUsers(), [&](Operation *user) {
           auto cast = dyn_cast<CastOp>(user);
           return cast && casts.isNarrow(cast);
         });
}

/// State that is written and read in the narrow type is kept in it: in f32, a step would round and
/// widen all of a cache, of which it writes a row.
void keepStateNarrow(func::FuncOp function, FloatType narrow, const PrecisionCasts &casts) {
  Operation *returns = function.getBody().front().getTerminator();
  SmallVector<Type> inputs(function.getArgumentTypes()), outputs(function.getResultTypes());
  for (auto [number, state] : llvm::enumerate(donorsOfResults(function))) {
    if (!state || !casts.isNarrow(returns->getOperand(number)) || !isReadNarrow(state, casts))
      continue;
    for (Operation *rounding : llvm::make_early_inc_range(state.getUsers())) {
      rounding->getResult(0).replaceAllUsesWith(state);
      rounding->erase();
    }
    state.setType(cast<RankedTensorType>(state.getType()).clone(narrow));
    inputs[state.getArgNumber()] = outputs[number] = state.getType();
  }
  function.setType(FunctionType::get(function.getContext(), inputs, outputs));
}

void narrowFunction(func::FuncOp function, FloatType narrow, bool isInference) {
  PrecisionCasts casts(function, narrow);
  UnroundedNorms unrounded;
  for (Operation *op : operationsOf(function)) {
    bool readsNarrow = llvm::any_of(op->getOperands(), [&](Value value) {
      return casts.isNarrow(value) || unrounded.contains(value);
    });
    switch (precisionOf(op)) {
    case Precision::Narrow:
      computeNarrow(op, casts, narrow);
      break;
    case Precision::AsOperands:
      if (readsNarrow)
        computeNarrow(op, casts, narrow);
      break;
    case Precision::Rounded:
      casts.computeWide(op, readsNarrow && !(isInference && unrounded.take(op)));
      break;
    case Precision::Wide:
      casts.computeWide(op, false);
      break;
    }
  }
  keepStateNarrow(function, narrow, casts);
  Operation *returns = function.getBody().front().getTerminator();
  for (auto [operand, type] : llvm::zip_equal(returns->getOpOperands(), function.getResultTypes()))
    if (operand.get().getType() != type)
      operand.set(casts.widen(operand.get()));
}

struct MixedPrecisionPass : mlir::autopar::impl::MixedPrecisionPassBase<MixedPrecisionPass> {
  using Base::Base;

  void runOnOperation() override {
    FloatType narrow = precisionType(&getContext(), precision);
    if (!narrow) {
      getOperation().emitError() << "precision: expected f32, bf16, fp16 or fp8, got \""
                                 << precision << "\"";
      return signalPassFailure();
    }
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock()) {
      getOperation().emitError("expected a function @main of one block to narrow");
      return signalPassFailure();
    }
    if (narrow.isF32())
      return;
    narrowFunction(function, narrow, inference);
    function->setAttr(kPrecisionAttribute, TypeAttr::get(narrow));
  }
};

} // namespace
