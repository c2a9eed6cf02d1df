// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// What depends on parameters alone is computed in load: the scaled weight is packed there and its
// parameters keep no room.

// CHECK: exec.port parameter "w" : tensor<16x32xf32>
// CHECK: exec.port parameter "s" : tensor<32xf32>
// CHECK: exec.entry @load
// CHECK-NEXT: exec.read "w" -> %[[W:[0-9]+]]
// CHECK-NEXT: exec.read "s" -> %[[S:[0-9]+]]
// CHECK-NEXT: exec.launch @k0(%[[W]], %[[S]]) -> (%[[SCALED:[0-9]+]])
// CHECK-NEXT: exec.pack %[[SCALED]] -> %[[PACKED:[0-9]+]]
// CHECK: exec.entry @step
// CHECK-NEXT: exec.matmul %{{[0-9]+}}, %[[PACKED]]
// CHECK-NEXT: {{^ *}}}
autopar.origin @w : tensor<16x32xf32> in "m.onnx" at 0
autopar.origin @s : tensor<32xf32> in "m.onnx" at 2048
func.func @main(%x: tensor<4x16xf32> {autopar.name = "x"}, %w: tensor<16x32xf32> {autopar.name = "w", autopar.origin = @w},
                %s: tensor<32xf32> {autopar.name = "s", autopar.origin = @s}) -> (tensor<4x32xf32> {autopar.name = "y"}) {
  %scaled = autopar.group %w, %s {autopar.id = "scaled"} : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16x32xf32> {
  ^bb0(%gw: tensor<16x32xf32>, %gs: tensor<32xf32>):
    %0 = autopar.broadcast %gs dims [1] : tensor<32xf32> -> tensor<16x32xf32>
    %1 = autopar.binary mul %gw, %0 : tensor<16x32xf32>
    autopar.yield %1 : tensor<16x32xf32>
  }
  %y = autopar.dot_general %x, %scaled contract [1] x [0] {autopar.id = "fc"} : (tensor<4x16xf32>, tensor<16x32xf32>) -> tensor<4x32xf32>
  return %y : tensor<4x32xf32>
}
