// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// Collectives are contiguous and rank-major: a joined inner dimension is transposed by a kernel, an
// outermost one is not. Groups and positions stand in the rank tables.

// CHECK: exec.buffer "rank.values" device bytes 64 binding rank_values : tensor<8xi64>
// CHECK: exec.port input "x"
// CHECK-SAME: tensor<8x6xf32>
// CHECK: exec.entry @step
// CHECK-NEXT: exec.collective all_gather %[[X:[0-9]+]] -> %[[MOVED:[0-9]+]] group 0 count 12 : f32 queue communication
// CHECK-NEXT: exec.launch @[[JOIN:k[0-9]+]](%[[MOVED]]) -> (%[[INNER:[0-9]+]])
// CHECK-NEXT: exec.collective all_gather %[[INNER]] -> %{{.*}} group 1 count 24
// CHECK-NEXT: exec.collective all_reduce %[[INNER]] -> %{{.*}} group 1 reduction max count 24
// CHECK-NEXT: exec.launch @[[SPLIT:k[0-9]+]](%[[INNER]]) -> (%[[PARTS:[0-9]+]])
// CHECK-NEXT: exec.collective reduce_scatter %[[PARTS]] -> %[[REDUCED:[0-9]+]] group 0 count 24
// CHECK-NEXT: exec.collective all_to_all %[[REDUCED]] -> %{{.*}} group 0 count 12
// CHECK-NEXT: exec.launch
// CHECK: exec.rank 0 of @class0 groups [array<i32: 0, 1>, array<i32: 0, 2>] values [0, 0, 0, 0, 0, 0, 0, 0] ports [#exec.shard<offset = [0, 0], extent = [4, 3]>
// CHECK: exec.rank 3 of @class0 groups [array<i32: 2, 3>, array<i32: 1, 3>] values [1, 0, 0, 0, 0, 0, 0, 0] ports [#exec.shard<offset = [4, 3], extent = [4, 3]>
// CHECK-SAME: #exec.shard<offset = [0, 0], extent = [8, 6], replica = 3>
autopar.mesh @mesh ["d" = 2, "t" = 2]
func.func @main(%x: tensor<4x3xf32> {autopar.name = "x", autopar.sharding = #autopar.sharding<@mesh, [{"d"}, {"t"} ]>, autopar.global_shape = array<i64: 8, 6>})
    -> (tensor<8x6xf32> {autopar.name = "a"}, tensor<4x6xf32> {autopar.name = "b", autopar.sharding = #autopar.sharding<@mesh, [{"d"}, {} ]>, autopar.global_shape = array<i64: 8, 6>},
        tensor<2x6xf32> {autopar.name = "c"}, tensor<i64> {autopar.name = "i"}) {
  %inner = autopar.all_gather %x dim 1 over @mesh ["t"] : tensor<4x3xf32> -> tensor<4x6xf32>
  %all = autopar.all_gather %inner dim 0 over @mesh ["d"] : tensor<4x6xf32> -> tensor<8x6xf32>
  %max = autopar.all_reduce max %inner over @mesh ["d"] : tensor<4x6xf32>
  %part = autopar.reduce_scatter sum %inner dim 1 over @mesh ["t"] : tensor<4x6xf32> -> tensor<4x3xf32>
  %exchanged = autopar.all_to_all %part split 0 concat 1 over @mesh ["t"] : tensor<4x3xf32> -> tensor<2x6xf32>
  %i = autopar.shard_index @mesh ["t"] : tensor<i64>
  return %all, %max, %exchanged, %i : tensor<8x6xf32>, tensor<4x6xf32>, tensor<2x6xf32>, tensor<i64>
}
