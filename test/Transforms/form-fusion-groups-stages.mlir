// RUN: autopar-opt %s --autopar-form-fusion-groups | FileCheck %s

// What is on no stage is made where it is read: "a" by both stages, "b" and "c" by the second one alone. One kernel of all three would
// have the first stage wait for what ranks of the second exchange.
// CHECK: %[[A:.*]] = autopar.group %arg0 {autopar.id = "a"}
// CHECK: %[[C:.*]] = autopar.group %[[A]]
// CHECK: unary exp {{.*}}"b"
// CHECK: unary neg {{.*}}"c"
// CHECK: autopar.all_reduce sum %[[C]] over @m1
autopar.mesh @m0 ["x" = 2] devices [0, 1]
autopar.mesh @m1 ["x" = 2] devices [2, 3]
func.func @main(%x: tensor<64xf32>, %w: tensor<64xf32> {autopar.name = "w", autopar.donated, autopar.stage = 0 : i64},
                %v: tensor<64xf32> {autopar.name = "v", autopar.donated, autopar.stage = 1 : i64}) -> (tensor<64xf32>, tensor<64xf32>)
    attributes {autopar.stage_meshes = 2 : i64} {
  %a = autopar.unary tanh %x {autopar.id = "a"} : tensor<64xf32>
  %b = autopar.unary exp %a {autopar.id = "b"} : tensor<64xf32>
  %c = autopar.unary neg %b {autopar.id = "c"} : tensor<64xf32>
  %p = autopar.all_reduce sum %a over @m0 ["x"] {autopar.id = "p"} : tensor<64xf32>
  %q = autopar.all_reduce sum %c over @m1 ["x"] {autopar.id = "q"} : tensor<64xf32>
  %f = autopar.binary mul %p, %w {autopar.id = "f"} : tensor<64xf32>
  %there = autopar.transfer %f to 1 {autopar.id = "there"} : tensor<64xf32>
  %g = autopar.binary mul %q, %v {autopar.id = "g"} : tensor<64xf32>
  %h = autopar.binary mul %g, %there {autopar.id = "h"} : tensor<64xf32>
  return %f, %h : tensor<64xf32>, tensor<64xf32>
}
