// SPDX-License-Identifier: Apache-2.0
// The interface of operations that are one for whoever plans and several for whoever makes kernels.

#ifndef AUTOPAR_INTERFACES_EXPANSIONINTERFACE_TD
#define AUTOPAR_INTERFACES_EXPANSIONINTERFACE_TD

include "mlir/IR/OpBase.td"

def ExpansionOpInterface : OpInterface<"ExpansionOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    An operation with one result that stands for a formula of smaller operations: nobody walks, shards
    or prices these one by one, and kernels are made of them.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the smaller operations on the operands and returns what takes the result's place.
    }], "::mlir::Value", "expand", (ins "::mlir::OpBuilder &":$builder)>,
  ];
}

#endif
