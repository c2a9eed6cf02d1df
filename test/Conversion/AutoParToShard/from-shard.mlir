// RUN: autopar-opt %s --autopar-from-shard | FileCheck %s

// A grid that never was an AutoPar mesh gets names for its axes.
// CHECK: autopar.mesh @grid ["axis0" = 2, "axis1" = 2]
shard.grid @grid(shape = 2x2)

// CHECK: autopar.all_reduce sum %{{.*}} over @grid ["axis1"] : tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = shard.all_reduce %x on @grid grid_axes = [1] : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
