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

// What is gathered only to be rounded is rounded before.
// CHECK-LABEL: func.func @rounded
// CHECK: %[[PART:.*]] = autopar.cast %arg0 {autopar.id = "w/bf16"} : tensor<4xf32> -> tensor<4xbf16>
// CHECK: %[[WHOLE:.*]] = autopar.all_gather %[[PART]] dim 0 over @mesh ["t"] {autopar.id = "w/reshard"} : tensor<4xbf16> -> tensor<8xbf16>
// CHECK: return %[[WHOLE]]
func.func @rounded(%x: tensor<4xf32>) -> tensor<8xbf16> {
  %a = autopar.all_gather %x dim 0 over @mesh ["t"] {autopar.id = "w/reshard"} : tensor<4xf32> -> tensor<8xf32>
  %b = autopar.cast %a {autopar.id = "w/bf16"} : tensor<8xf32> -> tensor<8xbf16>
  return %b : tensor<8xbf16>
}

// CHECK-LABEL: func.func @read_as_it_is
// CHECK: autopar.all_gather %arg0
func.func @read_as_it_is(%x: tensor<4xf32>) -> (tensor<8xf32>, tensor<8xbf16>) {
  %a = autopar.all_gather %x dim 0 over @mesh ["t"] : tensor<4xf32> -> tensor<8xf32>
  %b = autopar.cast %a : tensor<8xf32> -> tensor<8xbf16>
  return %a, %b : tensor<8xf32>, tensor<8xbf16>
}
