// RUN: autopar-opt %s --split-input-file --autopar-schedule=few-micro-batches | FileCheck %s

// As many micro-batches as show what a step holds; what is stacked is filled up.
// CHECK-LABEL: module attributes {autopar.few_micro_batches}
// CHECK: autopar.unary neg %{{.*}} {autopar.id = "g@0"}
// CHECK: autopar.unary neg %{{.*}} {autopar.id = "g@1"}
// CHECK-NOT: g@2
// CHECK: autopar.concat %[[A:[0-9]+]], %[[B:[0-9]+]], %[[B]], %[[B]], %[[B]], %[[B]], %[[B]], %[[B]] {{.*}} -> tensor<8x4xf32>
module {
  func.func @main(%all: tensor<8x4xf32>) -> tensor<8x4xf32> {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<8x4xf32> -> tensor<4xf32>
    %y = autopar.unary neg %x {autopar.id = "g"} : tensor<4xf32>
    %ys = autopar.stack_micro_batches %y {autopar.id = "ys"} : tensor<4xf32> -> tensor<8x4xf32>
    return %ys : tensor<8x4xf32>
  }
}

// -----

// Where that is all of them, the step is as ever.
// CHECK-LABEL: module {
// CHECK: autopar.unary neg %{{.*}} {autopar.id = "g@1"}
module {
  func.func @main(%all: tensor<2x4xf32>) -> tensor<2x4xf32> {
    %x = autopar.micro_batch %all {autopar.id = "x"} : tensor<2x4xf32> -> tensor<4xf32>
    %y = autopar.unary neg %x {autopar.id = "g"} : tensor<4xf32>
    %ys = autopar.stack_micro_batches %y {autopar.id = "ys"} : tensor<4xf32> -> tensor<2x4xf32>
    return %ys : tensor<2x4xf32>
  }
}
