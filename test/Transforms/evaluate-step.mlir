// RUN: autopar-opt %s --split-input-file --autopar-evaluate-step="cluster=presets:h100x2" | FileCheck %s

// 8 MiB at 2680 GB/s behind 4 us of launching; a look at a value and a constant take no time.
// CHECK: autopar.step_us = 7.13{{[0-9]*}} : f64
module {
  autopar.mesh @mesh ["t" = 2]
  func.func @main(%x: tensor<1048576xf32>) -> tensor<1024x1024xf32> {
    %one = autopar.constant dense<1.0> : tensor<1048576xf32>
    %y = autopar.group %x : (tensor<1048576xf32>) -> tensor<1048576xf32> {
    ^bb0(%a: tensor<1048576xf32>):
      %b = autopar.unary exp %a : tensor<1048576xf32>
      %c = autopar.unary sqrt %b : tensor<1048576xf32>
      autopar.yield %c : tensor<1048576xf32>
    }
    %z = autopar.reshape %y : tensor<1048576xf32> -> tensor<1024x1024xf32>
    return %z : tensor<1024x1024xf32>
  }
}

// -----

// Two kernels; the all-reduce of the first goes on beside the second, and is longer.
// CHECK: autopar.step_us = 28.4{{[0-9]*}} : f64
module {
  autopar.mesh @mesh ["t" = 2]
  func.func @main(%x: tensor<1048576xf32>) -> (tensor<1048576xf32>, tensor<1048576xf32>) {
    %y = autopar.unary exp %x : tensor<1048576xf32>
    %sum = autopar.all_reduce sum %y over @mesh ["t"] : tensor<1048576xf32>
    %z = autopar.unary sqrt %x : tensor<1048576xf32>
    return %sum, %z : tensor<1048576xf32>, tensor<1048576xf32>
  }
}

// -----

// Two stages, two micro-batches: a row of the first, the bytes of two messages one after the other, the latency of the second, a row of the second, and the results put together.
// CHECK: autopar.step_us = 52.19{{[0-9]*}} : f64
module {
  autopar.mesh @mesh.0 ["t" = 1] devices [0]
  autopar.mesh @mesh.1 ["t" = 1] devices [1]
  func.func @main(%all: tensor<2x1048576xf32>, %w: tensor<1048576xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64}) -> tensor<2x1048576xf32>
      attributes {autopar.schedule = "gpipe", autopar.stage_meshes = 2 : i64} {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x1048576xf32> -> tensor<1048576xf32>
    %f = autopar.binary mul %x, %w {autopar.id = "f"} : tensor<1048576xf32>
    %there = autopar.transfer %f to 1 {autopar.id = "f/to.1"} : tensor<1048576xf32>
    %g = autopar.unary exp %there {autopar.id = "g"} : tensor<1048576xf32>
    %out = autopar.stack_micro_batches %g : tensor<1048576xf32> -> tensor<2x1048576xf32>
    return %out : tensor<2x1048576xf32>
  }
}
