// RUN: autopar-opt %s --autopar-build-training-step="loss=mse(y,target) optimizer=sgd(lr=0.1) lr-scale=w*=10,*=0.5" | FileCheck %s

// The first pattern that fits a name says what its rate is multiplied with; the metric is the optimizer's own rate.

// CHECK: func.func @main
// CHECK-SAME: %[[RATE:arg[0-9]+]]: tensor<f64> {autopar.control = "learning_rate"
// CHECK-DAG: %[[TEN:.*]] = autopar.constant {{.*}}dense<1.000000e+01> : tensor<f64>
// CHECK-DAG: %[[HALF:.*]] = autopar.constant {{.*}}dense<5.000000e-01> : tensor<f64>
// CHECK-DAG: %[[FAST:.*]] = autopar.binary mul %[[RATE]], %[[TEN]]
// CHECK-DAG: %[[SLOW:.*]] = autopar.binary mul %[[RATE]], %[[HALF]]
// CHECK: %[[F:.*]] = autopar.cast %[[FAST]]
// CHECK: autopar.update @sgd %{{.*}}, %[[F]] {autopar.id = "w1/update"
// CHECK: autopar.update @sgd %{{.*}}, %[[F]] {autopar.id = "w2/update"
// CHECK: %[[S:.*]] = autopar.cast %[[SLOW]]
// CHECK: autopar.update @sgd %{{.*}}, %[[S]] {autopar.id = "v/update"
// CHECK: return {{.*}}, %[[RATE]] :

autopar.origin @w1 : tensor<4x4xf32>
autopar.origin @w2 : tensor<4x4xf32>
autopar.origin @v : tensor<4x4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w1: tensor<4x4xf32> {autopar.name = "w1", autopar.origin = @w1, autopar.trainable = "decay"},
                %w2: tensor<4x4xf32> {autopar.name = "w2", autopar.origin = @w2, autopar.trainable = "decay"},
                %v: tensor<4x4xf32> {autopar.name = "v", autopar.origin = @v, autopar.trainable = "decay"})
    -> (tensor<2x4xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w1 contract [1] x [0] {autopar.id = "fc1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %a = autopar.dot_general %h, %w2 contract [1] x [0] {autopar.id = "fc2"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %y = autopar.dot_general %a, %v contract [1] x [0] {autopar.id = "fc3"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
