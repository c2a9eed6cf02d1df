// SPDX-License-Identifier: Apache-2.0
// Pipeline stages: where a value changes stage, and the messages between meshes that this becomes.

#ifndef AUTOPAR_STAGEOPS_TD
#define AUTOPAR_STAGEOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_TransferOp : AutoPar_ValueOp<"transfer"> {
  let summary = "the same value on another stage";
  let description = [{
    Where stages meet: everything computed from the result is on `stage`, up to the next transfer. Where the two stages' meshes have the same
    sizes the value lies alike on both. Else `from` and `to` say how it lies while it is sent and when it has arrived.
    `%y = autopar.transfer %x to 1 : tensor<8x64xf32>`; local shapes may differ:
    `%y = autopar.transfer %x to 1 {from = ..., to = ...} : tensor<8x64xf32> -> tensor<4x64xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$stage, OptionalAttr<AutoPar_ShardingAttr>:$from, OptionalAttr<AutoPar_ShardingAttr>:$to);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input `to` $stage attr-dict `:` custom<TransferTypes>(type($input), type($result))";
  let builders = [OpBuilder<(ins "Type":$type, "Value":$input, "int64_t":$stage), [{
    build($_builder, $_state, type, input, $_builder.getI64IntegerAttr(stage), ShardingAttr(), ShardingAttr());
  }]>];
  let hasVerifier = 1;
}

def AutoPar_SendOp : AutoPar_Op<"send"> {
  let summary = "sends a local tensor to a rank of another stage's mesh";
  let description = [{
    `position` is the number of the peer's mesh. The peer is at the same place of that mesh, or `peers` says which rank it is for every
    place of the sender's mesh, -1 for none. Sends and receives of a pair of ranks have different tags. `evaluated`: the loss depends on it.
    `autopar.send %x to 1 tag 4 : tensor<8x64xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, I64Attr:$position, I64Attr:$tag, UnitAttr:$evaluated, OptionalAttr<DenseI32ArrayAttr>:$peers);
  let assemblyFormat = "$input `to` $position (`peers` $peers^)? `tag` $tag (`evaluated` $evaluated^)? attr-dict `:` type($input)";
}

def AutoPar_ReceiveOp : AutoPar_Op<"receive"> {
  let summary = "a local tensor that a rank of another stage's mesh sends";
  let description = [{
    As in `autopar.send`: `%x = autopar.receive from 0 tag 4 : tensor<8x64xf32>`
  }];
  let arguments = (ins I64Attr:$position, I64Attr:$tag, UnitAttr:$evaluated, OptionalAttr<DenseI32ArrayAttr>:$peers);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "`from` $position (`peers` $peers^)? `tag` $tag (`evaluated` $evaluated^)? attr-dict `:` type($result)";
}

#endif
