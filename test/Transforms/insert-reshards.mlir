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

// A parameter that two phases hold is gathered twice, by operations of two names; a gradient stays partial
// while it waits, and is scattered where it is read.
// CHECK-LABEL: func.func @phases
// CHECK: %[[A:.*]] = autopar.reshard %arg1 {{.*}} {autopar.id = "w/forward/reshard"}
// CHECK: autopar.hold %[[A]]
// CHECK: %[[B:.*]] = autopar.reshard %arg1 {{.*}} {autopar.id = "w/backward/reshard"}
// CHECK: autopar.hold %[[B]]
// CHECK: %[[WAITING:.*]] = autopar.hold unreduced
// CHECK: autopar.reshard %[[WAITING]] from <@mesh, [{}, {}], partial = {"t"} sum> to <@mesh, [{"t"}, {}]>
func.func @phases(%x: tensor<8x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>},
                  %w: tensor<16x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}) -> (tensor<16x16xf32>, tensor<8x16xf32>) {
  %wf = autopar.hold %w {autopar.id = "w/forward", autopar.strategy = #autopar.strategy<@mesh, [{}, {}]>} : tensor<16x16xf32>
  %y = autopar.dot_general %x, %wf contract [1] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}, {}]>} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %wb = autopar.hold %w {autopar.id = "w/backward", autopar.strategy = #autopar.strategy<@mesh, [{}, {}]>} : tensor<16x16xf32>
  %dx = autopar.dot_general %y, %wb contract [1] x [1] {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}, {}]>} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %dw = autopar.dot_general %x, %y contract [0] x [0] {autopar.strategy = #autopar.strategy<@mesh, [{}, {}, {"t"}]>} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  %waiting = autopar.hold unreduced %dw {autopar.strategy = #autopar.strategy<@mesh, [{}, {}, {"t"}]>} : tensor<16x16xf32>
  %read = autopar.hold %waiting {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>} : tensor<16x16xf32>
  %next = autopar.binary sub %w, %read {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>} : tensor<16x16xf32>
  return %next, %dx : tensor<16x16xf32>, tensor<8x16xf32>
}

// A hold without a strategy changes nothing.
// CHECK-LABEL: func.func @unplanned
// CHECK-NEXT: return %arg0
func.func @unplanned(%x: tensor<8x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>}) -> tensor<8x16xf32> {
  %y = autopar.hold unreduced %x : tensor<8x16xf32>
  %z = autopar.hold %y : tensor<8x16xf32>
  return %z : tensor<8x16xf32>
}

// What repeats fewer elements is made once more in the form that is wanted, where it is wanted; only what it
// repeats changes its form, and positions are of nothing. One copy serves all readers of a form.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[B:.*]] = autopar.broadcast %arg1 dims [1] {autopar.id = "b", autopar.strategy = #autopar.strategy<@mesh, [{}, {}]>}
// CHECK: %[[ROWS:.*]] = autopar.broadcast %arg1 dims [1] {autopar.id = "b/reshard", autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>}
// CHECK-NEXT: autopar.binary add %arg0, %[[ROWS]]
// CHECK-NEXT: autopar.binary mul %{{.*}}, %[[ROWS]]
// CHECK-NEXT: %[[PART:.*]] = autopar.reshard %arg1 from <@mesh, [{}]> to <@mesh, [{"t"}]>
// CHECK-NEXT: %[[COLUMNS:.*]] = autopar.broadcast %[[PART]] dims [1] {autopar.id = "b/reshard", autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}]>}
// CHECK-NEXT: autopar.binary mul %{{.*}}, %[[COLUMNS]]
// CHECK-NEXT: autopar.iota dim 1 {autopar.id = "i", autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>}
// CHECK-NOT: autopar.reshard
func.func @repeated(%x: tensor<8x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{"t"}, {}]>},
                    %w: tensor<16xf32>,
                    %z: tensor<8x16xf32> {autopar.sharding = #autopar.sharding<@mesh, [{}, {"t"}]>})
    -> (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xi1>) {
  %i = autopar.iota dim 1 {autopar.id = "i", autopar.strategy = #autopar.strategy<@mesh, [{}, {}]>} : tensor<8x16xf32>
  %b = autopar.broadcast %w dims [1] {autopar.id = "b", autopar.strategy = #autopar.strategy<@mesh, [{}, {}]>} : tensor<16xf32> -> tensor<8x16xf32>
  %0 = autopar.binary add %x, %b {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>} : tensor<8x16xf32>
  %1 = autopar.binary mul %0, %b {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>} : tensor<8x16xf32>
  %2 = autopar.binary mul %z, %b {autopar.strategy = #autopar.strategy<@mesh, [{}, {"t"}]>} : tensor<8x16xf32>
  %3 = autopar.compare eq %1, %i {autopar.strategy = #autopar.strategy<@mesh, [{"t"}, {}]>} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xi1>
  return %1, %2, %3 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xi1>
}
