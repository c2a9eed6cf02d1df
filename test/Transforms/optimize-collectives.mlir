// RUN: autopar-opt %s --autopar-optimize-collectives | FileCheck %s

autopar.mesh @mesh ["t" = 2]

// CHECK-LABEL: func.func @scatter
// CHECK: autopar.reduce_scatter sum %{{.*}} dim 0 over @mesh ["t"] : tensor<8x4xf32> -> tensor<4x4xf32>
// CHECK-NOT: autopar.all_reduce
func.func @scatter(%x: tensor<8x4xf32>) -> tensor<4x4xf32> {
  %zero = autopar.constant dense<0> : tensor<i64>
  %extent = autopar.constant dense<4> : tensor<i64>
  %sum = autopar.all_reduce sum %x over @mesh ["t"] : tensor<8x4xf32>
  %index = autopar.shard_index @mesh ["t"] : tensor<i64>
  %start = autopar.binary mul %index, %extent : tensor<i64>
  %mine = autopar.dynamic_slice %sum[%start, %zero] : (tensor<8x4xf32>, tensor<i64>, tensor<i64>) -> tensor<4x4xf32>
  return %mine : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @shared
// CHECK-COUNT-1: autopar.all_gather
// CHECK-NOT: autopar.all_gather
func.func @shared(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = autopar.all_gather %x dim 0 over @mesh ["t"] : tensor<4xf32> -> tensor<8xf32>
  %b = autopar.all_gather %x dim 0 over @mesh ["t"] : tensor<4xf32> -> tensor<8xf32>
  return %a, %b : tensor<8xf32>, tensor<8xf32>
}
