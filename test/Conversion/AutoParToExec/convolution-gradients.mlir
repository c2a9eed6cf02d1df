// RUN: split-file %s %t
// RUN: autopar-opt %t/library.mlir --autopar-to-exec="channel-block=8" | FileCheck %s
// RUN: autopar-opt %t/library.mlir --autopar-to-exec="channel-block=1" | FileCheck %s --check-prefix=PLAIN
// RUN: not autopar-opt %t/wide.mlir --autopar-to-exec 2>&1 | FileCheck %s --check-prefix=WIDE

// On CPUs gradients of convolutions are calls as well, on blocks of channels: what the step gets of the filter is packed
// there, the gradient of a filter lies in rows. Of a window that is both strided and dilated the library has no fast code
// on blocks.

// CHECK: exec.entry @step
// CHECK: exec.reorder %{{.*}} -> %[[G:[0-9]+]] {{.*}}blocked8
// CHECK: exec.pack %{{.*}} -> %[[W:[0-9]+]] for {{.*}}kind = input_gradient
// CHECK: exec.convolution %[[G]], %[[W]] -> %{{.*}} xLayout = blocked8, yLayout = blocked8, packedW = true, kind = input_gradient
// CHECK: exec.reorder %{{.*}} -> %[[X:[0-9]+]] {{.*}}blocked8
// CHECK: exec.convolution %[[X]], %[[G]] -> %{{.*}} xLayout = blocked8, yLayout = blocked8, kind = filter_gradient
// CHECK: exec.convolution {{.*}} dilations = [2, 2], kind = input_gradient
// PLAIN-NOT: blocked
// PLAIN-NOT: exec.pack

// WIDE: 'autopar.convolution_input_grad' op has no library call: run autopar-expand-convolution-gradients first

//--- library.mlir
func.func @main(%x: tensor<2x16x12x12xf32> {autopar.name = "x"}, %w: tensor<32x16x3x3xf32> {autopar.name = "w"},
                %g: tensor<2x32x6x6xf32> {autopar.name = "g"}, %h: tensor<2x32x5x5xf32> {autopar.name = "h"})
    -> (tensor<2x16x12x12xf32> {autopar.name = "dx"}, tensor<32x16x3x3xf32> {autopar.name = "dw"}, tensor<2x16x12x12xf32> {autopar.name = "dz"}) {
  %dx = autopar.convolution_input_grad %g, %w {autopar.id = "dx", strides = array<i64: 2, 2>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x32x6x6xf32>, tensor<32x16x3x3xf32>) -> tensor<2x16x12x12xf32>
  %dw = autopar.convolution_filter_grad %x, %g {autopar.id = "dw", strides = array<i64: 2, 2>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x16x12x12xf32>, tensor<2x32x6x6xf32>) -> tensor<32x16x3x3xf32>
  %dz = autopar.convolution_input_grad %h, %w {autopar.id = "dz", strides = array<i64: 2, 2>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 2, 2>, groups = 1 : i64} : (tensor<2x32x5x5xf32>, tensor<32x16x3x3xf32>) -> tensor<2x16x12x12xf32>
  return %dx, %dw, %dz : tensor<2x16x12x12xf32>, tensor<32x16x3x3xf32>, tensor<2x16x12x12xf32>
}

//--- wide.mlir
func.func @main(%g: tensor<1x8x6x6xf64> {autopar.name = "g"}, %w: tensor<8x8x3x3xf64> {autopar.name = "w"}) -> (tensor<1x8x6x6xf64> {autopar.name = "dx"}) {
  %dx = autopar.convolution_input_grad %g, %w {autopar.id = "dx", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf64>, tensor<8x8x3x3xf64>) -> tensor<1x8x6x6xf64>
  return %dx : tensor<1x8x6x6xf64>
}
