// SPDX-License-Identifier: Apache-2.0
// What a step repeats: the middle of a pipeline's schedule, in which every round does what the one
// before did, some micro-batches further; and how results of micro-batches are put together, there
// or written out.

#ifndef AUTOPAR_ROUNDOPS_TD
#define AUTOPAR_ROUNDOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_RoundBeginOp : AutoPar_Op<"round_begin"> {
  let summary = "the beginning of what a step repeats";
  let description = [{
    What stands between it and the only `autopar.round_end` of the function runs `count` times, each time `step`
    micro-batches further. The results are what the round before handed on; in the first round the operands.
    `%x = autopar.round_begin 30 step 4 from %a : tensor<8xf32>`
  }];
  let arguments = (ins I64Attr:$count, I64Attr:$step, Variadic<AutoPar_Tensor>:$initial);
  let results = (outs Variadic<AutoPar_Tensor>:$results);
  let assemblyFormat = "$count `step` $step (`from` $initial^)? attr-dict (`:` type($initial)^)? (`->` type($results)^)?";
  let hasVerifier = 1;
}

def AutoPar_RoundEndOp : AutoPar_Op<"round_end", [AttrSizedOperandSegments]> {
  let summary = "the end of what a step repeats";
  let description = [{
    Hands on a value for each result of `autopar.round_begin`. The results are the values of the last round, those that
    nobody hands on behind the others.
    `%y, %z = autopar.round_end %b and %c : tensor<8xf32>, tensor<4xf32> -> tensor<8xf32>, tensor<4xf32>`
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$handedOn, Variadic<AutoPar_Tensor>:$others);
  let results = (outs Variadic<AutoPar_Tensor>:$results);
  let assemblyFormat = [{
    ($handedOn^ `:` type($handedOn))? (`and` $others^ `:` type($others))? attr-dict (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

def AutoPar_RoundSliceOp : AutoPar_Op<"round_slice", [Pure]> {
  let summary = "a part of a whole value that is further on in every round";
  let description = [{
    Position `first` of the first dimension in the first round, as many more in each one behind it as a round has
    micro-batches. The input lies in order: an argument or a constant.
    `%x = autopar.round_slice %all at 5 : tensor<64x8x128xi64> -> tensor<1x8x128xi64>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$first);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `at` $first attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

def AutoPar_InsertPartOp : AutoPar_Op<"insert_part", [Pure]> {
  let summary = "a whole value with one more of its parts";
  let description = [{
    Puts a part at a position of the first dimension, in place of what `into` has there; without it nothing is known of
    the others. In rounds, what `moves` is put further on in each, by as much as a round has micro-batches.
    `%y = autopar.insert_part %part into %x : tensor<64x8xf32> at 5 moves : tensor<8xf32> -> tensor<64x8xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$part, Optional<AutoPar_Tensor>:$whole, I64Attr:$position, UnitAttr:$moves);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = [{
    $part (`into` $whole^ `:` type($whole))? `at` $position (`moves` $moves^)? attr-dict `:` type($part) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif
