// RUN: autopar-opt %s --autopar-hold-across-phases | FileCheck %s --check-prefix=HOLD
// RUN: autopar-opt %s --autopar-hold-across-phases --autopar-annotate --autopar-insert-reshards --autopar-partition \
// RUN:   --autopar-expand-accumulators --autopar-schedule | FileCheck %s

// A parameter that every micro-batch reads may be gathered anew by each of them.
// HOLD: autopar.hold %{{.*}} {autopar.each_micro_batch, autopar.id = "w/forward"}
// CHECK-LABEL: func.func @main
// CHECK: %[[A:.*]] = autopar.all_gather %arg1 dim 0 over @mesh ["d"] {autopar.each_micro_batch, autopar.id = "w/forward/reshard@0"}
// CHECK: %[[Y:.*]] = autopar.dot_general %{{.*}}, %[[A]] {{.*}}"fc@0"
// CHECK: autopar.dot_general %{{.*}}"dw@0"
// CHECK: %[[B:.*]] = autopar.all_gather %arg1 dim 0 over @mesh ["d"] {autopar.each_micro_batch, autopar.id = "w/forward/reshard@1"}
// CHECK: autopar.dot_general %{{.*}}, %[[B]] {{.*}}"fc@1"
module attributes {autopar.plan = "{\"kind\": \"autopar.plan\", \"version\": 1, \"cluster\": \"cpux2\", \"devices\": 2, \"meshes\": {\"mesh\": {\"axes\": [{\"name\": \"d\", \"size\": 2}], \"devices\": [0, 1]}}, \"stages\": [{\"name\": \"s0\", \"mesh\": \"mesh\", \"ops\": []}], \"time\": {\"micro_batches\": 1}, \"schedule\": \"none\", \"recompute\": [], \"ops\": {\"w/forward\": [[], []]}, \"shard\": {\"w\": [[\"d\"], []], \"output:w\": [[\"d\"], []]}}"} {
  autopar.origin @w : tensor<16x16xf32>
  func.func @main(%x: tensor<2x8x16xf32>, %w: tensor<16x16xf32> {autopar.donated, autopar.name = "w", autopar.origin = @w})
      -> (tensor<16x16xf32> {autopar.name = "w"}) {
    %part = autopar.micro_batch %x {autopar.id = "x"} : tensor<2x8x16xf32> -> tensor<8x16xf32>
    %y = autopar.dot_general %part, %w contract [1] x [0] {autopar.id = "fc"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
    %dw = autopar.dot_general %part, %y contract [0] x [0] {autopar.id = "dw", autopar.phase = "backward"} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
    %sum = autopar.accumulate sum %dw {autopar.id = "sum", autopar.phase = "backward"} : tensor<16x16xf32>
    %next = autopar.binary sub %w, %sum {autopar.id = "w/update", autopar.phase = "update"} : tensor<16x16xf32>
    return %next : tensor<16x16xf32>
  }
}
