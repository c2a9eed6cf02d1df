// What a group repeats of cheap operations does not depend on whether they were written on their own
// before it: here a cast that is also a result, behind a view that only the group reads.
// RUN: autopar-opt %s --autopar-form-fusion-groups | FileCheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xbf16>
func.func @main(%x: tensor<4x6xbf16>) -> (tensor<4x6xf32>, tensor<2x6xf32>) {
  // CHECK: %[[CAST:.*]] = autopar.group %[[X]] {autopar.id = "cast"}
  // CHECK: %[[SUM:.*]] = autopar.group %[[X]] {autopar.id = "sum"}
  // CHECK: autopar.cast
  // CHECK: autopar.reshape
  // CHECK: autopar.reduce
  // CHECK: return %[[CAST]], %[[SUM]]
  %cast = autopar.cast %x {autopar.id = "cast"} : tensor<4x6xbf16> -> tensor<4x6xf32>
  %view = autopar.reshape %cast {autopar.id = "view"} : tensor<4x6xf32> -> tensor<2x2x6xf32>
  %sum = autopar.reduce sum %view dims [1] {autopar.id = "sum"} : tensor<2x2x6xf32> -> tensor<2x6xf32>
  return %cast, %sum : tensor<4x6xf32>, tensor<2x6xf32>
}
