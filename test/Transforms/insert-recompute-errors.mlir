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
  // expected-error @below {{cannot be computed again: it is made of all micro-batches; take "sum" out of recompute, whose operations compute from what their stage has}}
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
  // expected-error @below {{cannot be stored in host memory: it is made of all micro-batches; take "sum" out of offload_activations, whose operations compute from what their stage has}}
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

// -----

// What arrives from another stage is named instead of what that stage computes.
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> attributes {autopar.recompute = ["y/to.1"]} {
  %y = autopar.unary exp %x {autopar.id = "y", autopar.stage = 0 : i64} : tensor<8xf32>
  // expected-error @below {{cannot be computed again: another stage sends it; take "y/to.1" out of recompute, whose operations compute from what their stage has}}
  %there = autopar.transfer %y to 1 {autopar.id = "y/to.1"} : tensor<8xf32>
  %z = autopar.unary neg %there {autopar.id = "z", autopar.stage = 1 : i64} : tensor<8xf32>
  return %z : tensor<8xf32>
}
