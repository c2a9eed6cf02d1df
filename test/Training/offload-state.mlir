// RUN: autopar-opt %s --pass-pipeline="builtin.module(func.func(autopar-offload-state))" | FileCheck %s

// What updates alone read, or everybody else through one rounding, lies in host memory. Not so a weight that the
// forward pass reads as it is, nor a number.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg0: tensor<4xf32> {autopar.donated, autopar.name = "plain"}
// CHECK-SAME: %arg1: tensor<4xf32> {autopar.donated, autopar.name = "plain/momentum", autopar.on_host}
// CHECK-SAME: %arg2: tensor<4xf32> {autopar.donated, autopar.name = "rounded", autopar.on_host}
// CHECK-SAME: %arg3: tensor<f32> {autopar.donated, autopar.name = "scalar"}
// CHECK-SAME: %arg4: tensor<4xf32> {autopar.name = "gradient"}
autopar.formula @momentum {
^bb0(%w: tensor<f32>, %g: tensor<f32>, %m: tensor<f32>):
  %0 = autopar.binary add %m, %g : tensor<f32>
  %1 = autopar.binary sub %w, %0 : tensor<f32>
  autopar.yield %1, %0 : tensor<f32>, tensor<f32>
}
func.func @main(%w: tensor<4xf32> {autopar.donated, autopar.name = "plain"}, %m: tensor<4xf32> {autopar.donated, autopar.name = "plain/momentum"},
                %r: tensor<4xf32> {autopar.donated, autopar.name = "rounded"}, %s: tensor<f32> {autopar.donated, autopar.name = "scalar"},
                %g: tensor<4xf32> {autopar.name = "gradient"})
    -> (tensor<4xf32> {autopar.name = "plain"}, tensor<4xf32> {autopar.name = "plain/momentum"}, tensor<4xf32> {autopar.name = "rounded"},
        tensor<f32> {autopar.name = "scalar"}, tensor<4xbf16> {autopar.name = "y"}) {
  %0 = autopar.binary add %w, %g : tensor<4xf32>
  %y = autopar.cast %r : tensor<4xf32> -> tensor<4xbf16>
  %1:2 = autopar.update @momentum %w, %0, %m : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %2:2 = autopar.update @momentum %r, %0, %g : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %1#0, %1#1, %2#0, %s, %y : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<4xbf16>
}
