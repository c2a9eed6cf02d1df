// RUN: autopar-opt %s --split-input-file --autopar-insert-recompute="target=cuda" | FileCheck %s

// Where only what is made of a result is named, that part of the group is cloned and reads the result.
// CHECK-LABEL: func.func @part
// CHECK: %[[W:.*]]:2 = autopar.group %arg0, %arg1 {autopar.id = "first"}
// CHECK: %[[D:.*]] = autopar.unary cos
// CHECK-NEXT: %[[F:.*]] = autopar.fence %[[W]]#0 after %[[D]] {autopar.id = "second/fence"}
// CHECK-NEXT: %[[G:.*]] = autopar.group %[[F]] {autopar.id = "second/recompute"}
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<8xf32>):
// CHECK-NEXT: %[[T:.*]] = autopar.unary tanh %[[A]]
// CHECK-NEXT: autopar.yield %[[T]]
// CHECK: autopar.binary mul %[[D]], %[[G]] {autopar.id = "second/vjp.0"}
// CHECK-NEXT: return %[[W]]#0, %[[W]]#1
func.func @part(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {autopar.recompute = ["second"]} {
  %0:2 = autopar.group %x, %y {autopar.id = "first"} : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%a: tensor<8xf32>, %b: tensor<8xf32>):
    %1 = autopar.binary add %a, %b {autopar.id = "first"} : tensor<8xf32>
    %2 = autopar.unary tanh %1 {autopar.id = "second"} : tensor<8xf32>
    autopar.yield %1, %2 : tensor<8xf32>, tensor<8xf32>
  }
  %d = autopar.unary cos %x {autopar.id = "loss/vjp.0"} : tensor<8xf32>
  %g = autopar.binary mul %d, %0#1 {autopar.id = "second/vjp.0"} : tensor<8xf32>
  return %0#0, %0#1, %g : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// A group whose parts both read what it is made of stays whole.
// CHECK-LABEL: func.func @together
// CHECK: autopar.fence %arg0 after
// CHECK-NEXT: autopar.group %{{.*}} {autopar.id = "first/recompute"}
func.func @together(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {autopar.recompute = ["second"]} {
  %0:2 = autopar.group %x {autopar.id = "first"} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%a: tensor<8xf32>):
    %1 = autopar.unary exp %a {autopar.id = "first"} : tensor<8xf32>
    %2 = autopar.binary mul %1, %a {autopar.id = "second"} : tensor<8xf32>
    autopar.yield %1, %2 : tensor<8xf32>, tensor<8xf32>
  }
  %d = autopar.unary cos %x {autopar.id = "loss/vjp.0"} : tensor<8xf32>
  %g = autopar.binary mul %d, %0#1 {autopar.id = "second/vjp.0"} : tensor<8xf32>
  return %0#0, %0#1, %g : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Parts of which one only lays out what it reads stay together: alone it would be taken for a view and not computed again.
// CHECK-LABEL: func.func @laid_out
// CHECK: autopar.fence %arg0 after
// CHECK-NEXT: autopar.group %{{.*}} {autopar.id = "first/recompute"}
func.func @laid_out(%x: tensor<8x4xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) attributes {autopar.recompute = ["second"]} {
  %0:2 = autopar.group %x {autopar.id = "first"} : (tensor<8x4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  ^bb0(%a: tensor<8x4xf32>):
    %1 = autopar.transpose %a permutation [1, 0] {autopar.id = "first"} : tensor<8x4xf32> -> tensor<4x8xf32>
    %2 = autopar.unary tanh %1 {autopar.id = "second"} : tensor<4x8xf32>
    autopar.yield %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
  }
  %d = autopar.unary cos %y {autopar.id = "loss/vjp.0"} : tensor<4x8xf32>
  %g = autopar.binary mul %d, %0#1 {autopar.id = "second/vjp.0"} : tensor<4x8xf32>
  return %0#0, %0#1, %g : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
