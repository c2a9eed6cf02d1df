// REQUIRES: autopar-compile
// RUN: autopar-compile %s --start-at search --stop-after search --cluster presets:cpux4 --engine random --seed 2 -o - | FileCheck %s
// RUN: autopar-compile %s --start-at search --stop-after search --cluster presets:cpux4 --engine random --seed 3 -o - | FileCheck %s

// What is held of the weight between the phases goes with some of its shardings only: where another one is drawn, it
// is drawn again.
// CHECK: module attributes {autopar.plan = "{{.*}}random
autopar.origin @w : tensor<16x4x3x3xf32>
func.func @main(%x: tensor<8x8x8x8xf32> {autopar.name = "x"}, %w: tensor<16x4x3x3xf32> {autopar.name = "w", autopar.origin = @w})
    -> (tensor<16x4x4xf32> {autopar.name = "y"}) {
  %y = autopar.convolution %x, %w {autopar.id = "conv", filterDilation = array<i64: 1, 1>, groups = 2 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, strides = array<i64: 2, 2>} : (tensor<8x8x8x8xf32>, tensor<16x4x3x3xf32>) -> tensor<8x16x4x4xf32>
  %s = autopar.reduce sum %y dims [0] {autopar.id = "sum", autopar.phase = "backward"} : tensor<8x16x4x4xf32> -> tensor<16x4x4xf32>
  return %s : tensor<16x4x4xf32>
}
