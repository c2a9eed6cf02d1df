// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// FLOPs are those that the window leaves: 19.5 scores of 64 for each of 2 x 4 heads, and 2 x (16 + 16) for a score.
// CHECK: exec.attention
// CHECK-SAME: causal = true, window = 3> {bytes = 16640 : i64, flops = 9984 : i64
func.func @main(%x: tensor<2x4x8x16xf32> {autopar.name = "x"}) -> (tensor<2x4x8x16xf32> {autopar.name = "y"}) {
  %y, %l = autopar.attention %x, %x, %x scale 0.25 causal window 3 {autopar.id = "a"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %y : tensor<2x4x8x16xf32>
}
