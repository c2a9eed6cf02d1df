// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// A linear layer with bias and gelu is one call on [b * s, k]; its weight is read and packed once.

// CHECK: exec.port parameter "w" : tensor<16x32xf32> {file = "m.onnx", offset = 128 : i64}
// CHECK: exec.entry @load
// CHECK-NEXT: exec.read "w" -> %[[READ:[0-9]+]]
// CHECK-NEXT: exec.pack %[[READ]] -> %[[PACKED:[0-9]+]] for #exec.matmul
// CHECK: exec.entry @step
// CHECK-NEXT: exec.matmul %{{.*}}, %[[PACKED]] -> %{{.*}} bias %{{.*}} <a = <f32[8, 16] strides[16, 1]>, b = <f32[16, 32] strides[32, 1]>, c = <f32[8, 32] strides[32, 1]>, biasType = f32, epilogue = gelu_erf, packedB = true>
// CHECK-SAME: id = "fc"
// CHECK-NEXT: exec.matmul {{.*}} residual {{.*}} b = <f32[32, 16] strides[1, 32]>
autopar.origin @w : tensor<16x32xf32> in "m.onnx" at 128
autopar.origin @b : tensor<32xf32> in "m.onnx" at 0
autopar.origin @v : tensor<16x32xf32> in "m.onnx" at 2176
func.func @main(%x: tensor<2x4x16xf32> {autopar.name = "x"}, %w: tensor<16x32xf32> {autopar.name = "w", autopar.origin = @w},
                %b: tensor<32xf32> {autopar.name = "b", autopar.origin = @b},
                %v: tensor<16x32xf32> {autopar.name = "v", autopar.origin = @v}) -> (tensor<2x4x16xf32> {autopar.name = "y"}) {
  %h = autopar.group %x, %w, %b {autopar.id = "fc"} : (tensor<2x4x16xf32>, tensor<16x32xf32>, tensor<32xf32>) -> tensor<2x4x32xf32> {
  ^bb0(%gx: tensor<2x4x16xf32>, %gw: tensor<16x32xf32>, %gb: tensor<32xf32>):
    %0 = autopar.dot_general %gx, %gw contract [2] x [0] : (tensor<2x4x16xf32>, tensor<16x32xf32>) -> tensor<2x4x32xf32>
    %1 = autopar.broadcast %gb dims [2] : tensor<32xf32> -> tensor<2x4x32xf32>
    %2 = autopar.binary add %0, %1 : tensor<2x4x32xf32>
    %3 = autopar.unary gelu %2 : tensor<2x4x32xf32>
    autopar.yield %3 : tensor<2x4x32xf32>
  }
  %vt = autopar.transpose %v permutation [1, 0] : tensor<16x32xf32> -> tensor<32x16xf32>
  %y = autopar.group %h, %vt, %x {autopar.id = "out"} : (tensor<2x4x32xf32>, tensor<32x16xf32>, tensor<2x4x16xf32>) -> tensor<2x4x16xf32> {
  ^bb0(%gh: tensor<2x4x32xf32>, %gv: tensor<32x16xf32>, %gx: tensor<2x4x16xf32>):
    %0 = autopar.dot_general %gh, %gv contract [2] x [0] : (tensor<2x4x32xf32>, tensor<32x16xf32>) -> tensor<2x4x16xf32>
    %1 = autopar.binary add %gx, %0 : tensor<2x4x16xf32>
    autopar.yield %1 : tensor<2x4x16xf32>
  }
  return %y : tensor<2x4x16xf32>
}
