// SPDX-License-Identifier: Apache-2.0
// The interface of operations that compute nothing: their result is the operand, looked at otherwise.

#ifndef AUTOPAR_INTERFACES_VIEWINTERFACE_TD
#define AUTOPAR_INTERFACES_VIEWINTERFACE_TD

include "mlir/IR/OpBase.td"

def ViewOpInterface : OpInterface<"ViewOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    An operation whose result only says where elements of its first operand are. What reads through strides reads
    the operand; whether it is worth it is for `isView` (Transforms/Views.h) to say.
  }];
  let methods = [
    InterfaceMethod<[{
      Where the result's elements are in an operand that lies with these strides; nothing where strides cannot say
      it. Of an operand that lies row-major they always can.
    }], "::std::optional<::mlir::autopar::ViewLayout>", "getLayout", (ins "::llvm::ArrayRef<int64_t>":$operandStrides)>,
    InterfaceMethod<[{
      The strides of an operand whose result has these; nothing where there are none.
    }], "::std::optional<::llvm::SmallVector<int64_t>>", "getOperandStrides",
      (ins "::llvm::ArrayRef<int64_t>":$resultStrides), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<[{
      Whether every element of the operand is in the result, once.
    }], "bool", "hasAllElements", (ins), "", [{ return true; }]>,
  ];
}

#endif
