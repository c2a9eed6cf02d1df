// SPDX-License-Identifier: Apache-2.0
// Operations that work element by element on operands of one shape. Broadcasting is an operation of
// its own.

#ifndef AUTOPAR_ELEMENTWISEOPS_TD
#define AUTOPAR_ELEMENTWISEOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_UnaryOp : AutoPar_ValueOp<"unary", [Elementwise, SameOperandsAndResultType]> {
  let summary = "a function of one element";
  let description = [{
    `%y = autopar.unary gelu %x : tensor<8x256xf32>`. `round` rounds halves to even; `not` is bitwise
    (logical on i1); `gelu` uses erf, `gelu_tanh` its tanh approximation; `silu` is x * sigmoid(x).
  }];
  let arguments = (ins AutoPar_UnaryKindAttr:$kind, AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_UnaryGradOp : AutoPar_GradientOp<"unary_grad", [Elementwise]> {
  let summary = "the gradient of a unary function whose derivative is a formula";
  let description = [{
    `gradient` times the derivative at `input`, for gelu, gelu_tanh and silu; for relu `input` is its result:
    `%d = autopar.unary_grad gelu %x, %g : tensor<8x256xf32>`
  }];
  let arguments = (ins AutoPar_UnaryKindAttr:$kind, AutoPar_Tensor:$input, AutoPar_Tensor:$gradient);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input `,` $gradient attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_MarkPositiveOp : AutoPar_Op<"mark_positive", [Pure]> {
  let summary = "a bit for each element that is positive";
  let description = [{
    The first element of a row has the lowest bit of the first byte; rows have a multiple of 16 bytes, and the bits that are
    left are undefined. Made by form-fusion-groups behind a relu that a library call computes, which stores both:
    `%m = autopar.mark_positive %y : tensor<8x256xbf16> -> tensor<8x32xi8>`
  }];
  let arguments = (ins AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_KeepMarkedOp : AutoPar_Op<"keep_marked", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "the elements with a bit in a mask, and 0 elsewhere";
  let description = [{
    The gradient of a relu by the mask that mark_positive made, in the library call that computes what it multiplies:
    `%d = autopar.keep_marked %g where %m : tensor<8x256xbf16>, tensor<8x32xi8>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, AutoPar_Tensor:$mask);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `where` $mask attr-dict `:` type($input) `,` type($mask)";
  let hasVerifier = 1;
}

def AutoPar_BinaryOp : AutoPar_ValueOp<"binary", [Elementwise, SameOperandsAndResultType]> {
  let summary = "a function of two elements";
  let description = "`%y = autopar.binary add %a, %b : tensor<8x256xf32>`";
  let arguments = (ins AutoPar_BinaryKindAttr:$kind, AutoPar_Tensor:$lhs, AutoPar_Tensor:$rhs);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $lhs `,` $rhs attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_CompareOp : AutoPar_ValueOp<"compare", [Elementwise, SameTypeOperands, SameOperandsAndResultShape]> {
  let summary = "a comparison of two elements";
  let description = [{
    `%y = autopar.compare lt %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>`. Comparisons with
    NaN are false, except `ne`.
  }];
  let arguments = (ins AutoPar_ComparePredicateAttr:$predicate, AutoPar_Tensor:$lhs, AutoPar_Tensor:$rhs);
  let results = (outs AutoPar_BoolTensor:$result);
  let assemblyFormat = "`` $predicate $lhs `,` $rhs attr-dict `:` functional-type(operands, results)";
}

def AutoPar_SelectOp : AutoPar_ValueOp<"select", [Elementwise, SameOperandsAndResultShape,
    AllTypesMatch<["onTrue", "onFalse", "result"]>]> {
  let summary = "one of two elements, by a condition";
  let description = [{
    `onTrue` where `condition` is true, else `onFalse`; all of one shape.
    `%y = autopar.select %c, %a, %b : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>`
  }];
  let arguments = (ins AutoPar_BoolTensor:$condition, AutoPar_Tensor:$onTrue, AutoPar_Tensor:$onFalse);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$condition `,` $onTrue `,` $onFalse attr-dict `:` functional-type(operands, results)";
}

def AutoPar_CastOp : AutoPar_ValueOp<"cast", [Elementwise, SameOperandsAndResultShape]> {
  let summary = "conversion of the element type";
  let description = [{
    Floats to integers truncate towards zero; numbers to i1 compare with zero; integers wrap. Beyond
    the largest number of a float of 8 bits lies that number, with `overflows` infinity, or NaN where
    the type has no infinity.
  }];
  let arguments = (ins AutoPar_Tensor:$input, UnitAttr:$overflows);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "(`overflows` $overflows^)? $input attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = [{
    /// Whether floats become wider ones, which changes no number.
    bool isWidening();
  }];
  let hasFolder = 1;
  let hasVerifier = 1;
}

def AutoPar_BitcastOp : AutoPar_ValueOp<"bitcast", [Elementwise, SameOperandsAndResultShape]> {
  let summary = "the bits of elements, read as another type of the same width";
  let description = [{
    A float of 4 bits is a byte whose lower half it is.

    `%y = autopar.bitcast %x : tensor<8xf32> -> tensor<8xi32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

#endif
