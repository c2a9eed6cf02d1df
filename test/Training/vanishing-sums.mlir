// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=sgd(lr=0.1)" | FileCheck %s

// A variance depends on what it is of also through the mean, but its derivative by the mean is a sum of deviations
// from it, which is zero: no sum of the gradient waits for another one.

// CHECK-LABEL: func.func @main
// CHECK: {autopar.id = "centered/vjp.sum"
// CHECK-NOT: autopar.reduce
// CHECK: "fc/vjp.1"
autopar.origin @w : tensor<4x4xf32>
func.func @main(%x: tensor<8x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<4xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %count = autopar.constant {autopar.id = "count"} dense<8.0> : tensor<4xf32>
  %sum = autopar.reduce sum %h dims [0] {autopar.id = "sum"} : tensor<8x4xf32> -> tensor<4xf32>
  %mean = autopar.binary div %sum, %count {autopar.id = "mean"} : tensor<4xf32>
  %each = autopar.broadcast %mean dims [1] {autopar.id = "each"} : tensor<4xf32> -> tensor<8x4xf32>
  %centered = autopar.binary sub %h, %each {autopar.id = "centered"} : tensor<8x4xf32>
  %square = autopar.binary mul %centered, %centered {autopar.id = "square"} : tensor<8x4xf32>
  %variance = autopar.reduce sum %square dims [0] {autopar.id = "variance"} : tensor<8x4xf32> -> tensor<4xf32>
  return %variance : tensor<4xf32>
}
