// RUN: autopar-opt %s --print-op-stats --autopar-insert-reshards --print-op-stats --autopar-partition --print-op-stats -o /dev/null 2>&1 | FileCheck %s

// MLIR's counts of operations say what passes inserted and removed.

// CHECK-NOT: autopar.reshard
// CHECK: autopar.dot_general , 2
// CHECK-NOT: autopar.reshard
// CHECK: Operations encountered
// CHECK: autopar.dot_general , 2
// CHECK: autopar.reshard , 1
// CHECK: Operations encountered
// CHECK-NOT: autopar.reshard
// CHECK: autopar.all_reduce , 1
autopar.mesh @mesh ["t" = 2]
func.func @main(%x: tensor<8x16xf32>,
                %w1: tensor<16x32xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {"t"}]>},
                %w2: tensor<32x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}) -> tensor<8x16xf32> {
  %h = autopar.dot_general %x, %w1 contract [1] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}, {}]>}
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %y = autopar.dot_general %h, %w2 contract [1] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {}, {"t"}]>}
    : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
