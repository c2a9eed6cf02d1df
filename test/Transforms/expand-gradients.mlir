// RUN: autopar-opt %s --autopar-expand-gradients | FileCheck %s
// What takes a gradient's place has its name and phase; constants of one number are one.

// CHECK-LABEL: func.func @softmax
// CHECK-SAME: (%[[Y:.*]]: tensor<4x8xf32>, %[[G:.*]]: tensor<4x8xf32>)
func.func @softmax(%y: tensor<4x8xf32>, %g: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  // CHECK: %[[P:.*]] = autopar.binary mul %[[G]], %[[Y]] {autopar.phase = "backward"}
  // CHECK: %[[S:.*]] = autopar.reduce sum %[[P]] dims [1] {autopar.phase
  // CHECK: %[[R:.*]] = autopar.broadcast %[[S]] dims [0] {autopar.phase
  // CHECK: %[[C:.*]] = autopar.binary sub %[[G]], %[[R]] {autopar.phase
  // CHECK: autopar.binary mul %[[Y]], %[[C]] {autopar.id = "s/vjp.0", autopar.phase = "backward"}
  %0 = autopar.softmax_grad %y, %g dim 1 {autopar.id = "s/vjp.0", autopar.phase = "backward"} : tensor<4x8xf32>
  // CHECK-DAG: %[[T:.*]] = autopar.reduce sum %[[G]] dims [1]
  // CHECK-DAG: %[[U:.*]] = autopar.broadcast %[[T]] dims [0]
  // CHECK-DAG: %[[E:.*]] = autopar.unary exp %[[Y]]
  // CHECK: %[[M:.*]] = autopar.binary mul %[[E]], %[[U]]
  // CHECK: autopar.binary sub %[[G]], %[[M]]
  %1 = autopar.softmax_grad %y, %g dim 1 log : tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Statistics of narrow floats are computed in f32.
// CHECK-LABEL: func.func @normalize
// CHECK-COUNT-3: autopar.cast %{{.*}} : tensor<4x8xbf16> -> tensor<4x8xf32>
// CHECK: autopar.unary rsqrt %{{.*}} : tensor<4xf32>
// CHECK: %[[D:.*]] = autopar.cast %{{.*}} : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK: return %[[D]]
func.func @normalize(%x: tensor<4x8xbf16>, %y: tensor<4x8xbf16>, %g: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  %0 = autopar.normalize_grad %x, %y, %g dims [1] epsilon 1.0e-05 : tensor<4x8xbf16>
  return %0 : tensor<4x8xbf16>
}

// CHECK-LABEL: func.func @activations
// CHECK-COUNT-7: autopar.constant dense
// CHECK-NOT: autopar.constant
// CHECK: autopar.unary tanh
// CHECK: autopar.unary tanh
// CHECK-NOT: unary_grad
func.func @activations(%x: tensor<8xf32>, %g: tensor<8xf32>) -> tensor<8xf32> {
  %0 = autopar.unary_grad gelu_tanh %x, %g : tensor<8xf32>
  %1 = autopar.unary_grad gelu_tanh %x, %0 : tensor<8xf32>
  return %1 : tensor<8xf32>
}
