// RUN: autopar-opt %s --autopar-mixed-precision="precision=bf16" --autopar-build-training-step="loss=mse(y,target)" --canonicalize --cse | FileCheck %s
// RUN: autopar-opt %s --autopar-mixed-precision="precision=bf16" --autopar-build-training-step="loss=mse(y,target) gradient-dtype=bf16" --canonicalize --cse | FileCheck %s --check-prefix=NARROW

// The way back reads the rounded value of the forward function; products yield gradients of parameters in f32, or
// in the narrow type where that is asked for; the loss and the update are f32.

// CHECK: %[[W:.*]] = autopar.cast %arg1 {autopar.id = "w/bf16"
// CHECK: %[[H:.*]] = autopar.dot_general {{.*}} {autopar.id = "fc1"{{.*}} -> tensor<2x4xbf16>
// CHECK: %[[HW:.*]] = autopar.cast %[[H]]
// CHECK: %[[A:.*]] = autopar.unary tanh %[[HW]] {autopar.id = "act"{{.*}} : tensor<2x4xf32>
// CHECK: %[[AN:.*]] = autopar.cast %[[A]] {{.*}} -> tensor<2x4xbf16>
// CHECK: %[[AW:.*]] = autopar.cast %[[AN]] {{.*}} -> tensor<2x4xf32>
// CHECK: %[[Y:.*]] = autopar.dot_general %[[AN]], %[[W]]
// CHECK: %[[YW:.*]] = autopar.cast %[[Y]] {{.*}} -> tensor<2x4xf32>
// CHECK: autopar.binary sub %[[YW]], %arg2 {{.*}} : tensor<2x4xf32>
// CHECK: %[[G2:.*]] = autopar.dot_general {{.*}}, %[[AN]] {{.*}} {autopar.id = "fc2/vjp.1"{{.*}} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<4x4xf32>
// CHECK: autopar.binary mul %[[AW]], %[[AW]]
// CHECK: %[[G1:.*]] = autopar.dot_general {{.*}} {autopar.id = "fc1/vjp.1"{{.*}} : (tensor<2x4xbf16>, tensor<2x4xbf16>) -> tensor<4x4xf32>
// CHECK: autopar.binary add %[[G2]], %[[G1]] {{.*}} : tensor<4x4xf32>
// CHECK: autopar.update @sgd %arg1, {{.*}} {autopar.id = "w/update"{{.*}} -> tensor<4x4xf32>

// NARROW: %[[G2:.*]] = autopar.dot_general {{.*}} {autopar.id = "fc2/vjp.1"{{.*}} -> tensor<4x4xbf16>
// NARROW: %[[G1:.*]] = autopar.dot_general {{.*}} {autopar.id = "fc1/vjp.1"{{.*}} -> tensor<4x4xbf16>
// NARROW: autopar.update @sgd %arg1, {{.*}} {autopar.id = "w/update"{{.*}} -> tensor<4x4xf32>
autopar.origin @w : tensor<4x4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x4xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %a = autopar.unary tanh %h {autopar.id = "act"} : tensor<2x4xf32>
  %y = autopar.dot_general %a, %w contract [1] x [1] {autopar.id = "fc2"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
