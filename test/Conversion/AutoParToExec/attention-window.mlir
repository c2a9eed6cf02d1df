// RUN: not autopar-opt %s --split-input-file --autopar-to-exec 2>/dev/null | FileCheck %s
// RUN: not autopar-opt %s --split-input-file --autopar-to-exec 2>&1 | FileCheck %s --check-prefix=SINK

// FLOPs are those that the window leaves: 19.5 scores of 64 for each of 2 x 4 heads, and 2 x (16 + 16) for a score.
// CHECK: exec.attention
// CHECK-SAME: causal = true, window = 3> {bytes = 16640 : i64, flops = 9984 : i64
func.func @main(%x: tensor<2x4x8x16xf32> {autopar.name = "x"}) -> (tensor<2x4x8x16xf32> {autopar.name = "y"}) {
  %y, %l = autopar.attention %x, %x, %x scale 0.25 causal window 3 {autopar.id = "a"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %y : tensor<2x4x8x16xf32>
}

// -----

// SINK: error: 'autopar.attention' op expects no sink here: autopar-split-attention-sinks comes before
func.func @main(%x: tensor<2x4x8x16xf32> {autopar.name = "x"}, %s: tensor<4xf32> {autopar.name = "s"}) -> (tensor<2x4x8x16xf32> {autopar.name = "y"}) {
  %y, %l = autopar.attention %x, %x, %x sink %s scale 0.25 {autopar.id = "a"} : (tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<4xf32>) -> (tensor<2x4x8x16xf32>, tensor<2x4x8xf32>)
  return %y : tensor<2x4x8x16xf32>
}
