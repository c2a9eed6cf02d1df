// RUN: autopar-opt %s --autopar-to-shard | FileCheck %s
// RUN: autopar-opt %s --autopar-to-shard --autopar-from-shard | FileCheck %s --check-prefix=BACK

// CHECK: shard.grid @mesh(shape = 2x4) {autopar.axes = ["node", "gpu"]}
// BACK: autopar.mesh @mesh ["node" = 2, "gpu" = 4]
autopar.mesh @mesh ["node" = 2, "gpu" = 4]

// CHECK-LABEL: func.func @main
// BACK-LABEL: func.func @main
func.func @main(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<32x4xf32>, tensor<2x4xf32>, tensor<2x16xf32>, tensor<4x4xf32>) {
  // CHECK: shard.all_reduce %{{.*}} on @mesh grid_axes = [0, 1] reduction = max
  // BACK: autopar.all_reduce max %{{.*}} over @mesh ["node", "gpu"] : tensor<8x4xf32>
  %0 = autopar.all_reduce max %x over @mesh ["node", "gpu"] : tensor<8x4xf32>
  // CHECK: shard.all_gather %{{.*}} on @mesh grid_axes = [1] gather_axis = 0
  // BACK: autopar.all_gather %{{.*}} dim 0 over @mesh ["gpu"] : tensor<8x4xf32> -> tensor<32x4xf32>
  %1 = autopar.all_gather %x dim 0 over @mesh ["gpu"] : tensor<8x4xf32> -> tensor<32x4xf32>
  // CHECK: shard.reduce_scatter %{{.*}} on @mesh grid_axes = [1] scatter_axis = 0
  // BACK: autopar.reduce_scatter sum %{{.*}} dim 0 over @mesh ["gpu"] : tensor<8x4xf32> -> tensor<2x4xf32>
  %2 = autopar.reduce_scatter sum %x dim 0 over @mesh ["gpu"] : tensor<8x4xf32> -> tensor<2x4xf32>
  // CHECK: shard.all_to_all %{{.*}} on @mesh grid_axes = [1] split_axis = 0 concat_axis = 1
  // BACK: autopar.all_to_all %{{.*}} split 0 concat 1 over @mesh ["gpu"] : tensor<8x4xf32> -> tensor<2x16xf32>
  %3 = autopar.all_to_all %x split 0 concat 1 over @mesh ["gpu"] : tensor<8x4xf32> -> tensor<2x16xf32>
  // The slice that a rank takes of its own shard.
  // CHECK: shard.all_slice %{{.*}} on @mesh grid_axes = [0] slice_axis = 0
  // BACK: autopar.shard_index @mesh ["node"] : tensor<i64>
  // BACK: autopar.dynamic_slice
  %zero = autopar.constant dense<0> : tensor<i64>
  %four = autopar.constant dense<4> : tensor<i64>
  %index = autopar.shard_index @mesh ["node"] : tensor<i64>
  %start = autopar.binary mul %index, %four : tensor<i64>
  %4 = autopar.dynamic_slice %x[%start, %zero] : (tensor<8x4xf32>, tensor<i64>, tensor<i64>) -> tensor<4x4xf32>
  return %0, %1, %2, %3, %4 : tensor<8x4xf32>, tensor<32x4xf32>, tensor<2x4xf32>, tensor<2x16xf32>, tensor<4x4xf32>
}
