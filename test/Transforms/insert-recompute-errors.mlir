// RUN: autopar-opt %s --split-input-file --autopar-insert-recompute --verify-diagnostics

// expected-remark @below {{no operation of the forward pass is left of "y/vjp.0" to compute again}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {autopar.recompute = ["y/vjp.0"]} {
  %y = autopar.unary exp %x {autopar.id = "y"} : tensor<8xf32>
  %g = autopar.unary neg %y {autopar.id = "y/vjp.0"} : tensor<8xf32>
  return %g : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<2x8xf32>) -> tensor<8xf32> attributes {autopar.recompute = ["sum"]} {
  %0 = autopar.micro_batch %x : tensor<2x8xf32> -> tensor<8xf32>
  // expected-error @below {{cannot be computed again}}
  %1 = autopar.accumulate sum %0 {autopar.id = "sum"} : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// expected-error @below {{autopar.recompute: expected ids, got 7}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {autopar.recompute = [7]} {
  return %x : tensor<8xf32>
}

// -----

func.func @main(%x: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @below {{expects results of the types of the inputs}}
  %0 = autopar.fence %x : (tensor<8xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<2x8xf32>) -> tensor<8xf32> attributes {autopar.offload_activations = ["sum"]} {
  %0 = autopar.micro_batch %x : tensor<2x8xf32> -> tensor<8xf32>
  // expected-error @below {{cannot be stored in host memory}}
  %1 = autopar.accumulate sum %0 {autopar.id = "sum"} : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

// expected-error @below {{autopar.offload_activations: expected ids, got 7}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {autopar.offload_activations = [7]} {
  return %x : tensor<8xf32>
}

// -----

// expected-remark @below {{no operation of the forward pass is left of "y/vjp.0" to store in host memory}}
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {autopar.offload_activations = ["y/vjp.0"]} {
  %y = autopar.unary exp %x {autopar.id = "y"} : tensor<8xf32>
  %g = autopar.unary neg %y {autopar.id = "y/vjp.0"} : tensor<8xf32>
  return %g : tensor<8xf32>
}
