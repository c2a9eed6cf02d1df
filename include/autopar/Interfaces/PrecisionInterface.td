// SPDX-License-Identifier: Apache-2.0
// The interface through which mixed precision asks an operation what it does in narrow floats (bf16,
// f16) where the model says f32.

#ifndef AUTOPAR_INTERFACES_PRECISIONINTERFACE_TD
#define AUTOPAR_INTERFACES_PRECISIONINTERFACE_TD

include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    How an operation takes part in mixed precision. An operation without this interface reads f32 and
    yields what it yields.
  }];
  let methods = [
    InterfaceMethod<[{
      What the operation computes in where its f32 operands may be narrow.
    }], "::mlir::autopar::Precision", "getPrecision", (ins)>,
    InterfaceMethod<[{
      Whether this operand or result stays f32 where the operation computes in narrow floats.
    }], "bool", "staysWide", (ins "::mlir::Value":$value), "", [{ return false; }]>,
  ];
}

#endif
