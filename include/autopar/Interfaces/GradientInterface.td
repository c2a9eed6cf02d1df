// SPDX-License-Identifier: Apache-2.0
// The interface through which differentiation asks an operation how a gradient passes backwards
// through it.

#ifndef AUTOPAR_INTERFACES_GRADIENTINTERFACE_TD
#define AUTOPAR_INTERFACES_GRADIENTINTERFACE_TD

include "mlir/IR/OpBase.td"

def GradientOpInterface : OpInterface<"GradientOpInterface"> {
  let cppNamespace = "::mlir::autopar";
  let description = [{
    One vector-Jacobian product per operand, so that the gradients of inputs and of weights can be
    scheduled apart. They are built from operations of the dialect and are differentiable again.
  }];
  let methods = [
    InterfaceMethod<[{
      Builds the cotangent of operand `operand` (a tensor of floats) from the cotangents of the results.
      Returns a null value where it is zero whatever the cotangents are. Where there is no gradient, or
      none that is known, it emits an error that says so and fails.
    }], "::llvm::FailureOr<::mlir::Value>", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "unsigned":$operand, "::mlir::ValueRange":$cotangents)>,
  ];
}

#endif
