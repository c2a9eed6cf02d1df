// RUN: autopar-opt %s --split-input-file --autopar-partition | FileCheck %s

autopar.mesh @mesh ["t" = 2]

// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<16x16xf32> {autopar.global_shape = array<i64: 16, 32>
// CHECK: %[[H:.*]] = autopar.dot_general {{.*}} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
// CHECK: %[[Y:.*]] = autopar.dot_general %[[H]], {{.*}} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
// CHECK: autopar.all_reduce sum %[[Y]] over @mesh ["t"] {{.*}} : tensor<8x16xf32>
func.func @main(%x: tensor<8x16xf32>,
                %w1: tensor<16x32xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {"t"}]>},
                %w2: tensor<32x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}) -> tensor<8x16xf32> {
  %h = autopar.dot_general %x, %w1 contract [1] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}, {}]>}
    : (tensor<8x16xf32>, tensor<16x32xf32>) -> tensor<8x32xf32>
  %y = autopar.dot_general %h, %w2 contract [1] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {}, {"t"}]>, autopar.id = "fc2"}
    : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  %r = autopar.reshard %y from <@mesh, [{}, {}], partial = {"t"} sum> to <@mesh, [{}, {}]>
    {autopar.id = "fc2/reshard"} : tensor<8x16xf32>
  return %r : tensor<8x16xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]

// An uneven reduction: five rows over two ranks are three each, and the padding counts as zero.
// CHECK-LABEL: func.func @main
// CHECK-SAME: tensor<3x4xf32>
// CHECK: autopar.shard_index @mesh ["t"]
// CHECK: %[[M:.*]] = autopar.select
// CHECK: autopar.reduce sum %[[M]] dims [0] {{.*}}: tensor<3x4xf32> -> tensor<4xf32>
// CHECK: autopar.all_reduce sum
func.func @main(%x: tensor<5x4xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}) -> tensor<4xf32> {
  %y = autopar.reduce sum %x dims [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}]>} : tensor<5x4xf32> -> tensor<4xf32>
  %r = autopar.reshard %y from <@mesh, [{}], partial = {"t"} sum> to <@mesh, [{}]> : tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]

// A vocabulary-sharded embedding: each rank gathers what it holds, zero else.
// CHECK-LABEL: func.func @main
// CHECK: %[[G:.*]] = autopar.gather {{.*}} : (tensor<6x4xf32>, tensor<3x1xi64>) -> tensor<3x4xf32>
// CHECK: autopar.select {{.*}}, %[[G]],
// CHECK: autopar.all_reduce sum
func.func @main(%table: tensor<11x4xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}, %ids: tensor<3x1xi64>) -> tensor<3x4xf32> {
  %y = autopar.gather %table, %ids dims [0] batch 0 {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}, {}, {}]>}
    : (tensor<11x4xf32>, tensor<3x1xi64>) -> tensor<3x4xf32>
  %r = autopar.reshard %y from <@mesh, [{}, {}], partial = {"t"} sum> to <@mesh, [{}, {}]> : tensor<3x4xf32>
  return %r : tensor<3x4xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]

// Its gradient: each rank adds into the rows that it holds, and zero into one of them for those that it does not.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[G:.*]]: tensor<6x4xf32> {{.*}}, %{{.*}}: tensor<3x1xi64>, %[[U:.*]]: tensor<3x4xf32>
// CHECK: %[[MINE:.*]] = autopar.binary and
// CHECK: %[[I:.*]] = autopar.select %[[MINE]],
// CHECK: %[[OWN:.*]] = autopar.select %{{.*}}, %[[U]],
// CHECK: %[[R:.*]] = autopar.scatter add %[[G]], %[[I]], %[[OWN]] {{.*}} -> tensor<6x4xf32>
// CHECK: return %[[R]]
func.func @main(%sum: tensor<11x4xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}, %ids: tensor<3x1xi64>,
                %updates: tensor<3x4xf32>) -> (tensor<11x4xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}) {
  %y = autopar.scatter add %sum, %ids, %updates {autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}, {}, {}]>}
    : (tensor<11x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>) -> tensor<11x4xf32>
  return %y : tensor<11x4xf32>
}

// -----

autopar.mesh @mesh ["a" = 2, "b" = 2]

// Every kind of resharding step.
// CHECK-LABEL: func.func @main
// CHECK: autopar.all_to_all {{.*}} split 1 concat 0 over @mesh ["a"] : tensor<4x8xf32> -> tensor<8x4xf32>
// CHECK: autopar.all_gather {{.*}} dim 1 over @mesh ["a"] : tensor<8x4xf32> -> tensor<8x8xf32>
// CHECK: autopar.dynamic_slice
// CHECK: autopar.reduce_scatter sum {{.*}} dim 0 over @mesh ["a"] : tensor<8x8xf32> -> tensor<4x8xf32>
func.func @main(%x: tensor<8x8xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"a"}, {}]>},
                %y: tensor<8x8xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {"b"}]>}) -> (tensor<8x8xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"a"}, {}]>}, tensor<8x8xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"b"}, {}]>}) {
  %1 = autopar.reshard %x from <@mesh, [{"a"}, {}]> to <@mesh, [{}, {"a"}]> : tensor<8x8xf32>
  %2 = autopar.reshard %1 from <@mesh, [{}, {"a"}]> to <@mesh, [{}, {}]> : tensor<8x8xf32>
  %3 = autopar.reshard %2 from <@mesh, [{}, {}]> to <@mesh, [{"b"}, {}]> : tensor<8x8xf32>
  %4 = autopar.dot_general %2, %2 contract [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %5 = autopar.reshard %4 from <@mesh, [{}, {}], partial = {"a"} sum> to <@mesh, [{"a"}, {}]> : tensor<8x8xf32>
  return %5, %3 : tensor<8x8xf32>, tensor<8x8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]

// A part of a triangle's rows knows which part it is; gradients of keys and values are partial.
// CHECK-LABEL: func.func @main
// CHECK: %[[I:.*]] = autopar.shard_index @mesh ["t"]
// CHECK: autopar.attention %arg0, %arg1, %arg1 scale 1.000000e+00 causal shard %[[I]] of 2 {{.*}} : (tensor<1x1x2x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<i64>) -> (tensor<1x1x2x8xf32>, tensor<1x1x2xf32>)
// CHECK: %[[J:.*]] = autopar.shard_index @mesh ["t"]
// CHECK: %[[Q:.*]], %[[K:.*]], %[[V:.*]] = autopar.attention_grad {{.*}} causal shard %[[J]] of 2
// CHECK: autopar.reduce_scatter sum %[[K]] dim 2 over @mesh ["t"]
func.func @main(%q: tensor<1x1x4x8xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {}, {"t"}, {}]>}, %k: tensor<1x1x4x8xf32>)
    -> (tensor<1x1x4x8xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {}, {"t"}, {}]>}) {
  %o, %l = autopar.attention %q, %k, %k scale 1.0 causal {autopar.strategy = #autopar.strategy<@mesh, [{}, {}, {"t"}, {}, {}, {}, {}, {}, {}]>, autopar.id = "a"}
      : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  %dq, %dk, %dv = autopar.attention_grad %q, %k, %k, %o, %l, %o scale 1.0 causal {autopar.strategy = #autopar.strategy<@mesh, [{}, {}, {"t"}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}]>, autopar.id = "g"}
      : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4xf32>, tensor<1x1x4x8xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>)
  %r = autopar.reshard %dk from <@mesh, [{}, {}, {}, {}], partial = {"t"} sum> to <@mesh, [{}, {}, {"t"}, {}]> : tensor<1x1x4x8xf32>
  return %r : tensor<1x1x4x8xf32>
}

// -----

autopar.mesh @mesh ["t" = 2]

// Positions along a split dimension are a line of them with the rank's offset, repeated along the others:
// nothing is added that is as large as the result.
// CHECK-LABEL: func.func @main
// CHECK: %[[I:.*]] = autopar.iota dim 0 : tensor<8xi32>
// CHECK: %[[LINE:.*]] = autopar.binary add %[[I]], %{{.*}} : tensor<8xi32>
// CHECK: autopar.broadcast %[[LINE]] dims [1] {{.*}} : tensor<8xi32> -> tensor<4x8xi32>
func.func @main() -> tensor<4x16xi32> {
  %i = autopar.iota dim 1 {autopar.id = "i", autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}]>} : tensor<4x16xi32>
  %r = autopar.reshard %i from <@mesh, [{}, {"t"}]> to <@mesh, [{}, {}]> {autopar.id = "i/reshard"} : tensor<4x16xi32>
  return %r : tensor<4x16xi32>
}
