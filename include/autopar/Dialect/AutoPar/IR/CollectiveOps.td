// SPDX-License-Identifier: Apache-2.0
// Distribution: resharding of whole tensors, and the collectives on local tensors that it becomes.

#ifndef AUTOPAR_COLLECTIVEOPS_TD
#define AUTOPAR_COLLECTIVEOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"
include "autopar/Interfaces/CollectiveInterface.td"

def AutoPar_ReshardOp : AutoPar_Op<"reshard", [Pure, SameOperandsAndResultType]> {
  let summary = "the same tensor under another sharding";
  let description = [{
    On whole shapes. Partition expands it into collectives and local slices.
    `%y = autopar.reshard %x from <@m, [{"t"}, {} ]> to <@m, [{}, {} ]> : tensor<8x4xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_ShardingAttr:$from, AutoPar_ShardingAttr:$to);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `from` $from `to` $to attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_HoldOp : AutoPar_PositionalOp<"hold", [SameOperandsAndResultType]> {
  let summary = "the same value, free to lie in a way of its own from here on";
  let description = [{
    A place where a value may change its sharding although nothing is computed: a parameter as one
    phase reads it, a gradient while it waits for the update. With `unreduced` a partial sum may stay one.
    Has an id, so that a plan speaks of it; one without a strategy changes nothing. Partition drops it.
    `%g = autopar.hold unreduced %0 {autopar.id = "w/gradient"} : tensor<8x4xf32>`
  }];
  let arguments = (ins UnitAttr:$unreduced, AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "(`unreduced` $unreduced^)? $input attr-dict `:` type($result)";
}

def AutoPar_ShardIndexOp : AutoPar_Op<"shard_index", [Pure]> {
  let summary = "this rank's row-major position along mesh axes";
  let description = [{
    An i64 scalar, the first axis outermost, that differs between ranks. Partition makes it where
    an operation has to know its place (a slice, a gather over a split dimension); the number comes from the rank table.
    With `numbers` it is the number that the list has for that position.
    `%i = autopar.shard_index @mesh ["t"] : tensor<i64>`
    `%i = autopar.shard_index @mesh ["t"] numbers [0, 2, 1] : tensor<i64>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes, OptionalAttr<DenseI64ArrayAttr>:$numbers);
  let results = (outs AutoPar_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::FlatSymbolRefAttr":$mesh, "::mlir::ArrayAttr":$axes),
                            [{ build($_builder, $_state, type, mesh, axes, /*numbers=*/nullptr); }]>];
  let assemblyFormat = "$mesh $axes (`numbers` $numbers^)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

// Data between ranks. `methods`: what the operation answers of the collective interface besides its kind, mesh and axes.
class AutoPar_CollectiveOp<string mnemonic, list<string> methods, list<Trait> traits = []>
    : AutoPar_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<CollectiveOpInterface, methods>], traits)>;

def AutoPar_AllReduceOp : AutoPar_CollectiveOp<"all_reduce", ["getReduction"], [SameOperandsAndResultType]> {
  let summary = "combination over the ranks along mesh axes, on all of them";
  let description = [{
    On local shapes, behind partition: completes a value that is partial over `axes`. Operand and result have one shape.
    `%y = autopar.all_reduce sum %x over @mesh ["t"] : tensor<8x4xf32>`
  }];
  let arguments = (ins AutoPar_ReduceKindAttr:$kind, AutoPar_Tensor:$input, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input `over` $mesh $axes attr-dict `:` type($result)";
}

def AutoPar_AllGatherOp : AutoPar_CollectiveOp<"all_gather", ["getJoinedDimension"]> {
  let summary = "shards of all ranks along mesh axes, joined along a dimension";
  let description = [{
    On local shapes, behind partition: extent `dim` of the result is that of the operand times the ranks along `axes`, shards
    in row-major order of the axes.
    `%y = autopar.all_gather %x dim 0 over @mesh ["d"] : tensor<4x4xf32> -> tensor<8x4xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$dim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `dim` $dim `over` $mesh $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_ReduceScatterOp : AutoPar_CollectiveOp<"reduce_scatter", ["getReduction", "getSplitDimension"]> {
  let summary = "combination over the ranks along mesh axes, each keeping its shard of a dimension";
  let description = [{
    On local shapes, behind partition and in optimize-collectives, where only a part of an all-reduce is read. Extent `dim` of
    the result is that of the operand divided by the ranks along `axes`.
    `%y = autopar.reduce_scatter sum %x dim 0 over @mesh ["t"] : tensor<8x4xf32> -> tensor<4x4xf32>`
  }];
  let arguments = (ins AutoPar_ReduceKindAttr:$kind, AutoPar_Tensor:$input, I64Attr:$dim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input `dim` $dim `over` $mesh $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_AllToAllOp : AutoPar_CollectiveOp<"all_to_all", ["getSplitDimension", "getJoinedDimension"]> {
  let summary = "shards exchanged so that one dimension is joined and another split";
  let description = [{
    On local shapes, behind partition: mesh axes go from dimension `concatDim` to dimension `splitDim`. The extent of the first
    is multiplied by the ranks along `axes`, that of the second divided. Tokens reach their experts so.
    `%y = autopar.all_to_all %x split 0 concat 1 over @mesh ["e"] : tensor<8x4xf32> -> tensor<4x8xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$splitDim, I64Attr:$concatDim, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `split` $splitDim `concat` $concatDim `over` $mesh $axes attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_PermuteOp : AutoPar_CollectiveOp<"permute", [], [SameOperandsAndResultType]> {
  let summary = "every rank along mesh axes gets the value of one of them";
  let description = [{
    On local shapes, behind partition: `sources` says for each position along `axes` whose value it gets; each is sent once.
    Parts of a triangle's rows change places so (autopar-balance-attention).
    `%y = autopar.permute %x from [0, 2, 1] over @mesh ["c"] : tensor<4x4xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, DenseI64ArrayAttr:$sources, FlatSymbolRefAttr:$mesh, StrArrayAttr:$axes);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `from` $sources `over` $mesh $axes attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif
