// RUN: autopar-opt %s --autopar-to-loops=target=cuda | FileCheck %s

// The warps of the longest row that there can be.

// CHECK: gpu.shuffle
func.func @main(%x: tensor<9223372036854775807xf32>) -> tensor<9223372036854775807xf32> {
  %r = autopar.cumulative sum %x dim 0 : tensor<9223372036854775807xf32>
  return %r : tensor<9223372036854775807xf32>
}
