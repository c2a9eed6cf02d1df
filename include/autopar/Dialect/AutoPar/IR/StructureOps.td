// SPDX-License-Identifier: Apache-2.0
// Symbols that describe where a program runs and where its parameters come from, the region that
// holds a fusion group, and the fence before what is recomputed.

#ifndef AUTOPAR_STRUCTUREOPS_TD
#define AUTOPAR_STRUCTUREOPS_TD

include "autopar/Dialect/AutoPar/IR/OpBases.td"

def AutoPar_ClusterOp : AutoPar_Op<"cluster", [Symbol]> {
  let summary = "the machines that the module is compiled for";
  let description = [{
    `autopar.cluster @cluster "presets:h100x8x2"` or the JSON text of a cluster file.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$description);
  let assemblyFormat = "$sym_name $description attr-dict";
}

def AutoPar_MeshOp : AutoPar_Op<"mesh", [Symbol]> {
  let summary = "named axes over devices";
  let description = [{
    `autopar.mesh @mesh ["node" = 2, "gpu" = 8]`. The first axis is outermost (slowest links). Ranks are
    numbered row-major over the axes, or by `devices` where given.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI64ArrayAttr:$sizes,
                       OptionalAttr<DenseI64ArrayAttr>:$devices);
  let assemblyFormat = "$sym_name custom<MeshAxes>($axes, $sizes) (`devices` $devices^)? attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Extent of the named axis; nothing if the mesh has no such axis.
    std::optional<int64_t> axisSize(::llvm::StringRef axis);
    /// Product of the extents of the named axes (StringAttr), which must exist.
    int64_t axesSize(::mlir::ArrayAttr axes);
    /// Number of ranks.
    int64_t rankCount();
  }];
}

def AutoPar_OriginOp : AutoPar_Op<"origin", [Symbol]> {
  let summary = "where a parameter's values come from";
  let description = [{
    A tensor of `type` whose row-major little-endian bytes start at `offset` of `file`. Without a file
    the values are absent: the model can be planned, and run once it is initialised otherwise.
    `autopar.origin @w1 : tensor<64x256xf32> in "mlp.onnx" at 4096`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type, OptionalAttr<StrAttr>:$file, DefaultValuedAttr<I64Attr, "0">:$offset);
  let assemblyFormat = "$sym_name `:` $type (`in` $file^ `at` $offset)? attr-dict";
}

def AutoPar_GroupOp : AutoPar_Op<"group", [Pure, IsolatedFromAbove,
    SingleBlockImplicitTerminator<"::mlir::autopar::YieldOp">]> {
  let summary = "operations that become one kernel";
  let description = [{
    Made by form-fusion-groups on local shapes. The body is isolated: its arguments are the inputs, what it yields are the
    results, and nothing between them is stored. A group is lowered to one kernel or to one library call with its epilogue.

    ```mlir
    %y = autopar.group %x : (tensor<8xf32>) -> tensor<8xf32> {
    ^bb0(%a: tensor<8xf32>):
      %0 = autopar.unary exp %a : tensor<8xf32>
      autopar.yield %0 : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$inputs);
  let results = (outs Variadic<AutoPar_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$inputs attr-dict `:` functional-type(operands, results) $body";
  let hasVerifier = 1;
}

def AutoPar_FenceOp : AutoPar_ValueOp<"fence", [AutoPar_Light, AttrSizedOperandSegments]> {
  let summary = "the same values, for what is computed again in the backward pass";
  let description = [{
    What reads the results is never shared with what reads the inputs, and runs once `gradient` is there. Costs nothing:
    lowering lets the results be the inputs.
    `%y:2 = autopar.fence %a, %b after %g : (tensor<8xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>)`
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$inputs, Optional<AutoPar_Tensor>:$gradient);
  let results = (outs Variadic<AutoPar_Tensor>:$results);
  let assemblyFormat = "$inputs (`after` $gradient^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def AutoPar_StoreOnHostOp : AutoPar_Op<"store_on_host", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "a value of the forward pass, in host memory";
  let description = [{
    Copies the value into pinned memory of the host, beside what computes. The device's bytes of `input` are free once
    the copy is done and nothing reads them any more. Only `autopar.fetch_from_host` reads the result.
    `%h = autopar.store_on_host %x : tensor<8xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def AutoPar_FetchFromHostOp : AutoPar_Op<"fetch_from_host", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "what was stored in host memory, on the device again for the backward pass";
  let description = [{
    Copies back what `autopar.store_on_host` has stored, once `gradient` is there, beside what computes.
    `%y = autopar.fetch_from_host %h after %g : tensor<8xf32>, tensor<4xf32>`
  }];
  let arguments = (ins AutoPar_Tensor:$input, Optional<AutoPar_Tensor>:$gradient);
  let results = (outs AutoPar_Tensor:$result);
  let assemblyFormat = "$input (`after` $gradient^)? attr-dict `:` type($result) (`,` type($gradient)^)?";
  let hasVerifier = 1;
}

def AutoPar_YieldOp : AutoPar_Op<"yield", [Pure, Terminator,
    ParentOneOf<["::mlir::autopar::GroupOp", "::mlir::autopar::FormulaOp"]>]> {
  let summary = "results of a group or formula";
  let description = [{
    Ends the body of `autopar.group` and `autopar.formula`; its values are the results, in order.
  }];
  let arguments = (ins Variadic<AutoPar_Tensor>:$values);
  let builders = [OpBuilder<(ins)>];
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}

#endif
