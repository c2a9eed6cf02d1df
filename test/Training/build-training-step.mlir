// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=momentum(lr=0.1) clip-norm=1" | FileCheck %s
// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=adamw(lr=3e-4,weight_decay=0.1)" --canonicalize | FileCheck %s --check-prefix=ADAMW

// The step takes and returns parameters and state; the rate and the number of the step are values.

// What happens to an element of a parameter stands in a formula of parameter, state, gradient, rate and clip factor.

// CHECK: autopar.formula @momentum {
// CHECK-NEXT: ^bb0(%[[P:.*]]: tensor<f32>, %[[V:.*]]: tensor<f32>, %[[G:.*]]: tensor<f32>, %[[R:.*]]: tensor<f32>, %[[C:.*]]: tensor<f32>):
// CHECK-NEXT: autopar.binary mul %[[G]], %[[C]]
// CHECK: autopar.binary sub %[[P]]
// CHECK-NEXT: autopar.yield

// CHECK-LABEL: func.func @main(%arg0: tensor<2x4xf32> {autopar.name = "x"},
// CHECK-SAME: %arg1: tensor<4x4xf32> {autopar.donated, autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"}
// CHECK-SAME: %arg2: tensor<2x4xf32> {autopar.name = "target"}
// CHECK-SAME: %arg3: tensor<4x4xf32> {autopar.donated, autopar.name = "w/momentum"}
// CHECK-SAME: %arg4: tensor<f64> {autopar.control = "learning_rate", autopar.initial = 1.000000e-01 : f64, autopar.name = "control.learning_rate"}
// CHECK-SAME: %arg5: tensor<i64> {autopar.control = "step", autopar.name = "control.step"}
// CHECK-SAME: -> (tensor<4x4xf32> {autopar.name = "w"}, tensor<4x4xf32> {autopar.name = "w/momentum"},
// CHECK-SAME:     tensor<f32> {autopar.evaluated, autopar.guard, autopar.metric, autopar.name = "loss"}, tensor<f32> {autopar.guard, autopar.metric, autopar.name = "gradient_norm"},
// CHECK-SAME:     tensor<f64> {autopar.metric, autopar.name = "learning_rate"})

// The tied weight is used twice: the gradients add up. Nothing is derived by the input.

// CHECK: %[[H:.*]] = autopar.dot_general %arg0, %arg1 contract [1] x [0] {autopar.id = "fc1"
// CHECK: %[[A:.*]] = autopar.unary tanh %[[H]] {autopar.id = "act"
// CHECK: %[[Y:.*]] = autopar.dot_general %[[A]], %arg1 contract [1] x [1] {autopar.id = "fc2"
// CHECK: %[[DIFF:.*]] = autopar.binary sub %[[Y]], %arg2
// CHECK: %[[LOSS:.*]] = autopar.binary mul {{.*}}"loss/binary.2"} : tensor<f32>
// CHECK: %[[DA:.*]] = autopar.dot_general %[[DY:.*]], %arg1 contract [1] x [0] {autopar.id = "fc2/vjp.0"
// CHECK: autopar.dot_general %[[DY]], %[[A]] contract [0] x [0] {autopar.id = "fc2/vjp.1"
// CHECK: {autopar.id = "act/vjp.0"
// CHECK-NOT: "fc1/vjp.0"
// CHECK: autopar.dot_general %arg0, {{.*}} contract [0] x [0] {autopar.id = "fc1/vjp.1"
// CHECK: autopar.binary add {{.*}} {autopar.id = "w/vjp.sum"
// CHECK: autopar.unary sqrt {{.*}} {autopar.id = "clip/unary"
// CHECK: %[[CLIP:.*]] = autopar.binary min {{.*}} {autopar.id = "clip/binary
// CHECK: %[[RATE:.*]] = autopar.cast %arg4 {{.*}} : tensor<f64> -> tensor<f32>
// CHECK: %[[NEW:.*]]:2 = autopar.update @momentum %arg1, %arg3, {{.*}}, %[[RATE]], %[[CLIP]] {autopar.id = "w/update"
// CHECK: return %[[NEW]]#0, %[[NEW]]#1, %[[LOSS]], {{.*}}, %arg4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<f32>, tensor<f32>, tensor<f64>

// ADAMW: autopar.formula @adamw {
// ADAMW: autopar.unary sqrt
// ADAMW-LABEL: func.func @main
// ADAMW-SAME: autopar.name = "w/mean"
// ADAMW-SAME: autopar.name = "w/square"
// ADAMW-SAME: autopar.initial = 3.000000e-04 : f64
// ADAMW: autopar.cast %arg{{.*}} {autopar.id = "optimizer/cast"{{.*}} : tensor<i64> -> tensor<f64>
// ADAMW: autopar.binary pow
// ADAMW: autopar.update @adamw {{.*}} {autopar.id = "w/update"
autopar.origin @w : tensor<4x4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x4xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %a = autopar.unary tanh %h {autopar.id = "act"} : tensor<2x4xf32>
  %y = autopar.dot_general %a, %w contract [1] x [1] {autopar.id = "fc2"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
