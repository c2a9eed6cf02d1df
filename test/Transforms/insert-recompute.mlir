// RUN: autopar-opt %s --split-input-file --autopar-insert-recompute | FileCheck %s
// RUN: autopar-opt %s --split-input-file --autopar-insert-recompute --cse --canonicalize | FileCheck %s --check-prefix=KEPT

// What is named is computed again before its first reader in the backward pass, from what is kept,
// once the gradient is there; a look at it follows, and so does what it was made of if that is named too.
// CHECK-LABEL: func.func @main
// CHECK-NOT: autopar.recompute
// CHECK: %[[H:.*]] = autopar.unary exp %arg0 {autopar.id = "h"}
// CHECK-NEXT: %[[A:.*]] = autopar.unary tanh %[[H]] {autopar.id = "a"}
// CHECK-NEXT: %[[R:.*]] = autopar.reshape %[[A]]
// CHECK-NEXT: %[[Y:.*]] = autopar.unary neg %[[R]] {autopar.id = "y"}
// CHECK-NEXT: %[[D:.*]] = autopar.unary cos %[[Y]] {autopar.id = "y/vjp.0"}
// CHECK-NEXT: %[[F:.*]] = autopar.fence %arg0 after %[[D]] {autopar.id = "h/fence"} : (tensor<8xf32>, tensor<2x4xf32>) -> tensor<8xf32>
// CHECK-NEXT: %[[H2:.*]] = autopar.unary exp %[[F]] {autopar.id = "h/recompute"}
// CHECK-NEXT: %[[A2:.*]] = autopar.unary tanh %[[H2]] {autopar.id = "a/recompute"}
// CHECK-NEXT: %[[R2:.*]] = autopar.reshape %[[A2]]
// CHECK-NEXT: %[[G:.*]] = autopar.binary mul %[[D]], %[[R2]] {autopar.id = "r/vjp.0"}
// CHECK-NEXT: %[[S:.*]] = autopar.reshape %[[G]]
// CHECK-NEXT: autopar.binary mul %[[S]], %[[A2]] {autopar.id = "a/vjp.0"}
// KEPT-LABEL: func.func @main
// KEPT-COUNT-2: autopar.unary exp
// KEPT-LABEL: func.func @group
func.func @main(%x: tensor<8xf32>) -> (tensor<2x4xf32>, tensor<8xf32>) attributes {autopar.recompute = ["a", "h"]} {
  %h = autopar.unary exp %x {autopar.id = "h"} : tensor<8xf32>
  %a = autopar.unary tanh %h {autopar.id = "a"} : tensor<8xf32>
  %r = autopar.reshape %a : tensor<8xf32> -> tensor<2x4xf32>
  %y = autopar.unary neg %r {autopar.id = "y"} : tensor<2x4xf32>
  %d = autopar.unary cos %y {autopar.id = "y/vjp.0"} : tensor<2x4xf32>
  %g = autopar.binary mul %d, %r {autopar.id = "r/vjp.0"} : tensor<2x4xf32>
  %s = autopar.reshape %g : tensor<2x4xf32> -> tensor<8xf32>
  %b = autopar.binary mul %s, %a {autopar.id = "a/vjp.0"} : tensor<8xf32>
  return %y, %b : tensor<2x4xf32>, tensor<8xf32>
}

// -----

// The group around what is named is cloned whole, whatever it is called; what nobody in the backward pass
// reads is not computed again.
// CHECK-LABEL: func.func @group
// CHECK: autopar.group %arg0 {autopar.id = "first"}
// CHECK: %[[D:.*]] = autopar.unary cos
// CHECK-NEXT: %[[F:.*]] = autopar.fence %arg0 after %[[D]]
// CHECK-NEXT: %[[G:.*]]:2 = autopar.group %[[F]] {autopar.id = "first/recompute"}
// CHECK: autopar.binary mul %[[D]], %[[G]]#1 {autopar.id = "second/vjp.0"}
// CHECK-NOT: other/recompute
func.func @group(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) attributes {autopar.recompute = ["first", "second", "other"]} {
  %0:2 = autopar.group %x {autopar.id = "first"} : (tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  ^bb0(%a: tensor<8xf32>):
    %1 = autopar.unary exp %a {autopar.id = "first"} : tensor<8xf32>
    %2 = autopar.unary tanh %1 {autopar.id = "second"} : tensor<8xf32>
    autopar.yield %1, %2 : tensor<8xf32>, tensor<8xf32>
  }
  %other = autopar.unary neg %0#0 {autopar.id = "other"} : tensor<8xf32>
  %d = autopar.unary cos %x {autopar.id = "loss/vjp.0"} : tensor<8xf32>
  %g = autopar.binary mul %d, %0#1 {autopar.id = "second/vjp.0"} : tensor<8xf32>
  return %0#0, %other, %g : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// -----

// Without operands there is nothing to wait for: the position alone says when. The numbers are the same again.
// CHECK-LABEL: func.func @random
// CHECK: autopar.random uniform seed 1 stream 7
// CHECK: autopar.random uniform seed 1 stream 7 {{.*}} {autopar.id = "drop/recompute"}
// CHECK-NEXT: autopar.binary mul %{{.*}}, %{{.*}} {autopar.id = "drop/vjp.0"}
func.func @random(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) attributes {autopar.recompute = ["drop"]} {
  %r = autopar.random uniform seed 1 stream 7 of [8] {autopar.id = "drop"} : () -> tensor<8xf32>
  %y = autopar.binary mul %x, %r {autopar.id = "y"} : tensor<8xf32>
  %g = autopar.binary mul %x, %r {autopar.id = "drop/vjp.0"} : tensor<8xf32>
  return %y, %g : tensor<8xf32>, tensor<8xf32>
}

// -----

// What both passes gather alike is gathered again once for both, ahead of the gradient: it is made of
// a parameter alone. A gather of another kind stays, and nothing is shared where nothing runs again.
// CHECK-LABEL: func.func @gathered
// CHECK: autopar.all_gather %arg0 dim 0 {{.*}} {autopar.id = "w/forward/reshard"}
// CHECK: %[[D:.*]] = autopar.unary cos
// CHECK-NEXT: %[[W:.*]] = autopar.fence %arg0 {autopar.id = "w/forward/reshard/fence"} : (tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[G:.*]] = autopar.all_gather %[[W]] dim 0 {{.*}} {autopar.id = "w/forward/reshard/recompute"}
// CHECK-NEXT: %[[X:.*]] = autopar.fence %arg1 after %[[D]]
// CHECK-NEXT: %[[Y:.*]] = autopar.binary mul %[[X]], %[[G]] {autopar.id = "y/recompute"}
// CHECK-NEXT: autopar.binary mul %[[D]], %[[Y]]
// CHECK-NEXT: autopar.binary mul %[[D]], %[[G]]
// CHECK: autopar.all_gather %arg0 dim 0 over @mesh ["other"] {autopar.id = "w/other/reshard"}
// CHECK-LABEL: func.func @kept
// CHECK: autopar.all_gather {{.*}} {autopar.id = "w/forward/reshard"}
// CHECK: autopar.all_gather {{.*}} {autopar.id = "w/backward/reshard"}
module {
  autopar.mesh @mesh ["data" = 2, "other" = 2]
  func.func @gathered(%w: tensor<4xf32> {autopar.origin = "parameter"}, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>)
      attributes {autopar.recompute = ["w/forward/reshard", "y"]} {
    %0 = autopar.all_gather %w dim 0 over @mesh ["data"] {autopar.id = "w/forward/reshard"} : tensor<4xf32> -> tensor<8xf32>
    %y = autopar.binary mul %x, %0 {autopar.id = "y"} : tensor<8xf32>
    %d = autopar.unary cos %x {autopar.id = "y/vjp.0"} : tensor<8xf32>
    %g = autopar.binary mul %d, %y {autopar.id = "y/vjp.1"} : tensor<8xf32>
    %1 = autopar.all_gather %w dim 0 over @mesh ["data"] {autopar.id = "w/backward/reshard"} : tensor<4xf32> -> tensor<8xf32>
    %h = autopar.binary mul %d, %1 {autopar.id = "y/vjp.2"} : tensor<8xf32>
    %2 = autopar.all_gather %w dim 0 over @mesh ["other"] {autopar.id = "w/other/reshard"} : tensor<4xf32> -> tensor<8xf32>
    %i = autopar.binary mul %d, %2 {autopar.id = "y/vjp.3"} : tensor<8xf32>
    return %g, %h, %i : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  }
  func.func @kept(%w: tensor<4xf32> {autopar.origin = "parameter"}, %x: tensor<8xf32>) -> tensor<8xf32> attributes {autopar.recompute = []} {
    %0 = autopar.all_gather %w dim 0 over @mesh ["data"] {autopar.id = "w/forward/reshard"} : tensor<4xf32> -> tensor<8xf32>
    %y = autopar.binary mul %x, %0 {autopar.id = "y"} : tensor<8xf32>
    %d = autopar.unary cos %y {autopar.id = "y/vjp.0"} : tensor<8xf32>
    %1 = autopar.all_gather %w dim 0 over @mesh ["data"] {autopar.id = "w/backward/reshard"} : tensor<4xf32> -> tensor<8xf32>
    %h = autopar.binary mul %d, %1 {autopar.id = "y/vjp.1"} : tensor<8xf32>
    return %h : tensor<8xf32>
  }
}

// -----

// A gather of the forward pass that stands behind that of the backward pass cannot serve it.
// CHECK-LABEL: func.func @later
// CHECK: %[[B:.*]] = autopar.all_gather %arg0 {{.*}} {autopar.id = "w/backward/reshard"}
// CHECK-NEXT: autopar.binary mul %{{.*}}, %[[B]] {autopar.id = "loss/vjp.1"}
// CHECK: autopar.all_gather %arg0 {{.*}} {autopar.id = "w/forward/reshard"}
module {
  autopar.mesh @mesh ["data" = 2]
  func.func @later(%w: tensor<4xf32> {autopar.origin = "parameter"}, %x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
      attributes {autopar.recompute = ["y"]} {
    %y = autopar.unary tanh %x {autopar.id = "y"} : tensor<8xf32>
    %d = autopar.unary cos %y {autopar.id = "loss/vjp.0"} : tensor<8xf32>
    %0 = autopar.all_gather %w dim 0 over @mesh ["data"] {autopar.id = "w/backward/reshard"} : tensor<4xf32> -> tensor<8xf32>
    %g = autopar.binary mul %d, %0 {autopar.id = "loss/vjp.1"} : tensor<8xf32>
    %1 = autopar.all_gather %w dim 0 over @mesh ["data"] {autopar.id = "w/forward/reshard"} : tensor<4xf32> -> tensor<8xf32>
    %z = autopar.binary mul %y, %1 {autopar.id = "z"} : tensor<8xf32>
    return %g, %z : tensor<8xf32>, tensor<8xf32>
  }
}
