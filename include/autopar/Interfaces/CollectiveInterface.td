// SPDX-License-Identifier: Apache-2.0
// The interface of operations in which all ranks along mesh axes exchange local tensors.

#ifndef AUTOPAR_INTERFACES_COLLECTIVEINTERFACE_TD
#define AUTOPAR_INTERFACES_COLLECTIVEINTERFACE_TD

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    One tensor in, one out, and data goes from rank to rank in between. The kind, and the dimensions that are cut and
    joined, are all that estimates, the order of a step and lowering ask.
  }];
  let methods = [
    InterfaceMethod<"Which of the collectives it is.", "::mlir::autopar::CollectiveKind", "getCollectiveKind">,
    InterfaceMethod<"The mesh.", "::mlir::FlatSymbolRefAttr", "getMeshAttr">,
    InterfaceMethod<"The axes of the mesh along which ranks take part, as names.", "::mlir::ArrayAttr", "getAxes">,
    InterfaceMethod<"How values of several ranks are combined; nothing where they are only moved.",
      "::std::optional<::mlir::autopar::ReductionKind>", "getReduction", (ins), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<"The dimension of the operand of which every rank gets a part; nothing where it gets all.",
      "::std::optional<int64_t>", "getSplitDimension", (ins), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<"The dimension of the result along which the parts of all ranks lie; nothing where there is one part.",
      "::std::optional<int64_t>", "getJoinedDimension", (ins), "", [{ return ::std::nullopt; }]>,
  ];
}

#endif
