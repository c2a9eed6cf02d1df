// RUN: autopar-opt %s --autopar-mixed-precision="precision=bf16" --autopar-build-training-step="loss=mse(y,target)" | FileCheck %s

// A cotangent that a product reads rounded is widened in front of all others that read it, the first one too.
// CHECK: %[[C:.*]] = autopar.binary mul {{.*}} {autopar.id = "gated/vjp.1"
// CHECK: %[[N:.*]] = autopar.cast %[[C]] {{.*}} -> tensor<2x4xbf16>
// CHECK: %[[W:.*]] = autopar.cast %[[N]] {{.*}} -> tensor<2x4xf32>
// CHECK: autopar.unary neg %[[W]] {autopar.id = "between/vjp.1"
autopar.origin @w : tensor<4x4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x4xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %p = autopar.dot_general %h, %w contract [1] x [1] {autopar.id = "fc2"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %t = autopar.unary tanh %p {autopar.id = "new"} : tensor<2x4xf32>
  %d = autopar.binary sub %h, %t {autopar.id = "between"} : tensor<2x4xf32>
  %y = autopar.binary mul %x, %d {autopar.id = "gated"} : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
