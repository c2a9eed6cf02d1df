// RUN: autopar-opt %s --split-input-file --autopar-to-exec | FileCheck %s

// A step that may turn out not to count goes on with what a kernel makes beside the next value: that waits elsewhere.

// CHECK-LABEL: exec.program
// CHECK-DAG: exec.port state "w" %[[W:[0-9]+]] : tensor<4xf32>
// CHECK: exec.entry @step
// CHECK: exec.launch @{{.*}}(%[[W]]) -> (%[[NEXT:[0-9]+]], %[[Y:[0-9]+]])
// CHECK: exec.launch @{{.*}}(%[[Y]])
// CHECK: exec.copy %[[NEXT]] at 0 -> %[[W]] at 0 bytes 16
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.donated})
    -> (tensor<4xf32> {autopar.name = "w"}, tensor<f32> {autopar.guard, autopar.metric, autopar.name = "loss"}) {
  %next:2 = autopar.group %w {autopar.id = "next"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.unary sin %x : tensor<4xf32>
    %1 = autopar.unary cos %x : tensor<4xf32>
    autopar.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  %loss = autopar.group %next#1 {autopar.id = "loss"} : (tensor<4xf32>) -> tensor<f32> {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.reduce sum %x dims [0] : tensor<4xf32> -> tensor<f32>
    autopar.yield %0 : tensor<f32>
  }
  return %next#0, %loss : tensor<4xf32>, tensor<f32>
}

// -----

// Where every step counts, it takes the place of the old one.

// CHECK-LABEL: exec.program
// CHECK-DAG: exec.port state "w" %[[W:[0-9]+]] : tensor<4xf32>
// CHECK: exec.entry @step
// CHECK: exec.launch @{{.*}}(%[[W]]) -> (%[[W]], %{{[0-9]+}})
// CHECK-NOT: -> %[[W]] at
func.func @main(%w: tensor<4xf32> {autopar.name = "w", autopar.donated}) -> (tensor<4xf32> {autopar.name = "w"}, tensor<f32> {autopar.name = "sum"}) {
  %next:2 = autopar.group %w {autopar.id = "next"} : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.unary sin %x : tensor<4xf32>
    %1 = autopar.unary cos %x : tensor<4xf32>
    autopar.yield %0, %1 : tensor<4xf32>, tensor<4xf32>
  }
  %sum = autopar.group %next#1 {autopar.id = "sum"} : (tensor<4xf32>) -> tensor<f32> {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.reduce sum %x dims [0] : tensor<4xf32> -> tensor<f32>
    autopar.yield %0 : tensor<f32>
  }
  return %next#0, %sum : tensor<4xf32>, tensor<f32>
}
