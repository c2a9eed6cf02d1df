// RUN: autopar-opt %s --autopar-build-training-step="loss=softmax_cross_entropy(logits,labels,ignore_index=-100,label_smoothing=0.1)" | FileCheck %s
// RUN: autopar-opt %s --autopar-build-training-step="loss=negative_log_likelihood(logits,labels,axis=1)" | FileCheck %s --check-prefix=NLL
// RUN: autopar-opt %s --autopar-build-training-step="loss=binary_cross_entropy(logits,target)" | FileCheck %s --check-prefix=BCE
// RUN: autopar-opt %s --autopar-build-training-step="loss=total" | FileCheck %s --check-prefix=OWN
// RUN: autopar-opt %s --autopar-build-training-step="loss=softmax_cross_entropy(logits,labels)+0.5*total" | FileCheck %s --check-prefix=SUM
// RUN: autopar-opt %s --autopar-build-training-step="loss=3*total" | FileCheck %s --check-prefix=SCALED

// Cross entropy knows its own derivative: the walk starts at the logits. The number of kept labels is
// counted over the whole batch, and rows of others are 0, whatever they hold.

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<2x3xi64> {autopar.exception = -100 : i64, autopar.limits = array<i64: 0, 4>, autopar.name = "labels"}
// CHECK: autopar.compare ne {{.*}}(tensor<2x3xi64>, tensor<2x3xi64>)
// CHECK: autopar.reduce sum {{.*}} dims [0, 1] {{.*}} : tensor<2x3xf32> -> tensor<f32>
// CHECK: autopar.reduce max {{.*}} dims [2]
// CHECK: autopar.select {{.*}} (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK: %[[SLOPE:.*]] = autopar.select {{.*}} {autopar.id = "loss/vjp/select.1"}
// CHECK: autopar.dot_general %arg0, %[[SLOPE]] {{.*}} {autopar.id = "fc/vjp.1"

// NLL: tensor<2x5xi64> {autopar.limits = array<i64: 0, 2>, autopar.name = "labels"}
// NLL: autopar.unary neg
// BCE: tensor<2x3x5xf32> {autopar.name = "target"}
// BCE: autopar.unary softplus
// OWN: autopar.constant {autopar.id = "loss/vjp"{{.*}} dense<1.000000e+00> : tensor<f32>
// OWN: {autopar.id = "total/vjp.0"

// A sum starts at the logits of the one and at the value of the other; what it is without such knowledge is
// differentiated as it stands.

// SUM: autopar.binary mul {{.*}}autopar.id = "loss/binary{{.*}} : tensor<f32>
// SUM: autopar.binary add {{.*}}autopar.id = "loss/binary{{.*}} : tensor<f32>
// SUM: %[[FACTOR:.*]] = autopar.constant {autopar.id = "loss/vjp{{.*}} dense<5.000000e-01> : tensor<f32>
// SUM: autopar.broadcast %[[FACTOR]] {{.*}}{autopar.id = "total/vjp.0"
// SUM: {autopar.id = "fc/vjp.sum"
// SCALED: autopar.constant {autopar.id = "loss/vjp"{{.*}} dense<1.000000e+00> : tensor<f32>
// SCALED: {autopar.id = "total/vjp.0"
autopar.origin @w : tensor<4x5xf32>
func.func @main(%x: tensor<2x3x4xf32> {autopar.name = "x"},
                %w: tensor<4x5xf32> {autopar.name = "w", autopar.origin = @w, autopar.trainable = "decay"})
    -> (tensor<2x3x5xf32> {autopar.name = "logits"}, tensor<f32> {autopar.name = "total"}) {
  %y = autopar.dot_general %x, %w contract [2] x [0] {autopar.id = "fc"} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  %t = autopar.reduce sum %y dims [0, 1, 2] {autopar.id = "total"} : tensor<2x3x5xf32> -> tensor<f32>
  return %y, %t : tensor<2x3x5xf32>, tensor<f32>
}
