// RUN: autopar-opt %s --autopar-expand-updates | FileCheck %s

// Gradients that an elementwise operation makes may become part of the update's kernel: operations stand alone. Numbers
// and constants are repeated once for all parameters of a shape; the last operation takes the update's name, all its phase.

// CHECK-NOT: autopar.formula
// CHECK-LABEL: func.func @fusible
// CHECK: %[[HALF:.*]] = autopar.constant dense<5.000000e-01> : tensor<4x8xf32>
// CHECK: %[[DA:.*]] = autopar.unary neg %arg1
// CHECK: %[[DB:.*]] = autopar.unary neg %arg3
// CHECK: %[[RATE:.*]] = autopar.broadcast %arg4 dims [] {autopar.id = "a/update/broadcast", autopar.phase = "update"} : tensor<f32> -> tensor<4x8xf32>
// CHECK: %[[H:.*]] = autopar.binary mul %[[DA]], %[[HALF]] {autopar.id = "a/update/binary", autopar.phase = "update"} : tensor<4x8xf32>
// CHECK: %[[S:.*]] = autopar.binary mul %[[RATE]], %[[H]] {autopar.id = "a/update/binary.1"
// CHECK: %[[A:.*]] = autopar.binary sub %arg0, %[[S]] {autopar.id = "a/update", autopar.phase = "update"} : tensor<4x8xf32>
// CHECK: %[[I:.*]] = autopar.binary mul %[[DB]], %[[HALF]]
// CHECK: %[[T:.*]] = autopar.binary mul %[[RATE]], %[[I]]
// CHECK: %[[B:.*]] = autopar.binary sub %arg2, %[[T]] {autopar.id = "b/update"
// CHECK: return %[[A]], %[[H]], %[[B]], %[[I]]
autopar.formula @sgd {
^bb0(%w: tensor<f32>, %g: tensor<f32>, %rate: tensor<f32>):
  %half = autopar.constant dense<0.5> : tensor<f32>
  %h = autopar.binary mul %g, %half : tensor<f32>
  %step = autopar.binary mul %rate, %h : tensor<f32>
  %next = autopar.binary sub %w, %step : tensor<f32>
  autopar.yield %next, %h : tensor<f32>, tensor<f32>
}
func.func @fusible(%a: tensor<4x8xf32>, %x: tensor<4x8xf32>, %b: tensor<4x8xf32>, %y: tensor<4x8xf32>, %rate: tensor<f32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %da = autopar.unary neg %x : tensor<4x8xf32>
  %db = autopar.unary neg %y : tensor<4x8xf32>
  %0:2 = autopar.update @sgd %a, %da, %rate {autopar.id = "a/update", autopar.phase = "update"}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %1:2 = autopar.update @sgd %b, %db, %rate {autopar.id = "b/update", autopar.phase = "update"}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return %0#0, %0#1, %1#0, %1#1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// A product whose result something else reads has no epilogue, so that nothing can join the update's kernel: a group at
// once. The second one might take the update's first product.

// CHECK-LABEL: func.func @alone
// CHECK: %[[G:.*]] = autopar.dot_general
// CHECK: %[[NEXT:.*]]:2 = autopar.group %arg0, %[[G]], %arg3 {autopar.id = "a/update"}
// CHECK-NEXT: ^bb0(%[[W:.*]]: tensor<4x8xf32>, %[[D:.*]]: tensor<4x8xf32>, %[[R:.*]]: tensor<f32>):
// CHECK-NEXT: %[[RATE:.*]] = autopar.broadcast %[[R]] dims []
// CHECK-NEXT: %[[HALF:.*]] = autopar.constant dense<5.000000e-01> : tensor<4x8xf32>
// CHECK-NEXT: %[[H:.*]] = autopar.binary mul %[[D]], %[[HALF]] {autopar.phase = "update"} : tensor<4x8xf32>
// CHECK-NEXT: %[[S:.*]] = autopar.binary mul %[[RATE]], %[[H]]
// CHECK-NEXT: %[[N:.*]] = autopar.binary sub %[[W]], %[[S]]
// CHECK-NEXT: autopar.yield %[[N]], %[[H]]
// CHECK-NOT: autopar.group
// CHECK: return %[[NEXT]]#0, %[[NEXT]]#1, {{.*}}, %[[G]]
func.func @alone(%a: tensor<4x8xf32>, %x: tensor<4x3xf32>, %y: tensor<3x8xf32>, %rate: tensor<f32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %da = autopar.dot_general %x, %y contract [1] x [0] : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %db = autopar.dot_general %x, %y contract [1] x [0] : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %0:2 = autopar.update @sgd %a, %da, %rate {autopar.id = "a/update", autopar.phase = "update"}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %1:2 = autopar.update @sgd %a, %db, %rate {autopar.id = "b/update", autopar.phase = "update"}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<f32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  return %0#0, %0#1, %1#0, %1#1, %da : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
