// RUN: autopar-opt %s --autopar-split-micro-batches=count=2 --canonicalize --cse | FileCheck %s
// RUN: autopar-opt %s --autopar-split-micro-batches=count=2 --canonicalize --cse --autopar-expand-accumulators \
// RUN:   --autopar-schedule | FileCheck %s --check-prefix=UNROLLED

// The batch of the inputs is split, the product over the batch accumulates, the rest follows once.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x4x16xf32> {autopar.micro_batches = 2 : i64, autopar.name = "x"}
// CHECK-SAME: %[[G:.*]]: tensor<2x4x4xf32> {autopar.micro_batches = 2 : i64, autopar.name = "g"}
// CHECK-SAME: %[[W:.*]]: tensor<16x4xf32> {
// CHECK-SAME: -> (tensor<16x4xf32>, tensor<2x4x4xf32> {autopar.micro_batches = 2 : i64})
// CHECK-DAG: %[[A:.*]] = autopar.micro_batch %[[X]] {autopar.id = "x/micro_batch"} : tensor<2x4x16xf32> -> tensor<4x16xf32>
// CHECK-DAG: %[[B:.*]] = autopar.micro_batch %[[G]] {autopar.id = "g/micro_batch"} : tensor<2x4x4xf32> -> tensor<4x4xf32>
// CHECK: %[[P:.*]] = autopar.dot_general %[[A]], %[[B]] contract [0] x [0] {autopar.id = "dw"}
// CHECK: %[[SUM:.*]] = autopar.accumulate sum %[[P]] {autopar.id = "dw/accumulate"} : tensor<16x4xf32>
// CHECK: %[[NEXT:.*]] = autopar.binary sub %[[W]], %[[SUM]]
// CHECK: %[[Y:.*]] = autopar.dot_general %[[A]], %[[W]]
// CHECK: %[[ALL:.*]] = autopar.stack_micro_batches %[[Y]] {autopar.id = "y/stack"} : tensor<4x4xf32> -> tensor<2x4x4xf32>
// CHECK: return %[[NEXT]], %[[ALL]]

// The second micro-batch adds to what the first one gave.
// UNROLLED-LABEL: func.func @main
// UNROLLED: %[[FIRST:.*]] = autopar.dot_general {{.*}} {autopar.id = "dw@0"}
// UNROLLED: %[[Y0:.*]] = autopar.dot_general {{.*}} {autopar.id = "y@0"}
// UNROLLED: %[[SECOND:.*]] = autopar.dot_general {{.*}} {autopar.id = "dw@1"}
// UNROLLED: %[[SUM:.*]] = autopar.binary add %[[SECOND]], %[[FIRST]] {autopar.id = "dw/accumulate@1"}
// UNROLLED: %[[Y1:.*]] = autopar.dot_general {{.*}} {autopar.id = "y@1"}
// UNROLLED: autopar.insert_part %{{.*}} into %{{.*}} : tensor<2x4x4xf32> at 1
// UNROLLED: autopar.binary sub %{{.*}}, %[[SUM]]
func.func @main(%x: tensor<8x16xf32> {autopar.name = "x"}, %g: tensor<8x4xf32> {autopar.name = "g"},
                %w: tensor<16x4xf32> {autopar.name = "w", autopar.donated}) -> (tensor<16x4xf32>, tensor<8x4xf32>) {
  %dw = autopar.dot_general %x, %g contract [0] x [0] {autopar.id = "dw"} : (tensor<8x16xf32>, tensor<8x4xf32>) -> tensor<16x4xf32>
  %next = autopar.binary sub %w, %dw {autopar.id = "w/update"} : tensor<16x4xf32>
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "y"} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %next, %y : tensor<16x4xf32>, tensor<8x4xf32>
}
