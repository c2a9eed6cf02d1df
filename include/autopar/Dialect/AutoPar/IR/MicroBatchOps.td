// SPDX-License-Identifier: Apache-2.0
// The time axis: what runs once per micro-batch lies between an operation that takes the current
// micro-batch out of a whole value and one that puts results of all micro-batches together.

#ifndef AUTOPAR_MICROBATCHOPS_TD
#define AUTOPAR_MICROBATCHOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_MicroBatchOp : AutoPar_ValueOp<"micro_batch"> {
  let summary = "the current micro-batch of a whole value";
  let description = [{
    Position i of the first dimension in micro-batch i. What depends on it runs once per micro-batch.
    `%x = autopar.micro_batch %all : tensor<4x8x128xi64> -> tensor<8x128xi64>`
  }];
  let arguments = (ins AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_MicroBatchIndexOp : AutoPar_ValueOp<"micro_batch_index"> {
  let summary = "the number of the current micro-batch, from 0";
  let description = [{
    An i64 scalar, made by split-micro-batches for what depends on the place in the whole batch (the positions of random
    numbers). The schedule replaces it by a constant. `%i = autopar.micro_batch_index : tensor<i64>`
  }];
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def AutoPar_AccumulateOp : AutoPar_ValueOp<"accumulate", [SameOperandsAndResultType]> {
  let summary = "a value combined over all micro-batches";
  let description = [{
    Partial values over mesh axes may be accumulated as they are and completed once afterwards.
    `%gradient = autopar.accumulate sum %part : tensor<64x64xf32>`
  }];
  let arguments = (ins AutoPar_ReduceKindAttr:$kind, AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $input attr-dict `:` type($result)";
}

def AutoPar_StackMicroBatchesOp : AutoPar_ValueOp<"stack_micro_batches"> {
  let summary = "the values of all micro-batches along a new first dimension";
  let description = [{
    `%all = autopar.stack_micro_batches %logits : tensor<8x10xf32> -> tensor<4x8x10xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

/// Says which value is handed on.
def AutoPar_CarryNumber : ConfinedAttr<I64Attr, [IntNonNegative, IntMaxValue<2147483647>]>;

def AutoPar_CarriedOp : AutoPar_Op<"carried", [Pure]> {
  let summary = "what the micro-batch before this one handed on; the identity in the first one";
  let description = [{
    Made of `autopar.accumulate` by expand-accumulators; `autopar.carry` of the same `number` gives what the next micro-batch
    receives. The schedule replaces it by the value of the micro-batch before.
    `%s = autopar.carried sum 0 : tensor<4xf32>`
  }];
  let arguments = (ins AutoPar_CarryNumber:$number, AutoPar_ReduceKindAttr:$kind);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`` $kind $number attr-dict `:` type($result)";
}

def AutoPar_CarryOp : AutoPar_Op<"carry", [Pure, SameOperandsAndResultType]> {
  let summary = "hands a value to the next micro-batch; the result is what the last one hands on";
  let description = [{
    The other side of `autopar.carried`: each number is carried once, with the type that is received. Readers behind all
    micro-batches see what the last one hands on. `%c = autopar.carry 0 %a : tensor<4xf32>`
  }];
  let arguments = (ins AutoPar_CarryNumber:$number, AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$number $input attr-dict `:` type($result)";
}

#endif
