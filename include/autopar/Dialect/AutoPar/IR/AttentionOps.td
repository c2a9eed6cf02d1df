// SPDX-License-Identifier: Apache-2.0
// Attention as one operation, and its gradient.

#ifndef AUTOPAR_ATTENTIONOPS_TD
#define AUTOPAR_ATTENTIONOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_AttentionOp : AutoPar_Op<"attention", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["partition"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getWork"]>]> {
  let summary = "softmax(scale * query key^T + bias) value";
  let description = [{
    `query` is [batch, heads, rows, d], `key` [batch, groups, columns, d], `value` [batch, groups, columns, dv]; each
    group of keys and values serves heads / groups heads that lie next to each other. `bias` is added to the scaled
    scores; its dimensions are those of the scores [batch, heads, rows, columns], or 1 except for the last. With `causal` row i
    sees the columns up to i + columns - rows, and with `window` of these the last so many. With `shard` the rows are
    part number `shard` of so many equal ones, and row i sees the columns up to i + columns - (parts - shard) * rows: the
    triangle of all rows. `sink` [heads] is one more score in each row, of a column whose value is zero: weights leave it
    a share. Sums run in f32.

    The results are the output [batch, heads, rows, dv] and, for the gradient, the logarithm of the sum of
    exponentials of each row, that of the sink among them, in f32.

    `%o, %l = autopar.attention %q, %k, %v scale 1.250000e-01 causal : (tensor<2x4x8x64xf32>, ...) -> ...`
    `%o, %l = autopar.attention %q, %k, %v scale 1.250000e-01 causal window 128 : (tensor<2x4x512x64xf32>, ...) -> ...`
    `%o, %l = autopar.attention %q, %k, %v scale 1.250000e-01 causal shard %i of 4 : (..., tensor<i64>) -> ...`
  }];
  let arguments = (ins AutoPar_Tensor:$query, AutoPar_Tensor:$key, AutoPar_Tensor:$value,
    Optional<AutoPar_Tensor>:$bias, Optional<AutoPar_Tensor>:$sink, Optional<AutoPar_Tensor>:$shard, F64Attr:$scale,
    UnitAttr:$causal, OptionalAttr<I64Attr>:$window, OptionalAttr<I64Attr>:$parts);
  let results = (outs AutoPar_Tensor:$output, AutoPar_Tensor:$logSum);
  let builders = [
    /// `window` 0, no `bias`, no `sink`: there is none.
    OpBuilder<(ins "::mlir::Value":$query, "::mlir::Value":$key, "::mlir::Value":$value,
    "::mlir::Value":$bias, "double":$scale, "bool":$causal, CArg<"int64_t", "0">:$window,
    CArg<"::mlir::Value", "{}">:$sink)>];
  let assemblyFormat = [{
    $query `,` $key `,` $value (`bias` $bias^)? (`sink` $sink^)? `scale` $scale (`causal` $causal^)? (`window` $window^)?
    (`shard` $shard^ `of` $parts)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// FLOPs of a part of a triangle's rows on local types, as the mean of so many equal parts.
    double getMeanFlops(::llvm::ArrayRef<::mlir::RankedTensorType> operands, int64_t parts);
  }];
  let hasVerifier = 1;
}

def AutoPar_AttentionGradOp : AutoPar_Op<"attention_grad", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["partition"]>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getWork"]>]> {
  let summary = "the gradients of attention by query, key and value";
  let description = [{
    One kernel gives the three. `output` and `logSum` are what attention yielded, `gradient` is that of `output`. There
    is none by `bias`. All that a sink does to these is in `output` and `logSum`; its own gradient is a formula. With
    `shard` the gradients of key and value are what these rows contribute.
  }];
  let arguments = (ins AutoPar_Tensor:$query, AutoPar_Tensor:$key, AutoPar_Tensor:$value,
    AutoPar_Tensor:$output, AutoPar_Tensor:$logSum, AutoPar_Tensor:$gradient,
    Optional<AutoPar_Tensor>:$bias, Optional<AutoPar_Tensor>:$shard, F64Attr:$scale, UnitAttr:$causal,
    OptionalAttr<I64Attr>:$window, OptionalAttr<I64Attr>:$parts);
  let builders = [OpBuilder<(ins "AttentionOp":$attention, "::mlir::Value":$gradient)>];
  let results = (outs AutoPar_Tensor:$queryGradient, AutoPar_Tensor:$keyGradient, AutoPar_Tensor:$valueGradient);
  let assemblyFormat = [{
    $query `,` $key `,` $value `,` $output `,` $logSum `,` $gradient (`bias` $bias^)? `scale` $scale (`causal` $causal^)?
    (`window` $window^)? (`shard` $shard^ `of` $parts)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// As that of attention.
    double getMeanFlops(::llvm::ArrayRef<::mlir::RankedTensorType> operands, int64_t parts);
  }];
  let hasVerifier = 1;
}

#endif
