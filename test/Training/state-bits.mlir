// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(beta2=0.95,ema=0.9,state_bits=16) loss-scale=dynamic" | FileCheck %s

// What is kept is bf16, averages are not; formulas compute in the parameter's type. A step that is skipped keeps what
// there was, without rounding it again.

// CHECK: autopar.formula @adamw {
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<f32>, %[[M:.*]]: tensor<bf16>, %[[V:.*]]: tensor<bf16>, %[[A:.*]]: tensor<f32>,
// CHECK-NEXT: %[[WIDE:.*]] = autopar.cast %[[M]] : tensor<bf16> -> tensor<f32>
// CHECK: autopar.binary sub %{{.*}}, %[[WIDE]] : tensor<f32>
// CHECK: %[[NARROW:.*]] = autopar.cast %{{.*}} : tensor<f32> -> tensor<bf16>
// CHECK: autopar.select %{{.*}}, %[[NARROW]], %[[M]]
// CHECK: autopar.yield {{.*}} : tensor<f32>, tensor<bf16>, tensor<bf16>, tensor<f32>

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<4x4xbf16> {autopar.donated, autopar.name = "w/mean"}
// CHECK-SAME: tensor<4x4xbf16> {autopar.donated, autopar.name = "w/square"}
// CHECK-SAME: tensor<4x4xf32> {autopar.donated, autopar.name = "w/ema"}
autopar.origin @w : tensor<4x4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x4xf32> {autopar.name = "y"}) {
  %y = autopar.dot_general %x, %w contract [1] x [0] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
