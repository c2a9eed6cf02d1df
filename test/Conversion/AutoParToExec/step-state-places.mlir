// RUN: autopar-opt %s --autopar-to-exec | FileCheck %s

// A kernel that does not read the old value stores the new one in its place if all that read it come before;
// where one comes later, the new value waits elsewhere.

// CHECK-DAG: exec.port state "early" %[[EARLY:[0-9]+]] : tensor<4xf32>
// CHECK-DAG: exec.port state "late" %[[LATE:[0-9]+]] : tensor<4xf32>
// CHECK: exec.entry @step
// CHECK: exec.launch @{{.*}}(%[[EARLY]]) -> (%[[READ:[0-9]+]])
// CHECK: exec.launch @{{.*}}(%[[READ]]) -> (%[[EARLY]])
// CHECK: exec.launch @{{.*}}(%[[READ]]) -> (%[[NEXT:[0-9]+]])
// CHECK: exec.launch @{{.*}}(%[[LATE]]) -> (%{{[0-9]+}})
// CHECK-NOT: -> %[[EARLY]] at
// CHECK: exec.copy %[[NEXT]] at 0 -> %[[LATE]] at 0 bytes 16
func.func @main(%early: tensor<4xf32> {autopar.name = "early", autopar.donated}, %late: tensor<4xf32> {autopar.name = "late", autopar.donated})
    -> (tensor<4xf32> {autopar.name = "early"}, tensor<4xf32> {autopar.name = "late"}, tensor<4xf32> {autopar.name = "y"}) {
  %read = autopar.group %early {autopar.id = "read"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.unary exp %x : tensor<4xf32>
    autopar.yield %0 : tensor<4xf32>
  }
  %next = autopar.group %read {autopar.id = "next"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.unary sin %x : tensor<4xf32>
    autopar.yield %0 : tensor<4xf32>
  }
  %other = autopar.group %read {autopar.id = "other"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.unary cos %x : tensor<4xf32>
    autopar.yield %0 : tensor<4xf32>
  }
  %y = autopar.group %late {autopar.id = "y"} : (tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %0 = autopar.unary neg %x : tensor<4xf32>
    autopar.yield %0 : tensor<4xf32>
  }
  return %next, %other, %y : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
