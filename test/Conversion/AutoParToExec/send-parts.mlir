// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// Rows of a value are sent from where they lie, also behind dimensions of one; columns are cut out
// first, and so is what somebody else reads too.

// CHECK-DAG: %[[X:[0-9]+]] = exec.buffer "x"
// CHECK-DAG: %[[ROWS:[0-9]+]] = exec.view "rows.1" %[[X]] at 64 bytes 64
// CHECK-DAG: %[[COLUMNS:[0-9]+]] = exec.buffer "columns"
// CHECK-DAG: %[[BOTH:[0-9]+]] = exec.buffer "both"
// CHECK: exec.entry @step
// CHECK-NEXT: exec.send %[[X]] to 0 bytes 64
// CHECK-NEXT: exec.send %[[ROWS]] to 1 bytes 64
// CHECK-NEXT: exec.launch @{{.*}}(%[[X]]) -> (%[[COLUMNS]])
// CHECK-NEXT: exec.send %[[COLUMNS]]
// CHECK-NEXT: exec.launch @{{.*}}(%[[X]]) -> (%[[BOTH]])
// CHECK-NEXT: exec.send %[[BOTH]]
autopar.mesh @m0 ["x" = 1]
autopar.mesh @m1 ["x" = 2] devices [1, 2]
func.func @main(%x: tensor<1x8x4xf32> {autopar.name = "x"}) -> (tensor<1x2x4xf32> {autopar.name = "y"})
    attributes {autopar.stage = 0 : i64} {
  %rows0 = autopar.slice %x starts [0, 0, 0] steps [1, 1, 1] {autopar.id = "rows.0"} : tensor<1x8x4xf32> -> tensor<1x4x4xf32>
  autopar.send %rows0 to 1 peers [1] tag 0 : tensor<1x4x4xf32>
  %rows1 = autopar.slice %x starts [0, 4, 0] steps [1, 1, 1] {autopar.id = "rows.1"} : tensor<1x8x4xf32> -> tensor<1x4x4xf32>
  autopar.send %rows1 to 1 peers [2] tag 1 : tensor<1x4x4xf32>
  %columns = autopar.slice %x starts [0, 0, 2] steps [1, 1, 1] {autopar.id = "columns"} : tensor<1x8x4xf32> -> tensor<1x8x2xf32>
  autopar.send %columns to 1 peers [1] tag 2 : tensor<1x8x2xf32>
  %both = autopar.slice %x starts [0, 6, 0] steps [1, 1, 1] {autopar.id = "both"} : tensor<1x8x4xf32> -> tensor<1x2x4xf32>
  autopar.send %both to 1 peers [1] tag 3 : tensor<1x2x4xf32>
  return %both : tensor<1x2x4xf32>
}
