// RUN: autopar-opt %s --autopar-unroll-micro-batches | FileCheck %s

// The group is cloned per micro-batch, without its addition in the first one; what needs all of them
// comes after the last one.
// CHECK-LABEL: func.func @main
// CHECK: %[[TWICE:.*]] = autopar.binary add %{{.*}} {autopar.id = "before"}
// CHECK: autopar.slice %arg0 starts [0, 0]
// CHECK: %[[FIRST:.*]] = autopar.group %{{.*}}, %[[TWICE]] {autopar.id = "g@0"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[P:.*]] = autopar.binary mul %[[A]], %[[B]]
// CHECK-NEXT: autopar.yield %[[P]]
// CHECK: autopar.slice %arg0 starts [1, 0]
// CHECK: %[[SECOND:.*]] = autopar.group %{{.*}}, %[[TWICE]], %[[FIRST]] {autopar.id = "g@1"}
// CHECK: autopar.binary add
// CHECK: %[[NUMBERS:.*]] = autopar.concat
// CHECK: autopar.unary neg %[[SECOND]] {autopar.id = "after"}
func.func @main(%all: tensor<2x4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<2xi64>) {
  %twice = autopar.binary add %w, %w {autopar.id = "before"} : tensor<4xf32>
  %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
  %before = autopar.carried sum 0 : tensor<4xf32>
  %sum = autopar.group %x, %twice, %before {autopar.id = "g"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>):
    %p = autopar.binary mul %a, %b {autopar.id = "g"} : tensor<4xf32>
    %s = autopar.binary add %p, %c : tensor<4xf32>
    autopar.yield %s : tensor<4xf32>
  }
  %total = autopar.carry 0 %sum : tensor<4xf32>
  %after = autopar.unary neg %total {autopar.id = "after"} : tensor<4xf32>
  %number = autopar.micro_batch_index {autopar.id = "i"} : tensor<i64>
  %numbers = autopar.stack_micro_batches %number {autopar.id = "numbers"} : tensor<i64> -> tensor<2xi64>
  return %after, %numbers : tensor<4xf32>, tensor<2xi64>
}
