// SPDX-License-Identifier: Apache-2.0
// Pipeline stages: where a value changes stage, and the messages between meshes that this becomes.

#ifndef AUTOPAR_STAGEOPS_TD
#define AUTOPAR_STAGEOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_TransferOp : AutoPar_ValueOp<"transfer", [SameOperandsAndResultType]> {
  let summary = "the same value on another stage";
  let description = [{
    Where stages meet: everything computed from the result is on `stage`, up to the next transfer. Stages differ in the
    position along the mesh axis "stage"; along the others the value lies alike on both.
    `%y = autopar.transfer %x to 1 : tensor<8x64xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$stage);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `to` $stage attr-dict `:` type($result)";
}

def AutoPar_SendOp : AutoPar_Op<"send"> {
  let summary = "sends a local tensor to the rank at the same place of another stage's mesh";
  let description = [{
    `position` is that of the peer along the mesh axis "stage". Sends and receives of a pair of ranks have different tags. `evaluated`: the
    loss depends on it.
    `autopar.send %x to 1 tag 4 : tensor<8x64xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$position, I64Attr:$tag, UnitAttr:$evaluated);
  let assemblyFormat = "$input `to` $position `tag` $tag (`evaluated` $evaluated^)? attr-dict `:` type($input)";
}

def AutoPar_ReceiveOp : AutoPar_Op<"receive"> {
  let summary = "a local tensor that the rank at the same place of another stage's mesh sends";
  let description = [{
    `%x = autopar.receive from 0 tag 4 : tensor<8x64xf32>`
  }];
  let arguments = (ins I64Attr:$position, I64Attr:$tag, UnitAttr:$evaluated);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`from` $position `tag` $tag (`evaluated` $evaluated^)? attr-dict `:` type($result)";
}

#endif
