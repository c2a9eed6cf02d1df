// SPDX-License-Identifier: Apache-2.0
// Operations that move elements without computing with them.

#ifndef AUTOPAR_DATAMOVEMENTOPS_TD
#define AUTOPAR_DATAMOVEMENTOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"
include "autopar/Interfaces/ViewInterface.td"

// Only another look at the operand; `methods` of the view interface that the operation answers besides where its elements are.
class AutoPar_ViewOp<string mnemonic, list<string> methods>
    : AutoPar_ValueOp<mnemonic, [AutoPar_Light, DeclareOpInterfaceMethods<ViewOpInterface, methods>]>;

// Reads or changes elements of its first operand whose places are known at run time only; `sharding`, `cost`: what it answers of
// these interfaces besides.
class AutoPar_PickingOp<string mnemonic, list<string> sharding = [], list<string> cost = []>
    : AutoPar_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<ShardingRuleOpInterface, sharding>,
        DeclareOpInterfaceMethods<CostOpInterface, !listconcat(["getTouchedBytes"], cost)>]>;

def AutoPar_BroadcastOp : AutoPar_ValueOp<"broadcast", [AutoPar_Light]> {
  let summary = "repetition along new or unit dimensions";
  let description = [{
    Operand dimension i becomes result dimension `dims[i]` (ascending); an operand extent of 1 is
    repeated. `%y = autopar.broadcast %b dims [1] : tensor<256xf32> -> tensor<8x256xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, DenseI64ArrayAttr:$dims);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `dims` $dims attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_ReshapeOp : AutoPar_ViewOp<"reshape", ["getOperandStrides"]> {
  let summary = "the same elements in row-major order under another shape";
  let description = [{
    Operand and result have as many elements; element k in row-major order of the one is element k of the other. Sharding
    follows where dimensions are split or merged in order.
    `%y = autopar.reshape %x : tensor<8x16xf32> -> tensor<8x4x4xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def AutoPar_TransposeOp : AutoPar_ViewOp<"transpose", ["getOperandStrides"]> {
  let summary = "permutation of dimensions";
  let description = "Result dimension i is operand dimension `permutation[i]`.";
  let arguments = (ins AutoPar_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs AutoPar_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Value":$input, "::llvm::ArrayRef<int64_t>":$permutation)>];
  let assemblyFormat = "$input `permutation` $permutation attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def AutoPar_SliceOp : AutoPar_ViewOp<"slice", ["hasAllElements"]> {
  let summary = "elements at start + i * step in every dimension";
  let description = "Steps may be negative (reversal), never zero.";
  let arguments = (ins AutoPar_Tensor:$input, DenseI64ArrayAttr:$starts, DenseI64ArrayAttr:$steps);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `starts` $starts `steps` $steps attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def AutoPar_PadOp : AutoPar_ValueOp<"pad"> {
  let summary = "a border of one value around the input";
  let description = "`low` elements before, the rest of the result extent after. `value` is a scalar tensor.";
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_Tensor:$value, DenseI64ArrayAttr:$low);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `,` $value `low` $low attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_ConcatOp : AutoPar_ValueOp<"concat"> {
  let summary = "operands one after the other along a dimension";
  let description = [{
    Operands agree in all dimensions but `dim`, whose extents add up in the result.
    `%y = autopar.concat %a, %b dim 1 : (tensor<8x4xf32>, tensor<8x2xf32>) -> tensor<8x6xf32>`
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$inputs, I64Attr:$dim);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_DynamicSliceOp : AutoPar_PickingOp<"dynamic_slice"> {
  let summary = "a block that starts at run-time positions";
  let description = [{
    `starts` are i64 scalar tensors, one per dimension, not negative; positions past the end of the
    input read as zero. Partition uses it to take this rank's shard.
  }];
  let arguments = (ins AutoPar_Tensor:$input, Variadic<AutoPar_Tensor>:$starts);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `[` $starts `]` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_GatherOp : AutoPar_PickingOp<"gather", ["partition"]> {
  let summary = "elements or slices at given positions";
  let description = [{
    `indices` is [batch..., S..., k] where k = number of `dims` (consecutive dimensions of `input`),
    and the first `batchDims` dimensions of `input` and `indices` correspond. Result: dimensions of
    `input` before dims[0], S..., dimensions of `input` after the last of `dims`. Negative positions
    count from the end; others outside the extent are clamped.
    ONNX Gather on axis a: dims [a], indices reshaped to [..., 1]; GatherND: dims [b .. b+k-1].
  }];
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_IndexTensor:$indices, DenseI64ArrayAttr:$dims, I64Attr:$batchDims);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `dims` $dims `batch` $batchDims attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_GatherElementsOp : AutoPar_PickingOp<"gather_elements"> {
  let summary = "for every position, the element whose index along a dimension is given";
  let description = "As ONNX GatherElements; negative positions count from the end.";
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_IndexTensor:$indices, I64Attr:$dim);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `,` $indices `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_ScatterOp : AutoPar_PickingOp<"scatter", ["partition"], ["getFlops"]> {
  let summary = "a copy of the input with slices combined in at given positions";
  let description = [{
    As ONNX ScatterND: `indices` is [S..., k] into the first k dimensions of `input`, `updates` is
    [S..., remaining dimensions]. Updates are applied in row-major order of S; negative positions
    count from the end, others outside the extent change nothing.
    With `batch` the first dimensions of all three correspond, as those of `gather`: `indices` is
    [batch..., S..., k] into the k dimensions behind them, `updates` is [batch..., S..., remaining].
  }];
  let arguments = (ins AutoPar_ScatterKindAttr:$kind, AutoPar_Tensor:$input, AutoPar_IndexTensor:$indices,
                       AutoPar_Tensor:$updates, DefaultValuedAttr<I64Attr, "0">:$batchDims);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input `,` $indices `,` $updates (`batch` $batchDims^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_ScatterElementsOp : AutoPar_PickingOp<"scatter_elements", [], ["getFlops"]> {
  let summary = "a copy of the input with elements combined in at given positions along a dimension";
  let description = "As ONNX ScatterElements; updates are applied in row-major order.";
  let arguments = (ins AutoPar_ScatterKindAttr:$kind, AutoPar_Tensor:$input, AutoPar_IndexTensor:$indices,
                       AutoPar_Tensor:$updates, I64Attr:$dim);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input `,` $indices `,` $updates `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
