// REQUIRES: avx512
// RUN: autopar-opt %s --autopar-to-exec="channel-block=16" | FileCheck %s

// Filters of 3x3 with stride 1 over enough positions take Winograd's algorithm, in the pack and in
// the call; with stride 2, or over few positions, the direct one.

// CHECK: exec.entry @load
// CHECK: exec.pack {{.*}} y = tensor<1x32x16x16xf32>{{.*}}algorithm = winograd
// CHECK: exec.entry @step
// CHECK: exec.convolution {{.*}} y = tensor<1x32x16x16xf32>{{.*}}algorithm = winograd
// CHECK: exec.convolution {{.*}} y = tensor<1x32x8x8xf32>
// CHECK-NOT: winograd
// CHECK: exec.convolution {{.*}} y = tensor<1x32x8x8xf32>
// CHECK-NOT: winograd
autopar.origin @w0 : tensor<32x32x3x3xf32> in "m.onnx" at 0
autopar.origin @w1 : tensor<32x32x3x3xf32> in "m.onnx" at 36864
autopar.origin @w2 : tensor<32x32x3x3xf32> in "m.onnx" at 73728
func.func @main(%x: tensor<1x32x16x16xf32> {autopar.name = "x"},
                %w0: tensor<32x32x3x3xf32> {autopar.name = "w0", autopar.origin = @w0},
                %w1: tensor<32x32x3x3xf32> {autopar.name = "w1", autopar.origin = @w1},
                %w2: tensor<32x32x3x3xf32> {autopar.name = "w2", autopar.origin = @w2})
    -> (tensor<1x32x8x8xf32> {autopar.name = "y"}) {
  %a = autopar.convolution %x, %w0 {autopar.id = "wide", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x32x16x16xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x16x16xf32>
  %b = autopar.convolution %a, %w1 {autopar.id = "strided", strides = array<i64: 2, 2>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x32x16x16xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  %y = autopar.convolution %b, %w2 {autopar.id = "small", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32>) -> tensor<1x32x8x8xf32>
  return %y : tensor<1x32x8x8xf32>
}
