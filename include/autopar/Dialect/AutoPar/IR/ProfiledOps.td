// SPDX-License-Identifier: Apache-2.0
// Operations of which only measurements are known: a step of a model that nobody wrote down, to be
// planned.

#ifndef AUTOPAR_PROFILEDOPS_TD
#define AUTOPAR_PROFILEDOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_ProfileChoiceAttr : AutoPar_Attr<"ProfileChoice", "profile_choice"> {
  let summary = "one way to share a measured operation among ranks";
  let description = [{
    How inputs and outputs lie: the number of a dimension behind the samples, -1 for whole, -2 for a partial sum.
    `weight`: whether the weight is split. `included`: whether times hold the collectives.
    `#autopar.profile_choice<"columns", inputs = [-1], outputs = [0], weight = true, included = false>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::DenseI64ArrayAttr":$inputs,
                        "::mlir::DenseI64ArrayAttr":$outputs, "bool":$weight, "bool":$included);
  let assemblyFormat = "`<` $name `,` `inputs` `=` $inputs `,` `outputs` `=` $outputs `,` `weight` `=` $weight `,` `included` `=` $included `>`";
  let extraClassDeclaration = [{
    static constexpr int64_t kWhole = -1, kPartial = -2;
  }];
}

def AutoPar_ProfileAttr : AutoPar_Attr<"Profile", "profile"> {
  let summary = "what was measured of an operation";
  let description = [{
    Rows of `sizes` hold batch, degree, choice (-1 at degree 1), saved bytes, workspace of the forward and of the backward
    pass; rows of `times` the microseconds of the forward pass, of the gradients of inputs, of that of the weight. `extent` is
    that of every dimension that degrees split.
  }];
  let parameters = (ins "::mlir::StringAttr":$key, "int64_t":$extent, "::mlir::ArrayAttr":$choices,
                        "::mlir::DenseI64ArrayAttr":$sizes, "::mlir::DenseF64ArrayAttr":$times);
  let assemblyFormat = "`<` $key `,` `extent` `=` $extent `,` `choices` `=` $choices `,` `sizes` `=` $sizes `,` `times` `=` $times `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static constexpr int64_t kSizes = 6, kTimes = 3;
    int64_t rowCount() { return getTimes().size() / kTimes; }
    /// The row for what a saved value of this local shape says; -1 where nobody measured that.
    int64_t rowFor(::llvm::ArrayRef<int64_t> saved);
    /// Microseconds by column of `times`; infinite where nobody measured that. With `mayScale` in
    /// proportion to the most similar row.
    double timeUs(::llvm::ArrayRef<int64_t> saved, int64_t column, bool mayScale);
    /// Bytes by column of `sizes`; 0 where nobody measured that.
    int64_t bytes(::llvm::ArrayRef<int64_t> saved, int64_t column);
    ::mlir::autopar::ProfileChoiceAttr choice(int64_t number);
  }];
}

class AutoPar_MeasuredOp<string mnemonic, list<Trait> traits = []>
    : AutoPar_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface, ["getMeasuredUs", "getMeasuredBytes"]>], traits)>;

def AutoPar_ProfiledOp : AutoPar_MeasuredOp<"profiled", [AttrSizedOperandSegments]> {
  let summary = "an operation of a profile database";
  let description = [{
    Values are [samples, a dimension for each that degrees split]; a loss has no dimension. `saved` is kept for the
    backward pass, `workspace` while the operation runs; their shape [samples, `extent` for each choice] tells how the
    operation is split, their bytes are those that were measured. It cannot be run.

    `%y, %s, %w = autopar.profiled %x weight %p by #fc1 : (tensor<8x64xf32>, tensor<512xf32>) -> (tensor<8x64xf32>, tensor<8x2xi8>, tensor<8x2xi8>)`
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$inputs, Optional<AutoPar_Tensor>:$weight, AutoPar_ProfileAttr:$profile);
  let results = (outs Variadic<AutoPar_Tensor>:$outputs, AutoPar_Tensor:$saved, AutoPar_Tensor:$workspace);
  let assemblyFormat = "$inputs (`weight` $weight^)? `by` $profile attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_ProfiledBackwardOp : AutoPar_MeasuredOp<"profiled_backward"> {
  let summary = "gradients of the inputs of a measured operation";
  let description = [{
    `inputs` are the numbers of the inputs whose gradients it gives.
    `%dx, %w = autopar.profiled_backward %dy saved %s by #fc1 inputs [0] : (tensor<8x64xf32>, tensor<8x2xi8>) -> (tensor<8x64xf32>, tensor<8x2xi8>)`
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$cotangents, AutoPar_Tensor:$saved, AutoPar_ProfileAttr:$profile,
                       DenseI64ArrayAttr:$inputs);
  let results = (outs Variadic<AutoPar_Tensor>:$gradients, AutoPar_Tensor:$workspace);
  let assemblyFormat = "$cotangents `saved` $saved `by` $profile `inputs` $inputs attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_ProfiledWeightGradientOp : AutoPar_MeasuredOp<"profiled_weight_gradient"> {
  let summary = "gradient of the weight of a measured operation";
  let description = [{
    `whole`: no gradients of inputs are asked for, and all of the backward time is the weight's.
    `%dp, %w = autopar.profiled_weight_gradient %dy saved %s by #fc1 : (tensor<8x64xf32>, tensor<8x2xi8>) -> (tensor<512xf32>, tensor<8x2xi8>)`
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$cotangents, AutoPar_Tensor:$saved, AutoPar_ProfileAttr:$profile,
                       UnitAttr:$whole);
  let results = (outs AutoPar_Tensor:$gradient, AutoPar_Tensor:$workspace);
  let assemblyFormat = "$cotangents `saved` $saved `by` $profile (`whole` $whole^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
