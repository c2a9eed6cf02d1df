// RUN: autopar-opt %s --autopar-split-micro-batches="count=2" | FileCheck %s

// What every micro-batch would compute alike, although it waits for a part of the batch, is computed once: no sum over micro-batches.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32> {autopar.micro_batches = 2 : i64, autopar.name = "x"}
// CHECK-SAME: %[[W:.*]]: tensor<5xf32>
// CHECK: %[[ALL:.*]] = autopar.reshape %[[X]] {{.*}} -> tensor<8xf32>
// CHECK: %[[Y:.*]] = autopar.fence %[[W]] after %[[ALL]]
// CHECK-NOT: autopar.accumulate
// CHECK: return %[[Y]]
func.func @main(%x: tensor<8xf32> {autopar.name = "x"}, %w: tensor<5xf32> {autopar.name = "w"}) -> (tensor<5xf32>, tensor<8xf32>) {
  %y = autopar.fence %w after %x {autopar.id = "y"} : (tensor<5xf32>, tensor<8xf32>) -> tensor<5xf32>
  %z = autopar.unary neg %x {autopar.id = "z"} : tensor<8xf32>
  return %y, %z : tensor<5xf32>, tensor<8xf32>
}
