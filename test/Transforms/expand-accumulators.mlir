// RUN: autopar-opt %s --autopar-expand-accumulators | FileCheck %s
// RUN: autopar-opt %s --autopar-expand-accumulators --autopar-form-fusion-groups | FileCheck %s --check-prefix=GROUPS

// Added to what was handed on; short floats in f32.
// CHECK-LABEL: func.func @sum
// CHECK: %[[PART:.*]] = autopar.micro_batch
// CHECK: %[[WIDE:.*]] = autopar.cast %[[PART]] {{.*}} : tensor<4xbf16> -> tensor<4xf32>
// CHECK: %[[BEFORE:.*]] = autopar.carried sum 0 {autopar.id = "s/carried"} : tensor<4xf32>
// CHECK: %[[SUM:.*]] = autopar.binary add %[[WIDE]], %[[BEFORE]] {autopar.id = "s"}
// CHECK: %[[TOTAL:.*]] = autopar.carry 0 %[[SUM]] {autopar.id = "s/carry"}
// CHECK: %[[RESULT:.*]] = autopar.cast %[[TOTAL]] {{.*}} : tensor<4xf32> -> tensor<4xbf16>
// CHECK: return %[[RESULT]]
func.func @sum(%all: tensor<2x4xbf16>) -> tensor<4xbf16> {
  %part = autopar.micro_batch %all : tensor<2x4xbf16> -> tensor<4xbf16>
  %sum = autopar.accumulate sum %part {autopar.id = "s"} : tensor<4xbf16>
  return %sum : tensor<4xbf16>
}

// A scatter into zeros starts from what was handed on, once groups are formed: no addition of its own.
// GROUPS-LABEL: func.func @scatter
// GROUPS-NOT: autopar.binary
// GROUPS: %[[BEFORE:.*]] = autopar.carried sum 0
// GROUPS: %[[GRADIENT:.*]] = autopar.scatter add %[[BEFORE]]
// GROUPS: autopar.carry 0 %[[GRADIENT]]
func.func @scatter(%all: tensor<2x4x1xi64>, %updates: tensor<4x8xf32>) -> tensor<9x8xf32> {
  %positions = autopar.micro_batch %all : tensor<2x4x1xi64> -> tensor<4x1xi64>
  %zero = autopar.constant dense<0.0> : tensor<f32>
  %zeros = autopar.broadcast %zero dims [] : tensor<f32> -> tensor<9x8xf32>
  %gradient = autopar.scatter add %zeros, %positions, %updates : (tensor<9x8xf32>, tensor<4x1xi64>, tensor<4x8xf32>) -> tensor<9x8xf32>
  %sum = autopar.accumulate sum %gradient {autopar.id = "g"} : tensor<9x8xf32>
  return %sum : tensor<9x8xf32>
}
