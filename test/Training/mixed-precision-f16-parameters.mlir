// RUN: autopar-opt %s --autopar-mixed-precision="precision=fp16" --autopar-build-training-step="loss=mse(y,target)" | FileCheck %s

// A bias that the model has in f16 is updated in f16, though its gradient is summed in f32.
// CHECK: autopar.formula @sgd
// CHECK: ^bb0(%[[P:.*]]: tensor<f16>, %[[G:.*]]: tensor<f32>, %[[LR:.*]]: tensor<f16>):
// CHECK: %[[N:.*]] = autopar.cast %[[G]] : tensor<f32> -> tensor<f16>
// CHECK: autopar.binary mul %[[LR]], %[[N]] : tensor<f16>
autopar.origin @c : tensor<4xf16>
func.func @main(%x: tensor<2x4xf16> {autopar.name = "x"}, %w: tensor<4x4xf16> {autopar.name = "w"},
                %c: tensor<4xf16> {autopar.name = "c", autopar.origin = @c, autopar.trainable = "no_decay"})
    -> (tensor<2x4xf16> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>
  %r = autopar.broadcast %c dims [1] {autopar.id = "bias"} : tensor<4xf16> -> tensor<2x4xf16>
  %y = autopar.binary add %h, %r {autopar.id = "sum"} : tensor<2x4xf16>
  return %y : tensor<2x4xf16>
}
