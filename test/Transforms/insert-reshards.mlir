// RUN: autopar-opt %s --autopar-insert-reshards | FileCheck %s

autopar.mesh @mesh ["t" = 2]

// The column/row pair: the first product leaves its result sharded, the second one asks for just that
// and yields a partial value, which is completed before the function returns.
// CHECK-LABEL: func.func @main
// CHECK-SAME: -> (tensor<8x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {}]>})
// CHECK: %[[H:.*]] = autopar.dot_general
// CHECK-NOT: autopar.reshard
// CHECK: %[[Y:.*]] = autopar.dot_general %[[H]]
// CHECK: %[[R:.*]] = autopar.reshard %[[Y]] from <@mesh, [{}, {}], partial = {"t"} sum> to <@mesh, [{}, {}]>
// CHECK: return %[[R]]
func.func @main(%x: tensor<8x16xf32>,
                %w1: tensor<16x32xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {"t"}]>},
                %w2: tensor<32x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}) -> tensor<8x16xf32> {
  %h = autopar.dot_general %x, %w1 contract [1] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}, {}]>}
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %y = autopar.dot_general %h, %w2 contract [1] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {}, {"t"}]>}
    : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %y : tensor<8x16xf32>
}
