// SPDX-License-Identifier: Apache-2.0
// The interface through which the search learns what an operation costs on given local shapes.

#ifndef AUTOPAR_INTERFACES_COSTINTERFACE_TD
#define AUTOPAR_INTERFACES_COSTINTERFACE_TD

include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    FLOPs and bytes as functions of local shapes. What a kernel moves follows from the fusion group that
    the operation belongs to as well (`kernelBytes`).
  }];
  let methods = [
    InterfaceMethod<[{
      Floating-point operations on the given local operand and result types. The default is one per
      result element.
    }], "double", "getFlops",
      (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operands,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$results), "", [{
      double flops = 0;
      for (::mlir::RankedTensorType type : results)
        flops += static_cast<double>(type.getNumElements());
      return flops;
    }]>,
    InterfaceMethod<[{
      Bytes of operand `index` that the operation reads, on the given local types: all of it, but where data
      tells which elements it picks. Of an operand of which the result is a changed copy, the bytes that
      are changed: all that it costs where the result takes the operand's place.
    }], "int64_t", "getTouchedBytes",
      (ins "unsigned":$index, "::llvm::ArrayRef<::mlir::RankedTensorType>":$operands,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$results), "", [{
      return ::mlir::autopar::tensorBytes(operands[index]);
    }]>,
    InterfaceMethod<[{
      The element type at whose rate the FLOPs are computed: by default that of the first operand.
    }], "::mlir::Type", "getFlopsType",
      (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operands,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$results), "", [{
      return (operands.empty() ? results : operands).front().getElementType();
    }]>,
    InterfaceMethod<[{
      What the FLOPs are: of a product, unless kernels reach another share of the peak in them.
    }], "::mlir::autopar::Work", "getWork", (ins), "", [{ return ::mlir::autopar::Work::Product; }]>,
    InterfaceMethod<[{
      Bytes that kernels of their own move through memory to put operands into the form that is read.
    }], "int64_t", "getBytesAhead",
      (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operands), "", [{ return 0; }]>,
    InterfaceMethod<[{
      Microseconds that somebody measured for these local types; infinite where nobody did. Nothing for
      an operation whose time follows from FLOPs and bytes. With `mayScale` a guess from what was measured
      on other sizes will do.
    }], "::std::optional<double>", "getMeasuredUs",
      (ins "::llvm::ArrayRef<::mlir::RankedTensorType>":$operands,
           "::llvm::ArrayRef<::mlir::RankedTensorType>":$results, "bool":$mayScale), "", [{
      return ::std::nullopt;
    }]>,
    InterfaceMethod<[{
      Bytes that a result with these local types holds, where they do not follow from its type.
    }], "::std::optional<int64_t>", "getMeasuredBytes",
      (ins "unsigned":$result, "::llvm::ArrayRef<::mlir::RankedTensorType>":$results), "", [{
      return ::std::nullopt;
    }]>,
    InterfaceMethod<[{
      Whether the operation is computed inside its users' kernels, so that it costs a pass over memory
      only where its result has to be kept.
    }], "bool", "isLight", (ins), "", [{
      return $_op->template hasTrait<::mlir::OpTrait::Elementwise>() ||
             $_op->template hasTrait<::mlir::autopar::LightOp>();
    }]>,
  ];
}

#endif
