// RUN: autopar-opt %s --split-input-file --autopar-split-micro-batches=count=2 --canonicalize --cse | FileCheck %s

// What samples are scattered into counts once: the first micro-batch alone sees it.
// CHECK-LABEL: func.func @main
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<9x4xf32> {
// CHECK: %[[FIRST:.*]] = autopar.compare eq
// CHECK: %[[MASK:.*]] = autopar.broadcast %[[FIRST]]
// CHECK: %[[BASE:.*]] = autopar.select %[[MASK]], %[[W]], %{{.*}} :
// CHECK: %[[SUM:.*]] = autopar.scatter add %[[BASE]]
// CHECK: autopar.accumulate sum %[[SUM]]
func.func @main(%i: tensor<8x1xi64> {autopar.name = "i"}, %u: tensor<8x4xf32> {autopar.name = "u"},
                %w: tensor<9x4xf32> {autopar.name = "w", autopar.donated}) -> tensor<9x4xf32> {
  %next = autopar.scatter add %w, %i, %u {autopar.id = "s"} : (tensor<9x4xf32>, tensor<8x1xi64>, tensor<8x4xf32>) -> tensor<9x4xf32>
  return %next : tensor<9x4xf32>
}

// -----

// Zeros may be added any number of times.
// CHECK-LABEL: func.func @main
// CHECK: %[[ZEROS:.*]] = autopar.constant dense<0.000000e+00> : tensor<9x4xf32>
// CHECK-NOT: autopar.select
// CHECK: %[[SUM:.*]] = autopar.scatter add %[[ZEROS]]
// CHECK: autopar.accumulate sum %[[SUM]]
func.func @main(%i: tensor<8x1xi64> {autopar.name = "i"}, %u: tensor<8x4xf32> {autopar.name = "u"}) -> tensor<9x4xf32> {
  %zeros = autopar.constant dense<0.0> : tensor<9x4xf32>
  %sum = autopar.scatter add %zeros, %i, %u {autopar.id = "s"} : (tensor<9x4xf32>, tensor<8x1xi64>, tensor<8x4xf32>) -> tensor<9x4xf32>
  return %sum : tensor<9x4xf32>
}
