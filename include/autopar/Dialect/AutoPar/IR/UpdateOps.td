// SPDX-License-Identifier: Apache-2.0
// A parameter's update as one operation, and the formula that it follows.

#ifndef AUTOPAR_UPDATEOPS_TD
#define AUTOPAR_UPDATEOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_FormulaOp : AutoPar_Op<"formula", [Symbol, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"::mlir::autopar::YieldOp">]> {
  let summary = "how an element of a parameter and of its state follows from that of its gradient";
  let description = [{
    Elementwise operations and constants on tensors of rank 0.

    ```mlir
    autopar.formula @sgd {
    ^bb0(%w: tensor<f32>, %g: tensor<f32>, %rate: tensor<f32>):
      %step = autopar.binary mul %rate, %g : tensor<f32>
      %next = autopar.binary sub %w, %step : tensor<f32>
      autopar.yield %next : tensor<f32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasVerifier = 1;
}

def AutoPar_UpdateOp : AutoPar_Op<"update", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface>, DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "a formula, element by element";
  let description = [{
    The first operands are what a step replaces, a parameter and its state; then follow the gradient and numbers that
    parameters share (rank 0). The first results take their places in this order; any others are what further operations
    make the update of.
    `%next = autopar.update @sgd %w, %g, %rate : (tensor<64x64xf32>, tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$formula, Variadic<AutoPar_Tensor>:$inputs);
  let results = (outs Variadic<AutoPar_Tensor>:$results);
  let assemblyFormat = "$formula $inputs attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::autopar::FormulaOp lookupFormula();
  }];
}

#endif
