// RUN: autopar-opt %s --autopar-reduce-while-cached | FileCheck %s

// The norm of the first gradient follows its product; what reads two gradients follows the second; a
// sum over columns gives too much; what a collective or a message brings, also one that began before
// the other operand was there, is not waited for earlier.
// CHECK-LABEL: func.func @main
// CHECK: autopar.id = "g"}
// CHECK-NEXT: ^bb0
// CHECK: autopar.group {{.*}}autopar.id = "norm"}
// CHECK: autopar.group {{.*}}autopar.id = "h"}
// CHECK: autopar.group {{.*}}autopar.id = "both"}
// CHECK: autopar.all_reduce
// CHECK: autopar.group {{.*}}autopar.id = "last"}
// CHECK: autopar.group {{.*}}autopar.id = "columns"}
// CHECK: autopar.group {{.*}}autopar.id = "received"}
// CHECK: autopar.group {{.*}}autopar.id = "product"}
autopar.mesh @m ["data" = 2]
func.func @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<64x64xf32>) {
  %early = autopar.receive from 1 tag 0 : tensor<64x64xf32>
  %g = autopar.group %x, %y {autopar.id = "g"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>):
    %p = autopar.dot_general %a, %b contract [0] x [0] {autopar.id = "g"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    autopar.yield %p : tensor<64x64xf32>
  }
  %h = autopar.group %y, %x {autopar.id = "h"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>):
    %p = autopar.dot_general %a, %b contract [0] x [0] {autopar.id = "h"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    autopar.yield %p : tensor<64x64xf32>
  }
  %c = autopar.all_reduce sum %h over @m ["data"] {autopar.id = "c"} : tensor<64x64xf32>
  %l = autopar.group %x, %y {autopar.id = "last"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>):
    %p = autopar.dot_general %a, %b contract [1] x [0] {autopar.id = "last"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    autopar.yield %p : tensor<64x64xf32>
  }
  %n = autopar.group %g {autopar.id = "norm"} : (tensor<64x64xf32>) -> tensor<f32> {
  ^bb0(%a: tensor<64x64xf32>):
    %s = autopar.reduce sum %a dims [0, 1] {autopar.id = "norm"} : tensor<64x64xf32> -> tensor<f32>
    autopar.yield %s : tensor<f32>
  }
  %b = autopar.group %g, %h {autopar.id = "both"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<f32> {
  ^bb0(%a: tensor<64x64xf32>, %d: tensor<64x64xf32>):
    %e = autopar.binary mul %a, %d {autopar.id = "both/mul"} : tensor<64x64xf32>
    %s = autopar.reduce sum %e dims [0, 1] {autopar.id = "both"} : tensor<64x64xf32> -> tensor<f32>
    autopar.yield %s : tensor<f32>
  }
  %o = autopar.group %g {autopar.id = "columns"} : (tensor<64x64xf32>) -> tensor<64xf32> {
  ^bb0(%a: tensor<64x64xf32>):
    %s = autopar.reduce sum %a dims [0] {autopar.id = "columns"} : tensor<64x64xf32> -> tensor<64xf32>
    autopar.yield %s : tensor<64xf32>
  }
  %r = autopar.group %c {autopar.id = "received"} : (tensor<64x64xf32>) -> tensor<f32> {
  ^bb0(%a: tensor<64x64xf32>):
    %s = autopar.reduce sum %a dims [0, 1] {autopar.id = "received"} : tensor<64x64xf32> -> tensor<f32>
    autopar.yield %s : tensor<f32>
  }
  %q = autopar.group %early, %g {autopar.id = "product"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<f32> {
  ^bb0(%a: tensor<64x64xf32>, %d: tensor<64x64xf32>):
    %e = autopar.binary mul %a, %d {autopar.id = "product/mul"} : tensor<64x64xf32>
    %s = autopar.reduce sum %e dims [0, 1] {autopar.id = "product"} : tensor<64x64xf32> -> tensor<f32>
    autopar.yield %s : tensor<f32>
  }
  return %n, %b, %o, %r, %q, %l : tensor<f32>, tensor<f32>, tensor<64xf32>, tensor<f32>, tensor<f32>, tensor<64x64xf32>
}
