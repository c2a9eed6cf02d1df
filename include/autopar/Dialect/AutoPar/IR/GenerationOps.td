// SPDX-License-Identifier: Apache-2.0
// Operations that make tensors from nothing: constants, positions, random numbers.

#ifndef AUTOPAR_GENERATIONOPS_TD
#define AUTOPAR_GENERATIONOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_ConstantOp : AutoPar_PositionalOp<"constant", [AutoPar_Light, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "a tensor known at compile time";
  let description = "`%c = autopar.constant dense<1.0> : tensor<8xf32>`";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs AutoPar_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value)>];
  let assemblyFormat = "attr-dict $value";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def AutoPar_IotaOp : AutoPar_PositionalOp<"iota", [AutoPar_Light]> {
  let summary = "the position along a dimension";
  let description = "`%i = autopar.iota dim 1 : tensor<8x16xi64>` holds the column number everywhere.";
  let arguments = (ins I64Attr:$dim);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`dim` $dim attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_RandomOp : AutoPar_PositionalOp<"random"> {
  let summary = "random numbers by position";
  let description = [{
    A counter-based generator (Philox 4x32-10; Salmon et al., SC'11) keyed by `seed` and `stream`, counted by step and global row-major
    element index, so that every sharding draws the same numbers. `uniform` in [0, 1), `normal` with mean 0
    and variance 1, `bits` raw. `offsets` are the global positions (i64 scalars) of this tensor's first element, one per
    dimension, within `globalShape`; the logical operation has none and its own shape.
  }];
  let arguments = (ins AutoPar_RandomKindAttr:$kind, Variadic<AutoPar_Tensor>:$offsets,
                       I64Attr:$seed, I64Attr:$stream, DenseI64ArrayAttr:$globalShape);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind `seed` $seed `stream` $stream `of` $globalShape (`at` `[` $offsets^ `]`)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
