// RUN: autopar-opt %s --pass-pipeline="builtin.module(func.func(autopar-fold-scales))" | FileCheck %s

// Batch normalization: the scale goes into the filter, the shift stays. An unknown weight is left alone.

// CHECK-LABEL: @main
// CHECK: %[[FACTOR:.*]] = autopar.broadcast %{{.*}} dims [0] {autopar.id = "bn/weight.factor"} : tensor<8xf32> -> tensor<8x3x3x3xf32>
// CHECK: %[[WEIGHT:.*]] = autopar.binary mul %arg1, %[[FACTOR]] {autopar.id = "bn/weight"}
// CHECK: %[[Y:.*]] = autopar.convolution %arg0, %[[WEIGHT]]
// CHECK: autopar.binary add %[[Y]]
// CHECK: %[[D:.*]] = autopar.dot_general
// CHECK: autopar.binary mul %[[D]]
autopar.origin @w : tensor<8x3x3x3xf32>
autopar.origin @s : tensor<8xf32>
func.func @main(%x: tensor<1x3x6x6xf32>, %w: tensor<8x3x3x3xf32> {autopar.origin = @w}, %s: tensor<8xf32> {autopar.origin = @s},
                %a: tensor<4x4xf32>, %b: tensor<4x8xf32>) -> (tensor<1x8x4x4xf32>, tensor<4x8xf32>) {
  %0 = autopar.convolution %x, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x6x6xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x4x4xf32>
  %1 = autopar.unary rsqrt %s : tensor<8xf32>
  %2 = autopar.broadcast %1 dims [1] : tensor<8xf32> -> tensor<1x8x4x4xf32>
  %3 = autopar.binary mul %0, %2 {autopar.id = "bn"} : tensor<1x8x4x4xf32>
  %4 = autopar.binary add %3, %2 : tensor<1x8x4x4xf32>
  %5 = autopar.dot_general %a, %b contract [1] x [0] : (tensor<4x4xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %6 = autopar.broadcast %s dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %7 = autopar.binary mul %5, %6 : tensor<4x8xf32>
  return %4, %7 : tensor<1x8x4x4xf32>, tensor<4x8xf32>
}

// A bias in between is scaled too.
// CHECK-LABEL: @biased
// CHECK: %[[W:.*]] = autopar.binary mul %arg1,
// CHECK: %[[B:.*]] = autopar.binary mul %arg2, %arg3 : tensor<8xf32>
// CHECK: %[[BB:.*]] = autopar.broadcast %[[B]] dims [1]
// CHECK: %[[P:.*]] = autopar.dot_general %arg0, %[[W]]
// CHECK: %[[Y:.*]] = autopar.binary add %[[P]], %[[BB]]
// CHECK: return %[[Y]]
func.func @biased(%x: tensor<4x3xf32>, %w: tensor<3x8xf32> {autopar.origin = @w}, %b: tensor<8xf32> {autopar.origin = @s},
                  %s: tensor<8xf32> {autopar.origin = @s}) -> tensor<4x8xf32> {
  %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<4x3xf32>, tensor<3x8xf32>) -> tensor<4x8xf32>
  %1 = autopar.broadcast %b dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = autopar.binary add %0, %1 : tensor<4x8xf32>
  %3 = autopar.broadcast %s dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %4 = autopar.binary mul %2, %3 : tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// Of a transposed convolution the filter's second dimension is the channels of the result.
// CHECK-LABEL: @transposed
// CHECK: autopar.broadcast %arg2 dims [1] : tensor<8xf32> -> tensor<3x8x2x2xf32>
// CHECK: autopar.convolution_input_grad
// CHECK-NOT: autopar.binary
autopar.origin @tw : tensor<3x8x2x2xf32>
autopar.origin @ts : tensor<8xf32>
func.func @transposed(%x: tensor<1x3x4x4xf32>, %w: tensor<3x8x2x2xf32> {autopar.origin = @tw}, %s: tensor<8xf32> {autopar.origin = @ts}) -> tensor<1x8x8x8xf32> {
  %0 = autopar.convolution_input_grad %x, %w {strides = array<i64: 2, 2>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x4x4xf32>, tensor<3x8x2x2xf32>) -> tensor<1x8x8x8xf32>
  %1 = autopar.broadcast %s dims [1] : tensor<8xf32> -> tensor<1x8x8x8xf32>
  %2 = autopar.binary mul %0, %1 : tensor<1x8x8x8xf32>
  return %2 : tensor<1x8x8x8xf32>
}
