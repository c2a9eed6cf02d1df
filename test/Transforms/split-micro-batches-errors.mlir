// RUN: autopar-opt %s --split-input-file --verify-diagnostics --autopar-split-micro-batches=count=2

// expected-error@+1 {{micro-batches: input "x" holds 3 samples, which do not split evenly into 2}}
func.func @main(%x: tensor<3x4xf32> {autopar.name = "x"}) -> tensor<3x4xf32> {
  return %x : tensor<3x4xf32>
}

// -----

// expected-error@+1 {{micro-batches: the model has no input with a batch dimension}}
func.func @main(%x: tensor<f32> {autopar.name = "x"}) -> tensor<f32> {
  return %x : tensor<f32>
}

// -----

func.func @main(%x: tensor<4x4xf32> {autopar.name = "x"}) -> tensor<4x4xf32> {
  // expected-error@+1 {{couples the samples of a batch (or 2 does not divide an extent): micro-batches would change what "scan" computes}}
  %y = autopar.cumulative sum %x dim 0 {autopar.id = "scan"} : tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

// Statistics of the whole batch that depend on a parameter.
func.func @main(%x: tensor<4x4xf32> {autopar.name = "x"}, %w: tensor<4x4xf32> {autopar.name = "w", autopar.donated}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "h"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %mean = autopar.reduce sum %h dims [0] {autopar.id = "mean"} : tensor<4x4xf32> -> tensor<4xf32>
  %all = autopar.broadcast %mean dims [1] {autopar.id = "all"} : tensor<4xf32> -> tensor<4x4xf32>
  // expected-error@+1 {{couples the samples of a batch: "centred" needs "all" of all samples, which depends on "w"; micro-batches would change what it computes (batch normalization in training mode: --inference-mode has it take the running statistics)}}
  %y = autopar.binary sub %h, %all {autopar.id = "centred"} : tensor<4x4xf32>
  return %y, %w : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"}) -> tensor<2x4xf32> {
  // expected-error@+1 {{stands in a function that is split into micro-batches already}}
  %y = autopar.micro_batch %x : tensor<2x4xf32> -> tensor<4xf32>
  %z = autopar.stack_micro_batches %y : tensor<4xf32> -> tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}

// -----

// expected-error@+1 {{expected a function @main of one block to split}}
module {
}
