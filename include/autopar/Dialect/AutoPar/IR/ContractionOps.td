// SPDX-License-Identifier: Apache-2.0
// Matrix products and convolutions: the operations for which a library is called.

#ifndef AUTOPAR_CONTRACTIONOPS_TD
#define AUTOPAR_CONTRACTIONOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_DotGeneralOp : AutoPar_Op<"dot_general", [Pure,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops", "getTouchedBytes", "getFlopsType", "getBytesAhead"]>]> {
  let summary = "sum of products over contracted dimensions";
  let description = [{
    Result dimensions: batch dimensions, then the remaining ones of `lhs`, then those of `rhs`.

    With `scaled_to`, a type of 8 bits, what is multiplied are the operands' elements rounded to that type: all that are
    summed for one element of the result (a row of an operand) are first multiplied by the power of two that brings the largest of them
    closest to the type's largest number, and the sum is divided by it. Rows are those of what a device holds; a part of a
    row may be scaled higher than the whole, which is seen in elements 2^14 times smaller than its largest alone.

    With `byte_blocks`, a number, the elements of `lhs` may be rounded to 8 bits in blocks of so many along the contracted
    dimension: each to one of 127 steps of both signs, of which the largest is the largest magnitude of its block. Where processors
    gain by it all such products are rounded, elsewhere none; a device has whole blocks.

    `%y = autopar.dot_general %x, %w batch [0] x [0] contract [2] x [1]
       : (tensor<4x8x16xf32>, tensor<4x16x32xf32>) -> tensor<4x8x32xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$lhs, AutoPar_Tensor:$rhs,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$lhsBatch, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$rhsBatch,
    DenseI64ArrayAttr:$lhsContract, DenseI64ArrayAttr:$rhsContract, OptionalAttr<TypeAttr>:$scaledTo,
    OptionalAttr<I64Attr>:$byteBlocks);
  let results = (outs AutoPar_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$lhs, "::mlir::Value":$rhs,
    "::llvm::ArrayRef<int64_t>":$lhsBatch, "::llvm::ArrayRef<int64_t>":$rhsBatch,
    "::llvm::ArrayRef<int64_t>":$lhsContract, "::llvm::ArrayRef<int64_t>":$rhsContract)>,
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$lhs, "::mlir::Value":$rhs,
    "::llvm::ArrayRef<int64_t>":$lhsBatch, "::llvm::ArrayRef<int64_t>":$rhsBatch,
    "::llvm::ArrayRef<int64_t>":$lhsContract, "::llvm::ArrayRef<int64_t>":$rhsContract), [{
      build($_builder, $_state, result, lhs, rhs, lhsBatch, rhsBatch, lhsContract, rhsContract, ::mlir::TypeAttr(), ::mlir::IntegerAttr());
    }]>];
  let assemblyFormat = [{
    $lhs `,` $rhs (`batch` $lhsBatch^ `x` $rhsBatch)? `contract` $lhsContract `x` $rhsContract (`scaled_to` $scaledTo^)?
    (`byte_blocks` $byteBlocks^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Dimensions of an operand that are neither batch nor contracted, in order.
    ::llvm::SmallVector<int64_t> getLhsFree();
    ::llvm::SmallVector<int64_t> getRhsFree();
  }];
}

def AutoPar_ConvolutionOp : AutoPar_Op<"convolution", [Pure,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["partition"]>, DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "cross-correlation over spatial dimensions";
  let description = [{
    `input` is [batch, channels, spatial...], `filter` is [out channels, channels / groups, kernel...].
    `strides` step the window, `inputDilation` spreads the input (transposed convolution),
    `filterDilation` spreads the filter; `padBegin` and `padEnd` may be negative. The result is
    [batch, out channels, spatial...].
  }];
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_Tensor:$filter,
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padBegin, DenseI64ArrayAttr:$padEnd,
    DenseI64ArrayAttr:$inputDilation, DenseI64ArrayAttr:$filterDilation, I64Attr:$groups);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `,` $filter attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

class AutoPar_ConvolutionGradient<string mnemonic> : AutoPar_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["partition"]>, DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_ConvolutionInputGradOp : AutoPar_ConvolutionGradient<"convolution_input_grad"> {
  let summary = "the gradient of a convolution's input";
  let description = [{
    `gradient` is that of the result of a convolution with these attributes, whose input has the type of `result`.
  }];
  let arguments = (ins AutoPar_Tensor:$gradient, AutoPar_Tensor:$filter,
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padBegin, DenseI64ArrayAttr:$padEnd,
    DenseI64ArrayAttr:$inputDilation, DenseI64ArrayAttr:$filterDilation, I64Attr:$groups);
}

def AutoPar_ConvolutionFilterGradOp : AutoPar_ConvolutionGradient<"convolution_filter_grad"> {
  let summary = "the gradient of a convolution's filter";
  let description = [{
    `gradient` is that of the result of a convolution with these attributes, whose filter has the type of `result`.
  }];
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_Tensor:$gradient,
    DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$padBegin, DenseI64ArrayAttr:$padEnd,
    DenseI64ArrayAttr:$inputDilation, DenseI64ArrayAttr:$filterDilation, I64Attr:$groups);
}

#endif
