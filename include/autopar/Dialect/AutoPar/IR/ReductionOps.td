// SPDX-License-Identifier: Apache-2.0
// Reductions, windows, scans, and the row composites softmax and normalize.

#ifndef AUTOPAR_REDUCTIONOPS_TD
#define AUTOPAR_REDUCTIONOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_ReduceOp : AutoPar_ValueOp<"reduce"> {
  let summary = "combination of all elements along dimensions";
  let description = [{
    The reduced dimensions disappear. Sums of f16 and bf16 are accumulated in f32.
    `%y = autopar.reduce sum %x dims [1] : tensor<8x16xf32> -> tensor<8xf32>`
  }];
  let arguments = (ins AutoPar_ReduceKindAttr:$kind, AutoPar_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs AutoPar_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::autopar::ReduceKind":$kind, "::mlir::Value":$input,
                                 "::llvm::ArrayRef<int64_t>":$dims)>];
  let assemblyFormat = "`` $kind $input `dims` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_ArgReduceOp : AutoPar_ValueOp<"arg_reduce"> {
  let summary = "position of the largest or smallest element along a dimension";
  let description = [{
    `kind` is max or min; the dimension disappears; the result is i64. Of equal elements the first
    is taken, or the last where `selectLast` is set.
  }];
  let arguments = (ins AutoPar_ReduceKindAttr:$kind, AutoPar_Tensor:$input, I64Attr:$dim, UnitAttr:$selectLast);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input `dim` $dim (`last` $selectLast^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_PoolOp : AutoPar_ValueOp<"pool"> {
  let summary = "reduction over a sliding window";
  let description = [{
    All arrays have one entry per dimension of `input`. Positions outside the input are skipped (the
    identity of `kind`); an average is a sum divided by a count, which is a pool of ones.
  }];
  let arguments = (ins AutoPar_ReduceKindAttr:$kind, AutoPar_Tensor:$input,
    DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padBegin,
    DenseI64ArrayAttr:$padEnd, DenseI64ArrayAttr:$dilations);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_ArgPoolOp : AutoPar_PositionalOp<"arg_pool"> {
  let summary = "linear position of the largest element in a sliding window";
  let description = [{
    As `pool max`, but yields where the first largest element of the window stands: its row-major
    index (i64) over all dimensions of `input`, as ONNX MaxPool's Indices. With `columnMajor` the
    spatial dimensions (all but the first two) are counted with the first one innermost.
  }];
  let arguments = (ins AutoPar_Tensor:$input,
    DenseI64ArrayAttr:$window, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padBegin,
    DenseI64ArrayAttr:$padEnd, DenseI64ArrayAttr:$dilations, UnitAttr:$columnMajor);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_CumulativeOp : AutoPar_ValueOp<"cumulative", [SameOperandsAndResultType]> {
  let summary = "running combination along a dimension";
  let description = [{
    Result i combines the elements 0 to i along `dim`; with `exclusive` those before i (the first is the identity of `kind`),
    with `reverse` those from i to the end. Operand and result have one shape.
    `%y = autopar.cumulative sum %x dim 1 exclusive : tensor<8x16xf32>`
  }];
  let arguments = (ins AutoPar_ReduceKindAttr:$kind, AutoPar_Tensor:$input, I64Attr:$dim,
                       UnitAttr:$exclusive, UnitAttr:$reverse);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input `dim` $dim (`exclusive` $exclusive^)? (`reverse` $reverse^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_SoftmaxOp : AutoPar_ValueOp<"softmax", [SameOperandsAndResultType]> {
  let summary = "exponentials normalized along a dimension";
  let description = "With `log` the logarithm of the softmax. Computed with the row maximum subtracted.";
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$dim, UnitAttr:$log);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `dim` $dim (`log` $log^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_SoftmaxGradOp : AutoPar_GradientOp<"softmax_grad"> {
  let summary = "the gradient of a softmax by its input";
  let description = [{
    `output` is what the softmax yielded, `gradient` that of `output`:
    `%d = autopar.softmax_grad %y, %g dim 1 : tensor<8x256xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$output, AutoPar_Tensor:$gradient, I64Attr:$dim, UnitAttr:$log);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$output `,` $gradient `dim` $dim (`log` $log^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_NormalizeOp : AutoPar_ValueOp<"normalize", [SameOperandsAndResultType]> {
  let summary = "values brought to zero mean and unit variance along dimensions";
  let description = [{
    (x - mean) / sqrt(variance + epsilon) over the trailing dimensions `dims`; with `rms` the mean is not subtracted
    and the mean square takes the place of the variance. Scale and bias are operations of their own,
    fused later. Statistics are computed in f32 (f64 for f64).
  }];
  let arguments = (ins AutoPar_Tensor:$input, DenseI64ArrayAttr:$dims, F64Attr:$epsilon, UnitAttr:$rms);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `dims` $dims `epsilon` $epsilon (`rms` $rms^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_NormalizeAgainOp : AutoPar_GradientOp<"normalize_again"> {
  let summary = "what a normalization yielded, for its derivatives";
  let description = [{
    The value of `autopar.normalize` on the same operand, computed in the backward pass, which then keeps the operand
    and not the value, too: kernels take the statistics of a row from it and the value element by element.
    `%y = autopar.normalize_again %x dims [1] epsilon 1.0e-05 : tensor<8x256xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, DenseI64ArrayAttr:$dims, F64Attr:$epsilon, UnitAttr:$rms);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `dims` $dims `epsilon` $epsilon (`rms` $rms^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_NormalizeGradOp : AutoPar_GradientOp<"normalize_grad"> {
  let summary = "the gradient of a normalization by its input";
  let description = [{
    `output` is what the normalization of `input` yielded, `gradient` that of `output`; statistics are computed again:
    `%d = autopar.normalize_grad %x, %y, %g dims [1] epsilon 1.0e-05 : tensor<8x256xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_Tensor:$output, AutoPar_Tensor:$gradient,
                       DenseI64ArrayAttr:$dims, F64Attr:$epsilon, UnitAttr:$rms);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `,` $output `,` $gradient `dims` $dims `epsilon` $epsilon (`rms` $rms^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_TopKOp : AutoPar_ValueOp<"top_k"> {
  let summary = "the k largest or smallest elements along a dimension, and their positions";
  let description = [{
    Sorted; of equal elements the one at the lower position comes first, and NaN counts as greater
    than all numbers. With k equal to the extent it is a sort.
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$dim, UnitAttr:$smallest);
  let results = (outs AutoPar_Tensor:$values, AutoPar_Tensor:$indices);
  let assemblyFormat = "$input `dim` $dim (`smallest` $smallest^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
