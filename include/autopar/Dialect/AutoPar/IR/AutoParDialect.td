// SPDX-License-Identifier: Apache-2.0
// The autopar dialect: a small orthogonal set of operations on static tensors, in which a model is
// read, sharded and partitioned.

#ifndef AUTOPAR_DIALECT_TD
#define AUTOPAR_DIALECT_TD

include "mlir/IR/OpBase.td"

def AutoPar_Dialect : Dialect {
  let name = "autopar";
  let cppNamespace = "::mlir::autopar";
  let summary = "Whole-model tensor programs and their distribution over a mesh";
  let description = [{
    Values are static ranked tensors; parameters are function arguments, not variables. Integers are
    signless for signed element types and `ui` for unsigned ones; booleans are `i1`.

    Attributes that the dialect gives to functions and operations:
      - `autopar.id` (operation): the stable name of an operation, from its ONNX node;
      - `autopar.name` (argument, result): the name of an input, output or parameter;
      - `autopar.origin` (argument): the `autopar.origin` symbol that a parameter is read from;
      - `autopar.sharding` (argument, result): how the value is distributed;
      - `autopar.strategy` (operation): the mesh axes of each factor of the operation;
      - `autopar.global_shape` (argument, result): the whole shape of a partitioned value;
      - `autopar.group` (operation): the fusion group that the operation belongs to.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasConstantMaterializer = 1;
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

class AutoPar_Op<string mnemonic, list<Trait> traits = []> : Op<AutoPar_Dialect, mnemonic, traits>;

#endif
