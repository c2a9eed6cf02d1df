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

def AutoPar_BlockDotOp : AutoPar_Op<"block_dot", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>]> {
  let summary = "rows of bytes times weights of few bits, both scaled in blocks";
  let description = [{
    Made of a dot_general with `byte_blocks` by autopar-round-in-blocks, for CPUs with dot products of bytes; it has a kernel of its
    own. `bytes` is i8 [rows, parts, blocks, block / parts]: first what multiplies the first number of each byte of `weights`, which are
    ui8 [columns, blocks, block / parts], `parts` numbers of 8 / parts bits in each, the lowest bits first. `scales` are f32
    [rows, blocks] of `bytes` and [columns / 16, blocks, 16] of `weights`. The result [rows, columns] is the sum over blocks of both
    scales times the sum of products, which is exact, less the zero point times the sum of the row's bytes: `zeros` are f32 or ui8,
    [columns / 16, blocks, 16] or a single one, or ui8 with those of `parts` blocks in a byte as the weights have them; `sums` are
    f32 [rows, blocks].

    `%y = autopar.block_dot %a scales %s, %w scales %t zeros %z sums %u : (tensor<8x2x4x16xi8>, tensor<8x4xf32>,
       tensor<64x4x16xui8>, tensor<4x4x16xf32>, tensor<4x4x16xui8>, tensor<8x4xf32>) -> tensor<8x64xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$bytes, AutoPar_Tensor:$rowScales, AutoPar_Tensor:$weights, AutoPar_Tensor:$scales,
    Optional<AutoPar_Tensor>:$zeros, Optional<AutoPar_Tensor>:$sums);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = [{
    $bytes `scales` $rowScales `,` $weights `scales` $scales (`zeros` $zeros^ `sums` $sums)? attr-dict `:`
    functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Columns that a kernel computes together; their number is a multiple of it.
    static constexpr int64_t columnLanes = 16;
    /// Bytes of a column's weights that a kernel reads together; a column has a multiple of it.
    static constexpr int64_t readBytes = 16;
    /// The longest block of which a kernel still has a few in a cache.
    static constexpr int64_t longestBlock = 512;
    /// Whether there is a kernel for `columns` of `blocks` with `bytes` of weights each, of `parts` numbers.
    static bool isPossible(int64_t columns, int64_t blocks, int64_t bytes, int64_t parts);
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
